"""Free memory is returned to the operating system."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MINUTE, SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.memory_trimmer import MemoryTrimmer, trim_memory


def test_memory_is_trimmed_every_ten_seconds_until_the_stop() -> None:
    times: list[int] = []

    async def scenario() -> None:
        clock = current_clock()
        began = clock.monotonic_ns()

        def trim() -> None:
            times.append(clock.monotonic_ns() - began)

        async with running(MemoryTrimmer(clock, trim)):
            await clock.sleep(2 * MINUTE + 30 * SECOND)
        await clock.sleep(10 * MINUTE)

    virtual_loop.run(scenario)
    assert times == [number * 10 * SECOND for number in range(1, 15)]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_free_memory_between_used_blocks_is_returned() -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    size, count = 100_000, 600  # below the size for which the C library uses mmap
    buffers = [bytearray(b"x" * size) for _ in range(count)]
    del buffers[1::2]
    before = resident()
    trim_memory()
    assert before - resident() > size * count // 4
    assert len(buffers) == count // 2
