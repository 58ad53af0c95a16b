"""How many bytes the logs of a store may take, as far as samples tell.

Encoding every change to see how large it is would cost more than the writes, so that one of
sixteen is measured, and counts for all of them.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

__all__ = ["LogBudget", "LogSamples"]

MEASURED_EVERY: Final = 16
MOST_BYTES: Final = 256 * 1024 * 1024
MOST_BYTES_IN_ALL: Final = 512 * 1024 * 1024

# Drops the older half of a log; False if there is nothing left to drop.
Halve = Callable[[], bool]


class LogBudget:
    """What all logs of a store take together."""

    def __init__(self, dice: random.Random) -> None:
        """By `dice` it is drawn which changes are measured.

        Whoever could tell which one is next would write much in between.
        """
        self._dice = dice
        self._logs: list[LogSamples] = []
        self._bytes = 0

    def samples(self, halve: Halve) -> LogSamples:
        """The account of one more log."""
        made = LogSamples(self, halve)
        self._logs.append(made)
        return made

    def give_back(self, size: int) -> None:
        """Note that a log was cut."""
        self._bytes -= size

    def turn(self) -> int:
        """Which of the next sixteen changes of a log is measured."""
        return self._dice.randrange(MEASURED_EVERY)

    def spend(self, size: int) -> None:
        """Note that a log has grown; the largest are cut until all of them are small enough."""
        self._bytes += size
        while self._bytes > MOST_BYTES_IN_ALL:
            if not max(self._logs, key=lambda each: each.bytes).halve():
                return


class LogSamples:
    """How large the changes of one log are."""

    def __init__(self, budget: LogBudget, halve: Halve) -> None:
        self._budget, self.halve = budget, halve
        self._next = budget.turn()
        self._sizes: list[tuple[int, int]] = []  # numbers of changes, and bytes
        self.bytes = 0

    def is_due(self, number: int) -> bool:
        """Whether the change of this number is to be measured."""
        return number >= self._next

    def add(self, number: int, size: int) -> None:
        """Note a size, and have logs cut if that is too much."""
        following = (number // MEASURED_EVERY + 1) * MEASURED_EVERY
        self._next = following + self._budget.turn()
        size *= MEASURED_EVERY
        self._sizes.append((number, size))
        self.bytes += size
        self._budget.spend(size)
        while self.bytes > MOST_BYTES and self.halve():
            pass

    def forget(self, first: int) -> None:
        """Changes before this number are not there any more."""
        gone = sum(number < first for number, _ in self._sizes)
        freed = sum(size for _, size in self._sizes[:gone])
        self.bytes -= freed
        self._budget.give_back(freed)
        del self._sizes[:gone]
