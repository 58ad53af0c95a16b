"""Memory of large objects returns to the system, whatever was stored in between."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc

import msgspec
import pytest

from kubesched.foundation.util.large_objects import LARGE_TEXT, LargeAllocations, allocating_large

# In a process of its own: the other tests have left holes of all sizes. After each large object a
# block of every size stays, as entries of caches do.
SCRIPT = """
import resource
from pathlib import Path
import msgspec
from kubesched.foundation.util.large_objects import LargeAllocations
from kubesched.foundation.util.memory_trimmer import trim_memory

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

allocations = LargeAllocations(trim=lambda: None)
assert allocations.is_supported
decoder = msgspec.json.Decoder(tuple[str, ...])
kept = []

def decode(number):
    text = msgspec.json.encode([f"{number}-{index}" for index in range(50_000)])
    with allocations.of_text(len(text)):
        large = decoder.decode(text)
    for size in range(16, 512, 16):
        kept.append(b"x" * (size - 8) + b"%d" % number)
    return large

decode(0)
trim_memory()
before = resident()
large = [decode(number) for number in range(20)]
grown = resident() - before
del large
trim_memory()
print(grown >> 20, (resident() - before) >> 20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_blocks_that_stay_do_not_hold_the_memory_of_large_objects() -> None:
    out = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    ).stdout
    grown, left = map(int, out.split())
    assert grown > 60
    assert left < 5


def test_memory_is_trimmed_after_two_mebibytes_of_large_objects() -> None:
    trims: list[int] = []
    allocations = LargeAllocations(trim=lambda: trims.append(1))
    if not allocations.is_supported:
        pytest.skip("the interpreter allocates differently")
    counts = []
    for _ in range(4):
        with allocations.of_text(1 << 20):
            pass
        counts.append(len(trims))
    assert counts == [0, 1, 1, 2]


def test_an_error_restores_the_allocator() -> None:
    with pytest.raises(msgspec.DecodeError), allocating_large(LARGE_TEXT):
        msgspec.json.decode(b"[1, 2")
    assert LargeAllocations().is_supported == LargeAllocations().is_supported


def test_nothing_is_switched_while_memory_is_traced() -> None:
    allocations = LargeAllocations()
    tracemalloc.start()
    try:
        assert not allocations.is_supported
        with allocations.of_text(LARGE_TEXT):
            texts = msgspec.json.decode(b'["a", "b"]')
        assert tracemalloc.get_traced_memory()[0] > 0
    finally:
        tracemalloc.stop()
    assert texts == ["a", "b"]
