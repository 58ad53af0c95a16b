"""A deadline that moves: it fires once, at its last value."""

from __future__ import annotations

import asyncio

from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.moving_deadline import MovingDeadline


class Recorder:
    """A deadline, and the times at which it fired."""

    def __init__(self) -> None:
        self.fired_s: list[float] = []
        self._loop = asyncio.get_running_loop()
        self._start_s = self._loop.time()
        self.deadline = MovingDeadline(lambda: self.fired_s.append(self.now_s))

    @property
    def now_s(self) -> float:
        return round(self._loop.time() - self._start_s, 6)

    def move(self, to_s: float) -> None:
        self.deadline.move(self._start_s + to_s)


def test_a_deadline_fires_once() -> None:
    async def main() -> list[float]:
        recorder = Recorder()
        recorder.move(5)
        await asyncio.sleep(100)
        return recorder.fired_s

    assert virtual_loop.run(main) == [5]


def test_a_deadline_that_moves_fires_at_its_last_value() -> None:
    async def main() -> list[float]:
        recorder = Recorder()
        recorder.move(5)
        for second in range(1, 12):
            await asyncio.sleep(1)
            recorder.move(second + 5)
        await asyncio.sleep(100)
        return recorder.fired_s

    assert virtual_loop.run(main) == [16]


def test_a_deadline_can_move_forward() -> None:
    async def main() -> list[float]:
        recorder = Recorder()
        recorder.move(50)
        recorder.move(5)
        await asyncio.sleep(100)
        return recorder.fired_s

    assert virtual_loop.run(main) == [5]


def test_a_lifted_deadline_does_not_fire_and_can_be_set_again() -> None:
    async def main() -> list[float]:
        recorder = Recorder()
        recorder.move(5)
        recorder.deadline.lift()
        await asyncio.sleep(10)
        assert recorder.fired_s == []
        recorder.move(15)
        await asyncio.sleep(100)
        return recorder.fired_s

    assert virtual_loop.run(main) == [15]


def test_a_deadline_set_again_before_its_timer_fires_at_the_new_value() -> None:
    async def main() -> list[float]:
        recorder = Recorder()
        recorder.move(5)
        recorder.deadline.lift()
        recorder.move(8)
        await asyncio.sleep(100)
        return recorder.fired_s

    assert virtual_loop.run(main) == [8]


def test_a_closed_deadline_leaves_no_timer() -> None:
    async def main() -> tuple[list[float], float]:
        recorder = Recorder()
        recorder.move(5)
        recorder.deadline.close()
        await asyncio.sleep(100)
        return recorder.fired_s, recorder.now_s

    assert virtual_loop.run(main) == ([], 100)
