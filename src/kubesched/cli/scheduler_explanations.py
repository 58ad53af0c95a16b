"""Explanations by a running scheduler, for its endpoint `/explain`.

A forked child computes each explanation (decision 0025) from the objects of the informers and the
queue at that moment, so no scheduling cycle waits for it. Requests are answered one by one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from kubesched.api.base import ApiObject
from kubesched.explain import ExplainError, Snapshot
from kubesched.explain.queue_places import place_of, queue_of
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.forked import ChildError, in_child
from kubesched.scheduler.all_plugins import complete_registry
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.runtime.plugin_registry import Registry
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["SchedulerExplanations"]

_LONGEST_S = 60.0


class SchedulerExplanations:
    """Answers requests below `/explain`. `scheduler` returns None until it is built."""

    def __init__(
        self,
        scheduler: Callable[[], Scheduler | None],
        clock: Clock,
        plugins: Registry,
        gates: FeatureGates,
    ) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._plugins = complete_registry(plugins)
        self._gates = gates
        self._turn = asyncio.Lock()

    async def explain(
        self, namespace: str, name: str, *, versus: str = "", suggest: bool = True
    ) -> bytes:
        """Return the explanation of a pod as JSON, with its place in the queue.

        Raises:
            ExplainError: there is no such pod.
        """
        key, scheduler = f"{namespace}/{name}", self._running()

        def work() -> bytes:
            snapshot = Snapshot(
                _objects(scheduler),
                configuration=scheduler.configuration,
                clock=self._clock,
                plugins=self._plugins,
                gates=self._gates,
            )
            answer: dict[str, Any] = snapshot.explain(key, versus=versus, suggest=suggest).to_dict()
            place = scheduler.queue.describe(key, self._clock.now_ns())
            if place is not None:
                answer["queue"] = place_of(place, scheduler.queue.line())
            return msgspec.json.encode(answer)

        return await self._in_child(work)

    async def queue(self) -> bytes:
        """Return all pods of the queue, as JSON."""
        scheduler = self._running()
        return await self._in_child(
            lambda: msgspec.json.encode(queue_of(scheduler.queue, self._clock.now_ns()))
        )

    def _running(self) -> Scheduler:
        scheduler = self._scheduler()
        if scheduler is None:
            raise ExplainError("this process has not begun to schedule")
        return scheduler

    async def _in_child(self, work: Callable[[], bytes]) -> bytes:
        async with self._turn:
            if not hasattr(os, "fork"):
                return await asyncio.to_thread(work)
            try:
                return await in_child(work, _LONGEST_S)
            except ChildError as error:
                raise ExplainError(str(error)) from error


def _objects(scheduler: Scheduler) -> Iterable[ApiObject]:
    for informer in scheduler.informers.components():
        yield from informer.store.list()
