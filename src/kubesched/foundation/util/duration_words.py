"""Durations for people: `2 min 55 s`, with at most two units."""

from __future__ import annotations

from typing import Final

__all__ = ["duration_words"]

_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "min"), (1, "s"))


def duration_words(seconds: float) -> str:
    """Return a duration, rounded to the smaller of its two units; below 10 s with tenths."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms" if seconds else "0 s"
    if seconds < 9.95:
        return f"{seconds:.1f}".removesuffix(".0") + " s"
    for place, (size, unit) in enumerate(_UNITS):
        if seconds < size and unit != "s":
            continue
        smaller, its_unit = _UNITS[place + 1] if unit != "s" else (1, "")
        # Round first: 179.6 s are 3 min, not 2 min 60 s.
        rounded = round(seconds / smaller) * smaller
        if place and rounded >= _UNITS[place - 1][0]:
            return f"1 {_UNITS[place - 1][1]}"
        whole, rest = divmod(rounded, size)
        return f"{whole} {unit} {rest // smaller} {its_unit}" if rest else f"{whole} {unit}"
    raise AssertionError(seconds)
