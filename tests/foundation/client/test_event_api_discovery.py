"""Events that are recorded before the server's API for events is known."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from kubesched.api import ApiError, Pod, Status
from kubesched.api.core import Event as CoreEvent
from kubesched.api.events import Event
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.foundation.client.core_event_recorder import CoreEventBroadcaster
from kubesched.foundation.client.event_api_discovery import DiscoveringBroadcaster
from kubesched.foundation.client.event_recorder import EventBroadcaster
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from kubesched.testing import make_pod

AWAY = ApiError(Status(status="Failure", code=0, message="connection refused"))
PODS = 2_500  # more than the queue of core/v1 events has by default


class DiscoveryHarness:
    """A server that is unavailable for some time, and then has or lacks events.k8s.io."""

    def __init__(self, away_s: float, *, has_events: bool, capacity: int = 100_000) -> None:
        clock = current_clock()
        self._back_ns = clock.monotonic_ns() + int(away_s * 1e9)
        self._has_events = has_events
        self._clock = clock
        self.api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        self.dropped = 0
        self.asked = 0
        rng = random.Random(0)
        self.broadcaster = DiscoveringBroadcaster(
            self._serves_events,
            EventBroadcaster(self.api, clock, rng, on_drop=self._drop),
            CoreEventBroadcaster(self.api, clock, rng, on_drop=self._drop, capacity=capacity),
            clock,
            rng,
            on_drop=self._drop,
            capacity=capacity,
        )
        self.recorder = self.broadcaster.recorder("default-scheduler", "host")

    async def _serves_events(self) -> bool:
        self.asked += 1
        await asyncio.sleep(0.01)
        if self._clock.monotonic_ns() < self._back_ns:
            raise AWAY
        return self._has_events

    def _drop(self) -> None:
        self.dropped += 1

    def record(self, pod: Pod) -> None:
        self.recorder.event(pod, "Normal", "Scheduled", "Binding", "assigned")

    async def written(self) -> tuple[int, int]:
        """Return how many events of each API the server has."""
        events = (await self.api.list(Event, "default")).items
        core = (await self.api.list(CoreEvent, "default")).items
        # Both are views of the same objects; only those of events.k8s.io have an action.
        with_action = sum(each.action == "Binding" for each in events)
        return with_action, len(core) - with_action


def virtually(steps: Callable[[], Awaitable[None]]) -> None:
    async def main() -> None:
        await steps()

    run(main)


@pytest.mark.parametrize("has_events", [True, False])
@pytest.mark.parametrize("away_s", [0, 30])
def test_no_event_is_dropped_while_the_server_is_away(away_s: float, *, has_events: bool) -> None:
    async def steps() -> None:
        harness = DiscoveryHarness(away_s, has_events=has_events)
        async with running(harness.broadcaster):
            for number in range(PODS):
                harness.record(make_pod(f"p{number}"))
            await asyncio.sleep(away_s + 10)
            expected = (PODS, 0) if has_events else (0, PODS)
            assert await harness.written() == expected
            harness.record(make_pod("late"))
            await asyncio.sleep(1)
            assert sum(await harness.written()) == PODS + 1
        assert harness.dropped == 0

    virtually(steps)


def test_the_server_is_polled_every_few_seconds() -> None:
    async def steps() -> None:
        harness = DiscoveryHarness(600, has_events=True)
        async with running(harness.broadcaster):
            await asyncio.sleep(599)
            # 0.8 s to 6 s apart.
            assert 100 <= harness.asked <= 220
            assert harness.broadcaster.chosen is None
            await asyncio.sleep(10)
            assert isinstance(harness.broadcaster.chosen, EventBroadcaster)

    virtually(steps)


def test_too_many_waiting_events_are_dropped_and_counted() -> None:
    async def steps() -> None:
        harness = DiscoveryHarness(30, has_events=True, capacity=10)
        async with running(harness.broadcaster):
            for number in range(15):
                harness.record(make_pod(f"p{number}"))
            await asyncio.sleep(60)
            assert harness.dropped == 5
            assert await harness.written() == (10, 0)

    virtually(steps)


def test_a_stop_before_the_answer_sends_the_events_anyway() -> None:
    async def steps() -> None:
        harness = DiscoveryHarness(600, has_events=True)
        async with running(harness.broadcaster):
            await asyncio.sleep(5)
            harness.record(make_pod("p"))
        assert await harness.written() == (1, 0)

    virtually(steps)
