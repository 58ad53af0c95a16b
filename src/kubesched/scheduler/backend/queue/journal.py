"""The journal of the queue: the recent transitions of pods, with times and causes.

It is bounded: it has the last transitions of all pods together. It is printed when an invariant is
violated and in descriptions of pods; no decision depends on it.
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
    """Transitions in order, and when each waiting pod entered its container."""

    def __init__(self, length: int = _DEFAULT_LENGTH) -> None:
        self._transitions: deque[Transition] = deque(maxlen=length)
        self._since: dict[str, int] = {}
        self._now_ns = 0

    def enter(self, key: str, place: str, cause: str, now_ns: int) -> None:
        """Record that a pod entered a container."""
        self._now_ns = now_ns
        self._since[key] = now_ns
        self._transitions.append(Transition(now_ns, key, place, cause))

    def leave(self, key: str, place: str, cause: str, now_ns: int | None = None) -> None:
        """Record that a pod no longer waits. The default time is that of the latest entry."""
        self._now_ns = self._now_ns if now_ns is None else now_ns
        self._since.pop(key, None)
        self._transitions.append(Transition(self._now_ns, key, place, cause))

    def note(self, key: str, place: str, cause: str) -> None:
        """Record a transition of a pod that is not waiting."""
        self._transitions.append(Transition(self._now_ns, key, place, cause))

    def is_waiting(self, key: str) -> bool:
        return key in self._since

    def since_ns(self, key: str) -> int:
        return self._since[key]

    def transitions(self, key: str) -> tuple[Transition, ...]:
        """Return the recent transitions of the pods with this key, the oldest first."""
        return tuple(entry for entry in self._transitions if entry.key == key)

    def check_invariants(self, waiting: set[str]) -> None:
        assert self._since.keys() == waiting, (
            f"journal and queue differ on the waiting pods: {sorted(self._since.keys() ^ waiting)}"
        )
