"""Event expiry: events are deleted an hour after they last happened, as in Kubernetes.

Otherwise the events of a few days of churn would outnumber all other objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

from kubesched.api import ApiError
from kubesched.api.core import Event
from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import MINUTE, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["LASTS_NS", "EventExpiry", "last_seen_ns"]

log = get_logger(__name__)

LASTS_NS: Final = 60 * MINUTE
_PERIOD_NS: Final = 5 * MINUTE
# Deletions per turn of the loop: after an hour of churn there are many thousands.
_PER_TURN: Final = 100

Json = dict[str, Any]


def last_seen_ns(event: Json, now_ns: int) -> int:
    """Return when an event last happened, from its timestamps.

    Invalid and future times do not count, so that every event expires.
    """
    series = event.get("series") or {}
    texts = (
        event.get("metadata", {}).get("creationTimestamp"),
        event.get("eventTime"),
        event.get("lastTimestamp"),
        event.get("deprecatedLastTimestamp"),
        series.get("lastObservedTime"),
    )
    return max((at_ns for text in texts if (at_ns := _time_ns(text)) <= now_ns), default=0)


def _time_ns(text: str | None) -> int:
    try:
        return parse_time(text or "")
    except ValueError:
        return 0


class EventExpiry:
    """Deletes expired events from a store every few minutes."""

    def __init__(self, store: Store, clock: Clock, *, lasts_ns: int = LASTS_NS) -> None:
        self._store, self._clock, self._lasts_ns = store, clock, lasts_ns
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._expire_periodically())

    def stop(self) -> None:
        self._stop.set()

    async def _expire_periodically(self) -> None:
        while True:
            await self._clock.sleep(min(_PERIOD_NS, self._lasts_ns))
            try:
                for number, _ in enumerate(self._delete_expired(self._clock.now_ns()), start=1):
                    if number % _PER_TURN == 0:
                        await asyncio.sleep(0)
            except ApiError as error:
                log.warning("Could not delete expired events; retrying later", error=error)

    def expire(self, now_ns: int) -> int:
        """Delete the expired events, and return how many there were."""
        return sum(1 for _ in self._delete_expired(now_ns))

    def _delete_expired(self, now_ns: int) -> Iterator[None]:
        """Delete the expired events; yield after each one."""
        resource = self._store.catalog.by_type(Event)
        old = [
            record
            for record in self._store.collection(resource).objects.values()
            if last_seen_ns(record.data, now_ns) <= now_ns - self._lasts_ns
        ]
        for record in old:
            metadata = record.data["metadata"]
            try:
                self._store.delete(resource, metadata.get("namespace"), metadata["name"], now_ns)
            except ApiError as error:
                if error.code != 404:
                    raise
            yield
