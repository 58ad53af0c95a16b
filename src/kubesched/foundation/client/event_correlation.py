"""Correlation of core events: which are sent, counted or dropped (docs/reference/02 §8.5).

Repeated events are counted in one object. Many events that differ only in their message are
combined. Events about one object beyond a rate are dropped. The class performs no I/O: it takes an
event with its time, and returns what to send.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from kubesched.api.reference import ObjectReference
from kubesched.foundation.client.rate_limiter import TokenBucket
from kubesched.foundation.util.clock import MINUTE

__all__ = ["CoreEvent", "EventCorrelator", "Seen"]

V = TypeVar("V")

_KEPT = 4096
_COMBINE_FROM = 10
_COMBINE_WITHIN_NS = 10 * MINUTE
_COMBINED = "(combined from similar events): "
_BURST = 25
_REFILL_PER_SECOND = 1 / 300


class CoreEvent(NamedTuple):
    """An event to send."""

    component: str
    about: ObjectReference
    kind: str
    reason: str
    message: str


class Seen:
    """An event that was sent before: its object on the server, and its count."""

    __slots__ = ("count", "first_ns", "message", "name")

    def __init__(self, name: str, message: str, first_ns: int) -> None:
        self.name, self.message, self.first_ns = name, message, first_ns
        self.count = 0


class _Messages:
    __slots__ = ("last_ns", "texts")

    def __init__(self) -> None:
        self.texts: dict[str, None] = {}
        self.last_ns = 0


class _Recent(Generic[V]):
    """A bounded mapping that evicts the least recently used entry."""

    def __init__(self) -> None:
        self._entries: OrderedDict[object, V] = OrderedDict()

    def get(self, key: object, make: Callable[[], V]) -> V:
        entry = self._entries.get(key)
        if entry is None:
            entry = self._entries[key] = make()
            if len(self._entries) > _KEPT:
                self._entries.popitem(last=False)
        else:
            self._entries.move_to_end(key)
        return entry


class EventCorrelator:
    def __init__(self) -> None:
        self._messages: _Recent[_Messages] = _Recent()
        self._seen: _Recent[Seen] = _Recent()
        self._buckets: _Recent[TokenBucket] = _Recent()

    def correlate(self, event: CoreEvent, name: str, now_ns: int) -> Seen | None:
        """Count an event. Returns None if it exceeds the rate and must not be sent.

        With a count of 1 the event must be created; with a higher count the existing object is
        patched.
        """
        about = _without_version(event.about)
        similar = (event.component, about, event.kind, event.reason)
        messages = self._messages.get(similar, _Messages)
        if now_ns - messages.last_ns > _COMBINE_WITHIN_NS:
            messages.texts.clear()
        messages.last_ns = now_ns
        messages.texts[event.message] = None
        message, key = event.message, (*similar, event.message)
        if len(messages.texts) >= _COMBINE_FROM:
            messages.texts.pop(next(iter(messages.texts)))
            message, key = f"{_COMBINED}{event.message}", (*similar, _COMBINED)
        seen = self._seen.get(key, lambda: Seen(name, message, now_ns))
        seen.message = message
        seen.count += 1
        bucket = self._buckets.get(
            (event.component, about, event.kind), lambda: TokenBucket(_REFILL_PER_SECOND, _BURST)
        )
        return seen if bucket.take_if_any(now_ns) else None


def _without_version(reference: ObjectReference) -> tuple[str, ...]:
    return (
        reference.api_version,
        reference.kind,
        reference.namespace,
        reference.name,
        reference.uid,
    )
