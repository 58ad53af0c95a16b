from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.foundation.util.clock import (
    MILLISECOND,
    MINUTE,
    SECOND,
    Clock,
    ManualClock,
    RealClock,
    VirtualClock,
    clock_of,
    current_clock,
)
from kubesched.foundation.util.virtual_loop import VirtualLoop, run

YEAR = 365 * 24 * 60 * MINUTE


def test_the_running_loop_decides_the_clock() -> None:
    async def main() -> type[Clock]:
        assert type(clock_of(asyncio.get_running_loop())) is type(current_clock())
        return type(current_clock())

    assert run(main) is VirtualClock
    assert asyncio.run(main()) is RealClock


def test_there_is_no_current_clock_outside_a_loop() -> None:
    with pytest.raises(RuntimeError):
        current_clock()


def test_virtual_time_starts_at_the_passed_wall_clock_and_at_monotonic_zero() -> None:
    async def main() -> tuple[int, int]:
        clock = current_clock()
        await clock.sleep(3 * SECOND)
        return clock.now_ns(), clock.monotonic_ns()

    assert run(main, start_ns=100 * SECOND) == (103 * SECOND, 3 * SECOND)


@given(st.lists(st.integers(1, 50 * YEAR), min_size=1, max_size=10))
def test_virtual_sleeps_and_waits_are_exact_for_centuries(durations_ns: list[int]) -> None:
    async def main() -> tuple[int, int]:
        clock = current_clock()
        never = asyncio.Event()
        for duration_ns in durations_ns:
            await clock.sleep(duration_ns)
        slept_ns = clock.monotonic_ns()
        for duration_ns in durations_ns:
            assert not await clock.wait(never, duration_ns)
        return slept_ns, clock.monotonic_ns()

    assert run(main) == (sum(durations_ns), 2 * sum(durations_ns))


def test_waiting_ends_when_the_event_is_set() -> None:
    async def main() -> tuple[bool, int]:
        clock, event = current_clock(), asyncio.Event()
        asyncio.get_running_loop().call_later(2, event.set)
        return await clock.wait(event, 10 * SECOND), clock.monotonic_ns()

    assert run(main) == (True, 2 * SECOND)


def test_waiting_without_a_bound_lasts_until_the_event() -> None:
    async def main() -> tuple[bool, int]:
        clock, event = current_clock(), asyncio.Event()
        asyncio.get_running_loop().call_later(2, event.set)
        return await clock.wait(event), clock.monotonic_ns()

    assert run(main) == (True, 2 * SECOND)


def test_an_event_set_at_the_very_deadline_counts() -> None:
    async def main() -> bool:
        clock, event = current_clock(), asyncio.Event()
        asyncio.get_running_loop().call_later(2, event.set)
        return await clock.wait(event, 2 * SECOND)

    assert run(main) is True


@pytest.mark.parametrize("timeout_ns", [0, -SECOND])
def test_a_wait_with_timeout_zero_yields_once(timeout_ns: int) -> None:
    async def main(clock: Clock) -> tuple[bool, list[str]]:
        ran: list[str] = []
        asyncio.get_running_loop().call_soon(ran.append, "other")
        return await clock.wait(asyncio.Event(), timeout_ns), ran

    async def on_its_own_clock() -> tuple[bool, list[str]]:
        return await main(current_clock())

    assert run(on_its_own_clock) == (False, ["other"])
    assert asyncio.run(on_its_own_clock()) == (False, ["other"])
    assert asyncio.run(main(ManualClock())) == (False, ["other"])


def test_cancelling_a_sleep_or_a_wait_passes_through() -> None:
    async def main() -> int:
        clock = current_clock()
        sleeping = asyncio.create_task(clock.sleep(MINUTE))
        waiting = asyncio.create_task(clock.wait(asyncio.Event(), MINUTE))
        await clock.sleep(SECOND)
        sleeping.cancel()
        waiting.cancel()
        await asyncio.wait([sleeping, waiting])
        assert sleeping.cancelled()
        assert waiting.cancelled()
        return clock.monotonic_ns()

    assert run(main) == SECOND


def test_the_real_clock_reads_the_machine() -> None:
    clock = RealClock()
    assert abs(clock.now_ns() - time.time_ns()) < MINUTE
    before = clock.monotonic_ns()
    assert clock.monotonic_ns() >= before


def test_the_real_clock_waits_on_whatever_loop_runs() -> None:
    async def main(loop: VirtualLoop) -> tuple[bool, bool, int]:
        clock, event = RealClock(), asyncio.Event()
        await clock.sleep(SECOND)
        missed = await clock.wait(event, SECOND)
        loop.call_later(0.5, event.set)
        return missed, await clock.wait(event, SECOND), loop.elapsed_ns

    loop = VirtualLoop()
    try:
        assert loop.run_until_complete(main(loop)) == (False, True, 2_500 * MILLISECOND)
    finally:
        loop.close()


def test_a_manual_clock_advances_on_request() -> None:
    clock = ManualClock(7 * SECOND)
    clock.advance(SECOND)
    assert (clock.now_ns(), clock.monotonic_ns()) == (8 * SECOND, SECOND)


def test_a_manual_clock_moves_by_its_sleeps_and_missed_waits() -> None:
    async def main(clock: ManualClock) -> None:
        await clock.sleep(2 * SECOND)
        event = asyncio.Event()
        assert not await clock.wait(event, SECOND)
        event.set()
        assert await clock.wait(event, SECOND)

    clock = ManualClock()
    asyncio.run(main(clock))
    assert clock.monotonic_ns() == 3 * SECOND
