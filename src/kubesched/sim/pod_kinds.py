"""Counts of pods by their requests, in memory that does not grow with the number of pods.

A workload that draws amounts from a distribution gives nearly every pod different requests. Above
64 kinds, amounts are therefore rounded to fewer binary digits, which merges similar kinds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

__all__ = ["PodKinds"]

# Amounts by resource, sorted by name.
Kind = tuple[tuple[str, int], ...]

_MOST: Final = 64
_FIRST_DIGITS: Final = 6


class PodKinds:
    """Counts pods by their requests; exact up to 64 kinds."""

    __slots__ = ("_counts", "_digits")

    def __init__(self) -> None:
        self._counts: Counter[Kind] = Counter()
        self._digits = 0  # leading binary digits of an amount that count; 0: all

    def __len__(self) -> int:
        return len(self._counts)

    def add(self, amounts: Mapping[str, int]) -> None:
        kind = tuple(sorted(amounts.items()))
        if self._digits:
            kind = _rounded(kind, self._digits)
        self._counts[kind] += 1
        while len(self._counts) > _MOST:
            self._coarsen()

    def ranked(self) -> list[tuple[Kind, int]]:
        """Return the kinds with their counts, most frequent first."""
        return sorted(self._counts.items(), key=lambda kind: (-kind[1], kind[0]))

    def _coarsen(self) -> None:
        if self._digits == 1:
            # Amounts are powers of two already: drop the rarest half.
            self._counts = Counter(dict(self.ranked()[: _MOST // 2]))
            return
        self._digits = self._digits - 1 if self._digits else _FIRST_DIGITS
        coarser: Counter[Kind] = Counter()
        for kind, count in self._counts.items():
            coarser[_rounded(kind, self._digits)] += count
        self._counts = coarser


def _rounded(kind: Kind, digits: int) -> Kind:
    rounded = []
    for name, amount in kind:
        shift = max(0, amount.bit_length() - digits)
        half = 1 << shift >> 1
        rounded.append((name, (amount + half) >> shift << shift))
    return tuple(rounded)
