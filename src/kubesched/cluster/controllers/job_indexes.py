"""Sets of completion indexes, written as the API does: `1,3-5,7`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kubesched.foundation.util.ints import whole_number

__all__ = ["indexes_from", "indexes_text"]

_MOST_INDEXES: Final = 1_000_000
"""A range of two thousand million is easily written, by anybody who may write a Job."""


def indexes_text(indexes: Collection[int]) -> str:
    """Runs of three and more become ranges, a pair stays a pair."""
    parts: list[str] = []
    ordered = sorted(indexes)
    position = 0
    while position < len(ordered):
        end = position
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        first, last = ordered[position], ordered[end]
        if last - first >= 2:
            parts.append(f"{first}-{last}")
        else:
            parts += [str(number) for number in range(first, last + 1)]
        position = end + 1
    return ",".join(parts)


def indexes_from(text: str) -> set[int]:
    """What cannot be read is left out, and so is what is too much to write down one by one."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        begin, end = whole_number(first), whole_number(last if dash else first)
        if begin is not None and end is not None:
            found.update(range(begin, min(end + 1, begin + _MOST_INDEXES - len(found))))
    return found
