"""The memory limit of a store's change logs, estimated from samples.

Measuring a change means encoding it, which costs more than the write itself. So only one of
sixteen changes is measured, and its size counts sixteen times.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

__all__ = ["LogBudget", "LogSamples"]

MEASURED_EVERY: Final = 16
MOST_BYTES: Final = 256 * 1024 * 1024
MOST_BYTES_IN_ALL: Final = 512 * 1024 * 1024

# Drops the older half of a log. Returns False if the log is too short.
Halve = Callable[[], bool]


class LogBudget:
    """The estimated size of all logs of a store."""

    def __init__(self, rng: random.Random) -> None:
        """`rng` selects the changes that are measured.

        The selection is random, because a client that could predict it could place large writes
        between two samples.
        """
        self._rng = rng
        self._logs: list[LogSamples] = []
        self._bytes = 0

    def samples(self, halve: Halve) -> LogSamples:
        """Create the sample list of a new log."""
        samples = LogSamples(self, halve)
        self._logs.append(samples)
        return samples

    def release(self, size: int) -> None:
        """Subtract the size of changes that a log has dropped."""
        self._bytes -= size

    def next_offset(self) -> int:
        """Choose which of the next sixteen changes of a log is measured."""
        return self._rng.randrange(MEASURED_EVERY)

    def add(self, size: int) -> None:
        """Add the size of new changes. Halve the largest logs while the total is too large."""
        self._bytes += size
        while self._bytes > MOST_BYTES_IN_ALL:
            if not max(self._logs, key=lambda each: each.bytes).halve():
                return


class LogSamples:
    """The estimated sizes of the changes in one log."""

    def __init__(self, budget: LogBudget, halve: Halve) -> None:
        self._budget, self.halve = budget, halve
        self._next = budget.next_offset()
        self._sizes: list[tuple[int, int]] = []  # number of a change, bytes
        self.bytes = 0

    def is_due(self, number: int) -> bool:
        """Whether the change with this number must be measured."""
        return number >= self._next

    def add(self, number: int, size: int) -> None:
        """Add the measured size of a change, and halve logs that are too large."""
        following = (number // MEASURED_EVERY + 1) * MEASURED_EVERY
        self._next = following + self._budget.next_offset()
        size *= MEASURED_EVERY
        self._sizes.append((number, size))
        self.bytes += size
        self._budget.add(size)
        while self.bytes > MOST_BYTES and self.halve():
            pass

    def drop_before(self, first: int) -> None:
        """Remove the samples of changes before this number, which the log has dropped."""
        dropped = sum(number < first for number, _ in self._sizes)
        freed = sum(size for _, size in self._sizes[:dropped])
        self.bytes -= freed
        self._budget.release(freed)
        del self._sizes[:dropped]
