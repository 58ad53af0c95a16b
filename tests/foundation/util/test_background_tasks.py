"""Background tasks end with their owner."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.foundation.util.components import BackgroundTasks
from kubesched.foundation.util.virtual_loop import run


def test_tasks_started_during_cancellation_are_cancelled() -> None:
    async def steps() -> None:
        tasks, begun = BackgroundTasks(), []

        async def for_ever(name: str) -> None:
            begun.append(name)
            await asyncio.Event().wait()

        async def leaves_more() -> None:
            try:
                await for_ever("first")
            finally:
                tasks.spawn(for_ever("second"), "second")
                await asyncio.sleep(0)  # so that it begins

        async def fails() -> None:
            async with tasks.finished():
                tasks.spawn(leaves_more(), "first")
                await asyncio.sleep(0)
                raise RuntimeError("over")

        with pytest.raises(RuntimeError, match="over"):
            await fails()
        assert begun[0] == "first"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(steps)


def test_being_cancelled_twice_leaves_no_state_behind() -> None:
    async def steps() -> None:
        tasks = BackgroundTasks()

        async def ends_slowly() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(1)

        async def block() -> None:
            async with tasks.finished():
                tasks.spawn(ends_slowly(), "slow")
                await asyncio.Event().wait()

        running = asyncio.create_task(block())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.sleep(0.5)  # it waits for the work, which was cancelled
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run(steps)


class TestSoon:
    """Work in one loop iteration that shares a task until some of it awaits."""

    def test_work_that_does_not_wait_shares_a_task_and_retains_its_order(self) -> None:
        async def steps() -> None:
            tasks = BackgroundTasks()
            ran: list[tuple[int, asyncio.Task[None] | None]] = []

            async def work(number: int) -> None:
                ran.append((number, asyncio.current_task()))

            async with tasks.finished():
                for number in range(4):
                    tasks.spawn_soon(work(number), "work")
                assert not ran
            assert [number for number, _ in ran] == [0, 1, 2, 3]
            assert len({task for _, task in ran}) == 1

        run(steps)

    def test_work_that_waits_holds_up_no_other(self) -> None:
        async def steps() -> None:
            tasks, ended = BackgroundTasks(), []
            loop = asyncio.get_running_loop()

            async def work(name: str, seconds: float) -> None:
                began_s = loop.time()
                if seconds:
                    await asyncio.sleep(seconds)
                ended.append((name, loop.time() - began_s))

            async with tasks.finished():
                for name, seconds in (("a", 0), ("b", 3), ("c", 2), ("d", 0), ("e", 2)):
                    tasks.spawn_soon(work(name, seconds), "work")
            assert ended == [("a", 0), ("d", 0), ("c", 2), ("e", 2), ("b", 3)]

        run(steps)

    def test_an_error_of_an_awaited_call_is_raised_in_the_task(self) -> None:
        async def steps() -> None:
            tasks, caught = BackgroundTasks(), []

            async def work() -> None:
                failing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                asyncio.get_running_loop().call_later(1, failing.set_exception, OSError("boom"))
                try:
                    await failing
                except OSError as exc:
                    caught.append(str(exc))
                await asyncio.sleep(1)  # and it may go on
                caught.append("went on")

            async with tasks.finished():
                tasks.spawn_soon(work(), "work")
            assert caught == ["boom", "went on"]

        run(steps)

    def test_an_exception_ends_only_its_own_background_work(self) -> None:
        async def steps() -> None:
            tasks, ran = BackgroundTasks(), []

            async def work(number: int) -> None:
                if number == 1:
                    raise RuntimeError("a bug")
                ran.append(number)

            async with tasks.finished():
                for number in range(3):
                    tasks.spawn_soon(work(number), "work")
            assert ran == [0, 2]

        run(steps)

    def test_cancelling_the_task_of_waiting_work_ends_that_work_alone(self) -> None:
        async def steps() -> None:
            tasks, ran = BackgroundTasks(), []

            async def waits() -> None:
                ran.append("begun")
                task = asyncio.current_task()
                assert task is not None
                asyncio.get_running_loop().call_later(1, task.cancel)
                await asyncio.Event().wait()

            async def other() -> None:
                await asyncio.sleep(2)
                ran.append("other")

            async with tasks.finished():
                tasks.spawn_soon(waits(), "work")
                tasks.spawn_soon(other(), "work")
            assert ran == ["begun", "other"]

        run(steps)

    def test_work_that_never_began_leaves_no_coroutine(self) -> None:
        async def steps() -> None:
            tasks = BackgroundTasks()

            async def work() -> None:
                raise AssertionError("it has begun")

            async def fails() -> None:
                async with tasks.finished():
                    tasks.spawn_soon(work(), "work")
                    raise RuntimeError("over")

            with pytest.raises(RuntimeError, match="over"):
                await fails()  # a coroutine that is never awaited warns, and warnings fail the test
            assert asyncio.all_tasks() == {asyncio.current_task()}

        run(steps)

    def test_work_of_another_turn_finds_the_same_task_waiting(self) -> None:
        async def steps() -> None:
            tasks = BackgroundTasks()
            ran: list[asyncio.Task[None] | None] = []

            async def work() -> None:
                ran.append(asyncio.current_task())

            async with tasks.finished():
                for _ in range(3):
                    tasks.spawn_soon(work(), "work")
                    await asyncio.sleep(1)
            assert len(ran) == 3
            assert len(set(ran)) == 1
            assert asyncio.all_tasks() == {asyncio.current_task()}

        run(steps)

    def test_work_that_starts_more_is_not_in_its_way(self) -> None:
        async def steps() -> None:
            tasks, ran = BackgroundTasks(), []
            loop = asyncio.get_running_loop()

            async def work(number: int) -> None:
                ran.append(number)
                if number < 3:
                    loop.call_soon(ran.append, "turn")
                    tasks.spawn_soon(work(number + 1), "work")

            async with tasks.finished():
                tasks.spawn_soon(work(0), "work")
                await asyncio.sleep(1)
                tasks.spawn_soon(work(3), "work")
                await asyncio.sleep(1)
            assert ran == [0, "turn", 1, "turn", 2, "turn", 3, 3]
            assert asyncio.all_tasks() == {asyncio.current_task()}

        run(steps)

    def test_work_continues_if_the_awaiting_task_is_cancelled(self) -> None:
        async def steps(*, woken_before: bool) -> list[str]:
            tasks, ran = BackgroundTasks(), []
            waiting: list[asyncio.Task[None]] = []

            async def work(name: str) -> None:
                ran.append(name)
                task = asyncio.current_task()
                assert task is not None
                waiting.append(task)

            async with tasks.finished():
                tasks.spawn_soon(work("first"), "work")
                await asyncio.sleep(1)
                if woken_before:
                    tasks.spawn_soon(work("second"), "work")
                    waiting[0].cancel()
                else:
                    waiting[0].cancel()
                    tasks.spawn_soon(work("second"), "work")
            return ran

        for woken_before in (False, True):
            assert run(steps(woken_before=woken_before)) == ["first", "second"]
