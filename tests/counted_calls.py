"""Costs in function calls instead of time, which are the same on every machine."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

__all__ = ["Growth", "count_calls", "counted", "grow", "peak_bytes"]


class _Counter:
    """Counts the calls of Python and C functions in a `with` block."""

    def __init__(self) -> None:
        self.calls = 0

    def _profile(self, frame: Any, event: str, arg: Any) -> None:
        if event in ("call", "c_call"):
            self.calls += 1

    def __enter__(self) -> _Counter:
        self._before = sys.getprofile()
        sys.setprofile(self._profile)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(self._before)


def count_calls(action: Callable[[], Any]) -> int:
    """Return the number of function calls of an action."""
    with _Counter() as counter:
        action()
    return counter.calls


async def counted(action: Awaitable[Any]) -> int:
    """Return the number of function calls by all tasks until an action has ended."""
    with _Counter() as counter:
        await action
    return counter.calls


def peak_bytes(action: Callable[[], Any]) -> int:
    """Return by how many bytes memory usage rose at its peak."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        action()
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


class Growth(NamedTuple):
    """The cost of one more item among few items, and among four times as many."""

    among_few: float
    among_many: float

    @property
    def is_linear(self) -> bool:
        """Whether an item costs the same among many; a few calls are tables that have grown.

        A loop in a loop would add twice as many calls to the second figure as to the first. The
        first is negative if something is left out for many items, such as storing an answer.
        """
        return self.among_many <= 1.05 * max(self.among_few, 0) + 5


def grow(cost: Callable[[int], int], size: int) -> Growth:
    """Compare the costs of `size`, twice and four times as many items, without constant costs."""
    small, middle, large = cost(size), cost(2 * size), cost(4 * size)
    return Growth((middle - small) / size, (large - middle) / (2 * size))
