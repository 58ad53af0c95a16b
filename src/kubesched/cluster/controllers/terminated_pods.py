"""Pods that have ended go when there are too many of them, the oldest first.

As the controller manager does it (`--terminated-pod-gc-threshold`). Without it a Job that never has
enough completions would fill the memory of the process.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final

from kubesched.api import ApiError, Pod
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["TERMINATED_POD_THRESHOLD", "TerminatedPodCollector"]

log = get_logger(__name__)

TERMINATED_POD_THRESHOLD: Final = 12_500
_PERIOD_NS: Final = 20 * SECOND
_PER_TURN: Final = 100
_FINISHED = ("Succeeded", "Failed")
_NOT_FOUND, _CONFLICT = 404, 409


class TerminatedPodCollector:
    """Looks through the pods of a store every twenty seconds."""

    def __init__(self, store: Store, clock: Clock, *, most: int = TERMINATED_POD_THRESHOLD) -> None:
        self._store, self._clock, self._most = store, clock, most
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._collect_for_ever())

    def stop(self) -> None:
        self._stop.set()

    async def _collect_for_ever(self) -> None:
        while True:
            await self._clock.sleep(_PERIOD_NS)
            try:
                for number, metadata in enumerate(self._surplus(), start=1):
                    self._delete(metadata)
                    if number % _PER_TURN == 0:
                        await asyncio.sleep(0)
            except ApiError as error:
                log.warning("Ended pods could not be deleted, trying again later", error=error)

    def _surplus(self) -> list[dict[str, Any]]:
        """Metadata of those that are to go."""
        pods = self._store.collection(self._store.catalog.by_type(Pod)).objects
        if len(pods) <= self._most:
            return []
        ended = [
            record.data["metadata"]
            for record in pods.values()
            if record.data.get("status", {}).get("phase") in _FINISHED
            and "deletionTimestamp" not in record.data["metadata"]
        ]
        ended.sort(key=lambda each: (each.get("creationTimestamp", ""), each["name"]))
        return ended[: max(0, len(ended) - self._most)]

    def _delete(self, metadata: dict[str, Any]) -> None:
        resource = self._store.catalog.by_type(Pod)
        where = (resource, metadata["namespace"], metadata["name"])
        try:
            self._store.delete(
                *where, self._clock.now_ns(), uid=metadata["uid"], grace_period_seconds=0
            )
        except ApiError as error:
            if error.code not in (_NOT_FOUND, _CONFLICT):
                raise
