"""The state that plugins store for one pod during one scheduling attempt (docs/reference/04 §9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from kubesched.api import Pod
from kubesched.errors import KubeschedError

__all__ = ["Clonable", "CycleState", "StateNotFoundError"]


class StateNotFoundError(KubeschedError, LookupError):
    """No plugin wrote this key during the attempt."""

    def __init__(self, key: str) -> None:
        super().__init__("not found")
        self.key = key


@runtime_checkable
class Clonable(Protocol):
    """State that a dry run may change: it is copied with the cycle state."""

    def clone(self) -> Any: ...


class CycleState:
    """A key/value store for one attempt, with the runtime's own records about the plugins.

    Values without a `clone` method are shared between clones, so they must not change
    after they were written. The sets and `pods_to_activate` are shared on purpose.
    """

    __slots__ = (
        "_values",
        "adjust_assumed",
        "asks_every_node",
        "cached_answers",
        "is_paused",
        "may_pause",
        "plugin_timer",
        "pods_to_activate",
        "skip_filter",
        "skip_pre_bind",
        "skip_score",
    )

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self.plugin_timer: Any = None  # set by the runtime if the attempt's plugins are timed
        # the runtime's cache entry for pods that are equal to this one
        self.cached_answers: object = None
        # Whether a plugin's Filter may raise for some node. The attempt then filters every node.
        self.asks_every_node = False
        # Whether the attempt may be interrupted so that the event loop can run, and whether a
        # plugin's PreFilter did so. The plugin caches its intermediate results, and the attempt
        # starts again.
        self.may_pause = False
        self.is_paused = False
        # Set by a plugin: returns the pod as it will be on a node, if that differs.
        self.adjust_assumed: Callable[[Pod, str], Pod] | None = None
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        self.skip_pre_bind: set[str] = set()
        # Pods ("ns/name" -> pod) that plugins activate once this pod is placed.
        self.pods_to_activate: dict[str, Pod] = {}

    def read(self, key: str) -> Any:
        """Return the value that was written under the key.

        Raises:
            StateNotFoundError: no value was written.
        """
        try:
            return self._values[key]
        except KeyError:
            raise StateNotFoundError(key) from None

    def write(self, key: str, value: Any) -> None:
        self._values[key] = value

    def delete(self, key: str) -> None:
        self._values.pop(key, None)

    def clone(self) -> CycleState:
        """Copy the state so that a dry run can change it."""
        copy = CycleState.__new__(CycleState)
        # Not isinstance(value, Clonable): a protocol check takes longer than most copies.
        copy._values = {
            key: value.clone() if hasattr(value, "clone") else value
            for key, value in self._values.items()
        }
        copy.plugin_timer = self.plugin_timer
        copy.cached_answers = None
        copy.asks_every_node = self.asks_every_node
        copy.may_pause = False
        copy.is_paused = False
        copy.adjust_assumed = self.adjust_assumed
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        copy.skip_pre_bind = self.skip_pre_bind
        copy.pods_to_activate = self.pods_to_activate
        return copy
