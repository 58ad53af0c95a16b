"""A scheduler that can be exchanged for one with another configuration, while the cluster runs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubesched.scheduler.backend.queue.view import PodPlace
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["ReplaceableScheduler"]


class ReplaceableScheduler:
    """A component: runs one scheduler after the other. `build` makes one of a configuration."""

    def __init__(
        self,
        configuration: KubeSchedulerConfiguration,
        build: Callable[[KubeSchedulerConfiguration], Scheduler],
    ) -> None:
        self.configuration = configuration
        self._build = build
        self.current = build(configuration)
        self._next: Scheduler | None = None
        self._turn = asyncio.Lock()
        self._attach: Callable[[Scheduler], None] | None = None
        self._stopping = False

    def watch(self, attach: Callable[[Scheduler], None]) -> None:
        """Have somebody look on, whichever scheduler makes the attempts."""
        self._attach = attach
        attach(self.current)

    def describe(self, pod_key_or_uid: str, now_ns: int) -> PodPlace | None:
        """Where a pod stands in the queue of the present scheduler."""
        return self.current.queue.describe(pod_key_or_uid, now_ns)

    async def replace(self, configuration: KubeSchedulerConfiguration) -> None:
        """Go on with another configuration; returns once it knows the cluster.

        What the old scheduler had begun to bind is finished first.

        Raises:
            ConfigError: no scheduler can be built from it; the old one goes on.
        """
        async with self._turn:
            fresh = self._build(configuration)
            if self._attach is not None:
                self._attach(fresh)
            self._next = fresh
            self.configuration = configuration
            self.current.stop()
            if not self._stopping:
                await fresh.synced.wait()

    async def run(self) -> None:
        while True:
            await self.current.run()
            if self._next is None or self._stopping:
                return
            self.current, self._next = self._next, None

    def stop(self) -> None:
        self._stopping = True
        self.current.stop()
        if self._next is not None:
            # Somebody may wait for it to know the cluster.
            self._next.synced.set()
