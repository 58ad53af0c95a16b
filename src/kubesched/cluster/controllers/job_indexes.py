"""Sets of completion indexes in the text form of the API: `1,3-5,7`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kubesched.foundation.util.ints import whole_number

__all__ = ["MOST_INDEXES", "indexes_from", "indexes_text"]

# Otherwise a user who may write a Job could write a range of two thousand million.
MOST_INDEXES: Final = 1_000_000


def indexes_text(indexes: Collection[int]) -> str:
    """Format indexes; runs of three and more become ranges."""
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
    """Parse indexes; invalid parts and indexes beyond a million are left out."""
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        begin, end = whole_number(first), whole_number(last if dash else first)
        if begin is not None and end is not None:
            found.update(range(begin, min(end + 1, begin + MOST_INDEXES - len(found))))
    return found
