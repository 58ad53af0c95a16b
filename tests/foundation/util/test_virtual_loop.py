from __future__ import annotations

import asyncio
import gc
import itertools
import random
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.errors import DeadlockError, VirtualTimeError
from kubesched.foundation.util.virtual_loop import VirtualLoop, run

NS = 1_000_000_000


def virtual_loop() -> VirtualLoop:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    return loop


def test_sleeping_moves_the_clock_by_exactly_the_sleep() -> None:
    async def main() -> tuple[float, int]:
        await asyncio.sleep(300)
        await asyncio.sleep(0.1)
        return asyncio.get_running_loop().time(), virtual_loop().elapsed_ns

    assert run(main()) == (300.1, 300_100_000_000)


def test_a_virtual_loop_runs_where_another_loop_runs() -> None:
    """The kernel of a notebook runs an event loop, and its thread cannot run a second one."""

    async def inner() -> tuple[float, int]:
        await asyncio.sleep(300)
        return asyncio.get_running_loop().time(), threading.get_ident()

    async def main() -> tuple[float, int]:
        return run(inner())

    elapsed, thread = asyncio.run(main())
    assert elapsed == 300
    assert thread != threading.get_ident()


def test_exceptions_of_a_nested_loop_are_raised_in_the_caller() -> None:
    async def forever() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        run(forever)

    with pytest.raises(DeadlockError):
        asyncio.run(main())


def test_many_small_sleeps_add_up_without_rounding() -> None:
    async def main() -> int:
        for _ in range(10_000):
            await asyncio.sleep(0.1)
        return virtual_loop().elapsed_ns

    assert run(main) == 1_000 * NS


def test_the_wall_clock_starts_at_the_passed_time() -> None:
    async def main() -> tuple[int, int]:
        before = virtual_loop().now_ns
        await asyncio.sleep(2)
        return before, virtual_loop().now_ns

    assert run(main, start_ns=5 * NS) == (5 * NS, 7 * NS)


def test_computing_takes_no_time() -> None:
    async def main() -> int:
        for _ in range(1_000):
            await asyncio.sleep(0)
        return virtual_loop().elapsed_ns

    assert run(main) == 0


def test_equal_times_fire_in_the_order_they_were_set() -> None:
    async def main() -> list[int]:
        fired: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_later(1, fired.append, number)
        await asyncio.sleep(2)
        return fired

    assert run(main) == list(range(50))


def test_a_timer_of_the_past_fires_without_turning_time_back() -> None:
    async def main() -> tuple[list[str], int]:
        await asyncio.sleep(10)
        fired: list[str] = []
        asyncio.get_running_loop().call_at(3, fired.append, "late")
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        return fired, virtual_loop().elapsed_ns

    assert run(main) == (["late"], 10 * NS)


@given(st.lists(st.integers(0, 10**6), max_size=40))
def test_sleeping_tasks_resume_in_the_order_of_their_times(delays_us: list[int]) -> None:
    async def sleeper(number: int, delay_us: int, woken: list[tuple[int, int]]) -> None:
        await asyncio.sleep(delay_us / 1_000_000)
        woken.append((delay_us, number))

    async def main() -> tuple[list[tuple[int, int]], int]:
        woken: list[tuple[int, int]] = []
        async with asyncio.TaskGroup() as tasks:
            for number, delay_us in enumerate(delays_us):
                # A sleep of 0 is a bare yield and not a timer; 1 µs keeps the order comparable.
                tasks.create_task(sleeper(number, delay_us + 1, woken))
        return woken, virtual_loop().elapsed_ns

    woken, elapsed_ns = run(main)
    assert woken == sorted((delay + 1, number) for number, delay in enumerate(delays_us))
    assert elapsed_ns == (max(delays_us) + 1) * 1_000 if delays_us else elapsed_ns == 0


async def walk(
    number: int, moves: random.Random, trace: list[str], mailbox: asyncio.Queue[int]
) -> None:
    for step in range(4):
        choice = moves.randrange(5)
        if choice == 0:
            await asyncio.sleep(moves.random())
        elif choice == 1:
            mailbox.put_nowait(number)
        elif choice == 2:
            try:
                async with asyncio.timeout(moves.random()):
                    trace.append(f"{number} got {await mailbox.get()}")
            except TimeoutError:
                trace.append(f"{number} gave up")
        elif choice == 3:
            try:
                await asyncio.wait_for(asyncio.sleep(moves.random()), timeout=moves.random())
            except TimeoutError:
                trace.append(f"{number} was late")
        else:
            try:
                async with asyncio.TaskGroup() as inner:
                    for _ in range(5):
                        inner.create_task(asyncio.sleep(9)).add_done_callback(
                            lambda task: trace.append(task.get_name())
                        )
                    await asyncio.sleep(moves.random())
                    raise KeyError(number)
            except* KeyError:
                trace.append(f"{number} failed")
        trace.append(f"{virtual_loop().elapsed_ns} {number}.{step}")


