"""Rows by their total, for finding the best rows without a scan."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

__all__ = ["TotalIndex"]


class TotalIndex:
    """A set of rows with a total each; an update takes constant time."""

    __slots__ = ("_best", "_buckets", "_place", "_total")

    def __init__(self, capacity: int, rows: NDArray[np.intp], totals: NDArray[np.int64]) -> None:
        self._buckets: dict[int, list[int]] = {}  # total -> its rows
        self._place = [0] * capacity  # index of a row in its bucket
        self._total: dict[int, int] = {}
        order = np.argsort(totals, kind="stable")
        values, starts = np.unique(totals[order], return_index=True)
        for value, group in zip(values.tolist(), np.split(rows[order], starts[1:]), strict=False):
            bucket = self._buckets[value] = group.tolist()
            for place, row in enumerate(bucket):
                self._place[row] = place
                self._total[row] = value
        self._best = max(self._buckets, default=0)

    def __len__(self) -> int:
        return len(self._total)

    def __contains__(self, row: int) -> bool:
        return row in self._total

    def put(self, row: int, total: int) -> None:
        """Add a row, or change its total."""
        before = self._total.get(row)
        if before == total:
            return
        if before is not None:
            self.discard(row)
        self._total[row] = total
        bucket = self._buckets.setdefault(total, [])
        self._place[row] = len(bucket)
        bucket.append(row)
        if total > self._best or len(self._total) == 1:
            self._best = total

    def discard(self, row: int) -> None:
        total = self._total.pop(row, None)
        if total is None:
            return
        bucket = self._buckets[total]
        last = bucket.pop()
        if last != row:
            place = self._place[row]
            bucket[place] = last
            self._place[last] = place
        elif not bucket:
            del self._buckets[total]
            if total == self._best:
                # Totals are few: sums of scores of a hundred steps each.
                self._best = max(self._buckets, default=0)

    def choose(self, rng: random.Random) -> int:
        """Return a random row with the highest total."""
        bucket = self._buckets[self._best]
        count = len(bucket)
        if count == 1:
            return bucket[0]
        # The row that rng.choice would draw, without the overhead of its calls.
        draw, bits = rng.getrandbits, count.bit_length()
        place = draw(bits)
        while place >= count:
            place = draw(bits)
        return bucket[place]

    def choose_accepted(
        self, rng: random.Random, accepts: Callable[[int], bool], tries: int
    ) -> int | None:
        """Return a random one of the accepted rows with the highest total.

        The result is None if this many tries found no row. Evaluating all rows at once is then
        cheaper.
        """
        for total in self._totals_from_best():
            bucket = self._buckets[total]
            if len(bucket) > tries:
                # Draw until a row is accepted: each accepted row is equally likely.
                draws = (bucket[rng.randrange(len(bucket))] for _ in range(tries))
                return next((row for row in draws if accepts(row)), None)
            for row in rng.sample(bucket, len(bucket)):
                if accepts(row):
                    return row
            tries -= len(bucket)
        return None

    def rows_from_best(self) -> Iterator[list[int]]:
        """Yield the rows of each total, highest first.

        Do not modify the set during the iteration.
        """
        return (self._buckets[total] for total in self._totals_from_best())

    def top(self, count: int) -> list[tuple[int, int]]:
        """Return up to `count` (row, total) pairs, the highest totals first."""
        best = self._buckets.get(self._best, ())
        if len(best) >= count:
            return [(row, self._best) for row in best[:count]]
        found: list[tuple[int, int]] = []
        for total in self._totals_from_best():
            for row in self._buckets[total]:
                found.append((row, total))
                if len(found) == count:
                    return found
        return found

    def _totals_from_best(self) -> Iterator[int]:
        if self._buckets:
            yield self._best
        # The best total is usually enough, so the others are sorted only now.
        yield from sorted(self._buckets, reverse=True)[1:]

    def best_rows(self) -> list[int]:
        """Return all rows with the highest total."""

        return sorted(self._buckets[self._best])
