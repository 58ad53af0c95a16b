from __future__ import annotations

import asyncio

import pytest

from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import StopSwitch, running
from kubesched.foundation.util.virtual_loop import run


class Ticker:
    """Counts seconds until stopped."""

    def __init__(self, log: list[str], name: str = "ticker") -> None:
        self._log, self._name = log, name
        self._stopping = asyncio.Event()
        self.ticks = 0

    async def run(self) -> None:
        while not await current_clock().wait(self._stopping, SECOND):
            self.ticks += 1
        self._log.append(f"{self._name} ended")

    def stop(self) -> None:
        self._log.append(f"{self._name} stopped")
        self._stopping.set()


class FailsAfterThreeSeconds:
    """Fails after three seconds."""

    async def run(self) -> None:
        await asyncio.sleep(3)
        raise OSError("boom")

    def stop(self) -> None:
        pass


class TestRunning:
    def test_parts_run_while_the_block_runs_and_stop_in_reverse(self) -> None:
        async def main() -> tuple[int, list[str]]:
            log: list[str] = []
            first, second = Ticker(log, "first"), Ticker(log, "second")
            async with running(first, second):
                await asyncio.sleep(10.5)
            return first.ticks, log

        ticks, log = run(main)
        assert ticks == 10
        assert log[:2] == ["second stopped", "first stopped"]
        assert sorted(log[2:]) == ["first ended", "second ended"]

    def test_tasks_have_the_name_of_their_component(self) -> None:
        async def main() -> set[str]:
            async with running(Ticker([])):
                await asyncio.sleep(1)
                return {task.get_name() for task in asyncio.all_tasks()}

        assert run(main) == {"Task-1", "Ticker"}

    def test_a_component_that_raises_ends_the_block(self) -> None:
        log: list[str] = []

        async def main() -> None:
            async with running(Ticker(log), FailsAfterThreeSeconds()):
                await asyncio.sleep(60)
                log.append("never")

        with pytest.raises(ExceptionGroup) as caught:
            run(main)
        assert [str(error) for error in caught.value.exceptions] == ["boom"]
        assert log[0] == "ticker stopped"
        assert "never" not in log

    def test_the_exception_of_the_block_propagates_unchanged(self) -> None:
        log: list[str] = []

        async def main() -> None:
            async with running(Ticker(log)):
                await asyncio.sleep(1)
                raise KeyError("mine")

        with pytest.raises(KeyError, match="mine"):
            run(main)
        assert log == ["ticker stopped", "ticker ended"]

    def test_a_component_that_returns_does_not_end_the_block(self) -> None:
        class Brief:
            async def run(self) -> None:
                await asyncio.sleep(1)

            def stop(self) -> None:
                pass

        async def main() -> float:
            async with running(Brief()):
                await asyncio.sleep(5)
            return asyncio.get_running_loop().time()

        assert run(main) == 5

    def test_cancelling_the_block_stops_the_parts(self) -> None:
        log: list[str] = []

        async def main() -> None:
            async with running(Ticker(log)):
                await asyncio.sleep(60)

        async def outer() -> bool:
            task = asyncio.create_task(main())
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

        assert run(outer)
        assert log == ["ticker stopped"]


class TestStopSwitch:
    def test_setting_the_switch_ends_a_wait_without_a_cancelled_error(self) -> None:
        async def main() -> tuple[float, bool, list[str]]:
            cleaned: list[str] = []

            async def work() -> None:
                try:
                    await asyncio.Event().wait()
                finally:
                    cleaned.append("cleaned")

            switch = StopSwitch()
            asyncio.get_running_loop().call_later(4, switch.set)
            task = asyncio.create_task(switch.guard(work()))
            await task
            switch.set()
            return asyncio.get_running_loop().time(), switch.is_set, cleaned

        assert run(main) == (4, True, ["cleaned"])

    def test_a_switch_set_before_guard_prevents_the_work(self) -> None:
        async def main() -> list[str]:
            started: list[str] = []

            async def work() -> None:
                started.append("started")

            switch = StopSwitch()
            switch.set()
            await switch.guard(work())
            return started

        assert run(main) == []

    def test_guarded_work_may_return_before_the_stop(self) -> None:
        async def main() -> None:
            switch = StopSwitch()
            await switch.guard(asyncio.sleep(1))
            switch.set()

        run(main)

    def test_exceptions_of_the_work_pass_through(self) -> None:
        async def work() -> None:
            raise TimeoutError("the work's own")

        async def main() -> None:
            await StopSwitch().guard(work())

        with pytest.raises(TimeoutError, match="the work's own"):
            run(main)

    def test_a_cancellation_from_outside_propagates(self) -> None:
        async def main() -> bool:
            task = asyncio.create_task(StopSwitch().guard(asyncio.sleep(60)))
            await asyncio.sleep(1)
            task.cancel()
            await asyncio.wait([task])
            return task.cancelled()

        assert run(main)
