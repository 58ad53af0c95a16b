"""Work beside the loop: nothing outlives its scheduler."""

from __future__ import annotations

import asyncio

import pytest

from kubesched.util.components import BackgroundTasks
from kubesched.util.virtual_loop import run


def test_what_cancelled_work_starts_on_its_way_out_is_ended_too() -> None:
    async def story() -> None:
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

    run(story)
