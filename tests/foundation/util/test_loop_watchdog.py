"""The watchdog reports a blocked event loop with its stack."""

from __future__ import annotations

import asyncio
import sys
import threading

import pytest

from kubesched.foundation.util.components import running
from kubesched.foundation.util.loop_watchdog import LoopWatchdog


class Time:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_blocked_loop_is_logged_once_and_when_the_time_has_doubled(
    caplog: pytest.LogCaptureFixture,
) -> None:
    time = Time()
    watchdog = LoopWatchdog(5, monotonic_s=time, frame_of=lambda _: sys._getframe())
    lines = []
    for _ in range(50):
        time.now_s += 1
        watchdog.look()
        lines.append(len(caplog.records))
    assert lines[:4] == [0, 0, 0, 0]
    assert lines[4] == lines[8] == 1
    assert lines[9] == lines[18] == 2
    assert lines[-1] == 4
    assert "test_a_blocked_loop_is_logged_once" in caplog.text


def test_a_responsive_loop_is_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    watchdog = LoopWatchdog(5, monotonic_s=time)
    for _ in range(50):
        time.now_s += 4
        watchdog.look()
        watchdog.beat()
    assert caplog.records == []


def test_a_second_standstill_is_logged_again(caplog: pytest.LogCaptureFixture) -> None:
    time = Time()
    watchdog = LoopWatchdog(5, monotonic_s=time)
    time.now_s += 6
    watchdog.look()
    watchdog.beat()
    time.now_s += 6
    watchdog.look()
    assert sum("is blocked" in each.getMessage() for each in caplog.records) == 2


def blocked_by_this_function(seen: threading.Event) -> None:
    assert seen.wait(20)


def test_the_place_is_named_while_the_loop_is_blocked(
    caplog: pytest.LogCaptureFixture,
) -> None:
    seen = threading.Event()

    class RecordingWatchdog(LoopWatchdog):
        def look(self) -> None:
            super().look()
            if "is blocked" in caplog.text:
                seen.set()

    async def main() -> None:
        async with running(RecordingWatchdog(0.05)):
            await asyncio.sleep(0)  # it has begun
            blocked_by_this_function(seen)

    asyncio.run(main())
    assert "blocked_by_this_function" in caplog.text
    assert "loop-watchdog" not in [each.name for each in threading.enumerate() if not each.daemon]