def random_program(seed: int) -> list[str]:
    async def main() -> list[str]:
        trace: list[str] = []
        mailbox: asyncio.Queue[int] = asyncio.Queue()
        async with asyncio.TaskGroup() as tasks:
            for number in range(6):
                tasks.create_task(
                    walk(number, virtual_loop().random("walk", number), trace, mailbox)
                )
        return trace

    return run(main, seed=seed)


@given(st.integers(0, 2**32))
def test_a_seed_repeats_its_run_exactly(seed: int) -> None:
    first = random_program(seed)
    litter = [object() for _ in range(seed % 1_000)]  # other addresses, same run
    assert random_program(seed) == first
    assert len(litter) == seed % 1_000


def test_another_seed_leads_to_another_run() -> None:
    assert random_program(1) != random_program(2)


def test_task_groups_cancel_in_the_order_of_creation() -> None:
    async def main() -> list[str]:
        ended: list[str] = []

        async def child(name: str) -> None:
            try:
                await asyncio.sleep(100)
            finally:
                ended.append(name)

        try:
            async with asyncio.TaskGroup() as tasks:
                for number in range(20):
                    tasks.create_task(child(str(number)))
                await asyncio.sleep(1)
                raise KeyError
        except* KeyError:
            pass
        return ended

    assert run(main) == [str(number) for number in range(20)]


def test_unnamed_tasks_are_numbered_from_one_in_each_run() -> None:
    async def main() -> list[str]:
        tasks = [asyncio.create_task(asyncio.sleep(0)) for _ in range(2)]
        named = asyncio.create_task(asyncio.sleep(0), name="mine")
        await asyncio.gather(named, *tasks)
        current = asyncio.current_task()
        assert current is not None
        return [current.get_name(), *(task.get_name() for task in tasks), named.get_name()]

    assert run(main) == run(main) == ["Task-1", "Task-2", "Task-3", "mine"]


def test_cancelled_timers_do_not_pile_up() -> None:
    async def main() -> tuple[int, int]:
        for _ in range(5_000):
            async with asyncio.timeout(3_600):
                await asyncio.sleep(0)
        return len(virtual_loop()._timers), virtual_loop().elapsed_ns

    timers, elapsed_ns = run(main)
    assert timers <= 101
    assert elapsed_ns == 0


def test_a_cancelled_timer_does_not_move_the_clock() -> None:
    async def main() -> int:
        asyncio.get_running_loop().call_later(100, print).cancel()
        await asyncio.sleep(1)
        return virtual_loop().elapsed_ns

    assert run(main) == NS


@given(st.integers(0, 2**51 - 1))
def test_every_nanosecond_of_26_days_survives_conversion_to_float(when_ns: int) -> None:
    assert round((when_ns / NS) * NS) == when_ns


def test_stopping_before_running_does_one_pass_and_moves_no_time() -> None:
    loop = VirtualLoop()
    try:
        fired: list[int] = []
        loop.call_later(0, fired.append, 0)
        loop.call_later(5, fired.append, 5)
        loop.stop()
        loop.run_forever()
        assert (fired, loop.elapsed_ns) == ([0], 0)
    finally:
        loop.close()


class TestDeadlock:
    def test_names_every_waiting_task_and_its_place(self) -> None:
        async def wait_for_ever(event: asyncio.Event) -> None:
            await event.wait()

        async def main() -> None:
            await asyncio.sleep(12.5)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(wait_for_ever(asyncio.Event()), name="left")
                tasks.create_task(asyncio.Queue().get(), name="right")

        with pytest.raises(DeadlockError) as caught:
            run(main)
        text = str(caught.value)
        assert text.startswith("virtual time stopped at 12.5 s: ")
        first, left, right = caught.value.waiting
        assert first.startswith("'Task-1' waits at ")
        # Python 3.14 moved the code of __aexit__ to _aexit.
        assert first.endswith(("main, inside TaskGroup.__aexit__", "main, inside TaskGroup._aexit"))
        assert left.startswith("'left' waits at ")
        assert "test_virtual_loop.py:" in left
        assert left.endswith("wait_for_ever, inside Event.wait")
        assert right.startswith("'right' waits at ")
        assert right.endswith("in Queue.get")
        assert all(line in text for line in caught.value.waiting)

    def test_tasks_that_spin_without_advancing_time_are_detected(self) -> None:
        async def main() -> None:
            ready = False
            asyncio.create_task(asyncio.sleep(1), name="sleeper")  # noqa: RUF006
            while not ready:  # noqa: ASYNC110
                await asyncio.sleep(0)

        with pytest.raises(DeadlockError, match="no task let it pass in 500 passes") as caught:
            run(main, max_passes=500)
        assert any("'Task-1' waits at" in line for line in caught.value.waiting)

    def test_many_iterations_are_allowed_while_time_advances(self) -> None:
        async def main() -> None:
            for _ in range(100):
                for _ in range(10):
                    await asyncio.sleep(0)
                await asyncio.sleep(1)

        run(main, max_passes=20)

    def test_remaining_tasks_are_cleaned_up(self) -> None:
        ended: list[str] = []

        async def main() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append("main")

        with pytest.raises(DeadlockError):
            run(main)
        assert ended == ["main"]

    def test_a_task_that_refuses_cancellation_does_not_hang_the_cleanup(self) -> None:
        async def stubborn() -> None:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                await asyncio.Event().wait()

        kept: list[asyncio.Task[None]] = []

        async def main() -> None:
            kept.append(asyncio.create_task(stubborn(), name="stubborn"))
            await asyncio.sleep(1)

        with pytest.raises(DeadlockError, match="'stubborn' waits at"):
            run(main)
        # The loop is closed; asyncio must not warn about the remaining task.
        kept[0]._log_destroy_pending = False  # type: ignore[attr-defined]


