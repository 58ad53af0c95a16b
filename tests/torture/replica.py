"""One scheduler process after another on a machine: elected, crashed, paused, started again."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Mapping
from typing import Any

from kubesched.client.leader_election import ElectionSettings, LeaderElector
from kubesched.scheduler.scheduler import Scheduler
from tests.client.wire_network import Machine, Network

__all__ = ["Replica"]


class Replica:
    """Runs until cancelled. `crash` kills the process at whatever it awaits."""

    def __init__(self, network: Network, number: int, options: Mapping[str, Any]) -> None:
        self._network, self._number, self._options = network, number, dict(options)
        self.machine = Machine(network.clock)
        self.lives = 0
        self.scheduler: Scheduler | None = None
        self.is_leading = False
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        self.deaths: list[BaseException] = []

    async def run(self) -> None:
        while True:
            self.lives += 1
            await self._live(f"{self._number}-{self.lives}")
            await asyncio.sleep(1)

    async def _live(self, identity: str) -> None:
        clock, settings = self._network.clock, ElectionSettings(identity=identity)
        lease = self._network.client(
            f"lease {identity}", self.machine, timeout_ns=settings.request_timeout_ns
        )
        elector = LeaderElector(lease, clock, random.Random(identity), settings)
        api = self._network.client(identity, self.machine, fence=elector.fence)
        begins = asyncio.Event()
        self.scheduler = Scheduler(
            api, clock, seed=self._number, begins=begins, stream_lists=True, **self._options
        )
        placing = asyncio.create_task(self.scheduler.run(), name="placing")
        leading = asyncio.create_task(elector.run(), name="leading")
        self._tasks = (placing, leading)
        waiting = asyncio.create_task(elector.leading.wait(), name="waiting")
        try:
            await asyncio.wait({waiting, *self._tasks}, return_when=asyncio.FIRST_COMPLETED)
            if elector.leading.is_set():
                self.is_leading = True
                begins.set()
                over = asyncio.create_task(elector.over.wait(), name="over")
                try:
                    await asyncio.wait({over, placing}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    over.cancel()
        finally:
            self.is_leading = False
            for task in (*self._tasks, waiting):
                task.cancel()
            ended = await asyncio.gather(*self._tasks, waiting, return_exceptions=True)
            self.deaths += [
                each
                for each in ended
                if isinstance(each, BaseException) and not isinstance(each, asyncio.CancelledError)
            ]

    def crash(self) -> None:
        for task in self._tasks:
            task.cancel()
