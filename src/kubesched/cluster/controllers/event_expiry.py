"""Events are deleted an hour after they last happened, as API servers do it.

Without an end they would be all that a cluster consists of after a few days of churn.
"""

from __future__ import annotations

from typing import Any, Final

from kubesched.api import ApiError
from kubesched.api.core import Event
from kubesched.api.time import parse_time
from kubesched.apiserver.store.object_store import Store
from kubesched.util.clock import MINUTE, Clock
from kubesched.util.components import StopSwitch

__all__ = ["EventExpiry", "last_seen_ns"]

_LASTS_NS: Final = 60 * MINUTE
_PERIOD_NS: Final = 5 * MINUTE

Json = dict[str, Any]


def last_seen_ns(event: Json) -> int:
    """When an event happened last, as far as it says."""
    series = event.get("series") or {}
    texts = (
        event.get("metadata", {}).get("creationTimestamp"),
        event.get("eventTime"),
        event.get("lastTimestamp"),
        event.get("deprecatedLastTimestamp"),
        series.get("lastObservedTime"),
    )
    return max((parse_time(text) for text in texts if text), default=0)


class EventExpiry:
    """Looks through the events of a store every few minutes."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store, self._clock = store, clock
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._expire_for_ever())

    def stop(self) -> None:
        self._stop.set()

    async def _expire_for_ever(self) -> None:
        while True:
            await self._clock.sleep(_PERIOD_NS)
            self.expire(self._clock.now_ns())

    def expire(self, now_ns: int) -> int:
        """Delete what is old; returns how many there were."""
        resource = self._store.catalog.by_type(Event)
        old = [
            record
            for record in self._store.collection(resource).objects.values()
            if last_seen_ns(record.data) <= now_ns - _LASTS_NS
        ]
        for record in old:
            metadata = record.data["metadata"]
            try:
                self._store.delete(resource, metadata.get("namespace"), metadata["name"], now_ns)
            except ApiError as error:
                if error.code != 404:
                    raise
        return len(old)
