"""Explanations from inside a running scheduler, for its own endpoint.

The objects are those that its informers have, taken in one step on the event loop; the explanation
is worked out in a thread, so no scheduling cycle waits for it. One at a time, however many ask.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

import msgspec

from kubesched.api.base import ApiObject
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.explain import Snapshot
from kubesched.scheduler.scheduler import Scheduler
from kubesched.util.clock import Clock

__all__ = ["SchedulerExplanations"]


class SchedulerExplanations:
    """Answers `/explain/…` of a process."""

    def __init__(
        self, scheduler: Scheduler, configuration: KubeSchedulerConfiguration, clock: Clock
    ) -> None:
        self._scheduler = scheduler
        self._configuration = configuration
        self._clock = clock
        self._turn = asyncio.Lock()

    async def explain(self, namespace: str, name: str) -> bytes:
        """The explanation of a pod as JSON, with its place in the queue.

        Raises:
            ExplainError: there is no such pod, or it is not this scheduler's.
        """
        key = f"{namespace}/{name}"
        async with self._turn:
            objects = list(self._objects())
            configuration, clock = self._configuration, self._clock

            def work() -> dict[str, Any]:
                snapshot = Snapshot(objects, configuration=configuration, clock=clock)
                return snapshot.explain(key).to_dict()

            answer = await asyncio.to_thread(work)
        place = self._scheduler.queue.describe(key, self._clock.now_ns())
        if place is not None:
            shown: dict[str, Any] = msgspec.to_builtins(place)
            shown.pop("pod", None)
            answer["queue"] = shown
        return msgspec.json.encode(answer)

    def _objects(self) -> Iterable[ApiObject]:
        for informer in self._scheduler.informers.components():
            yield from informer.store.list()