REFUSED: dict[str, Callable[[asyncio.AbstractEventLoop], Any]] = {
    "threads": lambda loop: loop.run_in_executor(None, print),
    "asyncio.to_thread": lambda _: asyncio.to_thread(print),
    "readers": lambda loop: loop.add_reader(0, print),
    "writers": lambda loop: loop.add_writer(1, print),
    "connections": lambda _: asyncio.open_connection("127.0.0.1", 1),
    "servers": lambda _: asyncio.start_server(lambda _r, _w: None, "127.0.0.1", 0),
    "name lookups": lambda loop: loop.getaddrinfo("localhost", 80),
    "signals": lambda loop: loop.add_signal_handler(2, print),
    "child processes": lambda _: asyncio.create_subprocess_exec("true"),
}


@pytest.mark.parametrize("ask", REFUSED.values(), ids=REFUSED)
def test_sockets_and_processes_are_refused(
    ask: Callable[[asyncio.AbstractEventLoop], Any],
) -> None:
    async def main() -> None:
        answer = ask(asyncio.get_running_loop())
        if asyncio.iscoroutine(answer):
            await answer

    with pytest.raises(VirtualTimeError, match="cannot be used on a virtual-time loop"):
        run(main)


def test_sockets_are_refused() -> None:
    async def main() -> None:
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            await asyncio.get_running_loop().sock_recv(left, 1)

    with pytest.raises(VirtualTimeError, match="sock_recv"):
        run(main)


def test_other_threads_are_refused() -> None:
    async def main() -> list[str]:
        loop, seen = asyncio.get_running_loop(), []

        def intrude() -> None:
            try:
                loop.call_soon_threadsafe(print)
            except VirtualTimeError as error:
                seen.append(str(error))

        thread = threading.Thread(target=intrude)
        thread.start()
        thread.join()
        return seen

    assert run(main) == ["a callback from another thread cannot be used on a virtual-time loop"]


class TestRun:
    def test_returns_what_the_coroutine_returns(self) -> None:
        async def main() -> str:
            return "done"

        assert run(main()) == "done"

    def test_a_factory_runs_inside_the_loop(self) -> None:
        def build() -> Coroutine[Any, Any, int]:
            loop = asyncio.get_running_loop()

            async def main() -> int:
                return id(asyncio.get_running_loop())

            assert isinstance(loop, VirtualLoop)
            return main()

        assert isinstance(run(build), int)

    def test_passes_exceptions_on(self) -> None:
        async def main() -> None:
            raise KeyError("x")

        with pytest.raises(KeyError):
            run(main())

    def test_remaining_tasks_are_cancelled(self) -> None:
        ended: list[str] = []

        async def forever() -> None:
            try:
                for _ in itertools.count():
                    await asyncio.sleep(1)
            finally:
                await asyncio.sleep(1)
                ended.append("forever")

        async def main() -> None:
            task = asyncio.create_task(forever())
            await asyncio.sleep(2)
            assert not task.done()

        run(main)
        assert ended == ["forever"]

    def test_async_generators_left_over_are_closed(self) -> None:
        closed: list[str] = []
        kept: list[AsyncIterator[int]] = []

        async def numbers() -> AsyncIterator[int]:
            try:
                while True:
                    yield 1
            finally:
                await asyncio.sleep(1)
                closed.append("numbers")

        async def main() -> None:
            kept.append(numbers())
            await anext(kept[0])

        run(main)
        assert closed == ["numbers"]

    def test_async_generators_dropped_during_the_run_are_closed(self) -> None:
        closed: list[int] = []

        async def numbers() -> AsyncIterator[int]:
            try:
                while True:
                    yield 1
            finally:
                await asyncio.sleep(1)
                closed.append(virtual_loop().elapsed_ns)

        async def main() -> None:
            async for _ in numbers():
                break
            gc.collect()
            await asyncio.sleep(5)

        run(main)
        assert closed == [NS]

    def test_debug_mode_works(self) -> None:
        async def main() -> int:
            await asyncio.sleep(10)
            return virtual_loop().elapsed_ns

        assert run(main, debug=True) == 10 * NS
