"""The recent history of the queue: which pod went where, when and why.

Bounded: the last transitions of all pods together. It is what a broken invariant prints and what
a person sees who asks about a pod; nothing is decided from it.
"""

from __future__ import annotations

from collections import deque

import msgspec

from kubesched.foundation.util.clock import SECOND

__all__ = ["Journal", "Transition"]

_DEFAULT_LENGTH = 8192


class Transition(msgspec.Struct, frozen=True, gc=False):
    """A pod entered a place, or left the queue. `cause` is an event's label or an operation."""

    at_ns: int
    key: str
    place: str
    cause: str

    def __str__(self) -> str:
        return f"{self.at_ns / SECOND:.9f} {self.key} -> {self.place} ({self.cause})"


class Journal:
    """Transitions in order, and since when each waiting pod is where it is."""

    def __init__(self, length: int = _DEFAULT_LENGTH) -> None:
        self._transitions: deque[Transition] = deque(maxlen=length)
        self._since: dict[str, int] = {}
        self._now_ns = 0

    def enter(self, key: str, place: str, cause: str, now_ns: int) -> None:
        """Note that a pod waits in a place from now on."""
        self._now_ns = now_ns
        self._since[key] = now_ns
        self._transitions.append(Transition(now_ns, key, place, cause))

    def leave(self, key: str, place: str, cause: str, now_ns: int | None = None) -> None:
        """Note that a pod no longer waits. Without a time, it is that of the latest entry."""
        self._now_ns = self._now_ns if now_ns is None else now_ns
        self._since.pop(key, None)
        self._transitions.append(Transition(self._now_ns, key, place, cause))

    def note(self, key: str, place: str, cause: str) -> None:
        """Note something about a pod that is not waiting."""
        self._transitions.append(Transition(self._now_ns, key, place, cause))

    def is_waiting(self, key: str) -> bool:
        return key in self._since

    def since_ns(self, key: str) -> int:
        return self._since[key]

    def story(self, key: str) -> tuple[Transition, ...]:
        """Return the recent transitions of the pods with this key, the oldest first."""
        return tuple(entry for entry in self._transitions if entry.key == key)

    def check_invariants(self, waiting: set[str]) -> None:
        assert self._since.keys() == waiting, (
            f"journal and queue differ on who waits: {sorted(self._since.keys() ^ waiting)}"
        )
