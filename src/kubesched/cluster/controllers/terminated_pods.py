"""Deletion of terminated pods beyond a threshold, the oldest first.

The controller manager does the same (`--terminated-pod-gc-threshold`). Otherwise a Job that never
completes would fill the memory of the process with its pods.
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
    """Deletes surplus terminated pods from a store every twenty seconds."""

    def __init__(self, store: Store, clock: Clock, *, most: int = TERMINATED_POD_THRESHOLD) -> None:
        self._store, self._clock, self._most = store, clock, most
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._collect_periodically())

    def stop(self) -> None:
        self._stop.set()

    async def _collect_periodically(self) -> None:
        while True:
            await self._clock.sleep(_PERIOD_NS)
            try:
                for number, metadata in enumerate(self._surplus(), start=1):
                    self._delete(metadata)
                    if number % _PER_TURN == 0:
                        await asyncio.sleep(0)
            except ApiError as error:
                log.warning("Could not delete terminated pods; retrying later", error=error)

    def _surplus(self) -> list[dict[str, Any]]:
        """Return the metadata of the pods to delete."""
        pods = self._store.collection(self._store.catalog.by_type(Pod)).objects
        if len(pods) <= self._most:
            return []
        terminated = [
            record.data["metadata"]
            for record in pods.values()
            if record.data.get("status", {}).get("phase") in _FINISHED
            and "deletionTimestamp" not in record.data["metadata"]
        ]
        terminated.sort(key=lambda each: (each.get("creationTimestamp", ""), each["name"]))
        return terminated[: max(0, len(terminated) - self._most)]

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
