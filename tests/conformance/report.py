"""The printed result of a run: a row per family, and differences side by side."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from tests.conformance.comparison import ABSENT, Difference, FamilyCount, Step

__all__ = ["as_json", "notes", "render_steps", "render_table", "summary"]


def summary(counts: Iterable[FamilyCount]) -> str:
    """Return the last line: the number of identical steps."""
    counts = list(counts)
    identical = sum(family.identical for family in counts)
    return f"{identical} of {sum(family.steps for family in counts)} identical"


def render_table(counts: Iterable[FamilyCount]) -> str:
    """Return a row per family: steps, identical, differing by field, and missing features."""
    head = ("family", "steps", "identical", "differing", "waiting")
    rows = [
        (
            family.family,
            str(family.steps),
            str(family.identical),
            str(family.differing),
            str(family.waiting),
        )
        for family in counts
    ]
    remarks = [notes(family) for family in counts]
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    lines = []
    for row, note in zip(
        (head, *rows), ("fields that differ / not built yet", *remarks), strict=True
    ):
        cells = [
            cell.ljust(width) if place == 0 else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join([*cells, note]).rstrip())
    return "\n".join(lines)


def notes(family: FamilyCount) -> str:
    """Return the fields in which a family differs, and the features that it needs."""
    parts = []
    if family.fields:
        parts.append("differ: " + _numbers(family.fields))
    if family.needs:
        parts.append("needs: " + _numbers(family.needs))
    return "; ".join(parts)


def _numbers(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    return ", ".join(f"{name} {number}" for name, number in ordered)


def as_json(counts: Iterable[FamilyCount]) -> str:
    counts = list(counts)
    return json.dumps(
        {
            "families": [family._asdict() for family in counts],
            "identical": sum(family.identical for family in counts),
            "steps": sum(family.steps for family in counts),
        },
        indent=2,
    )


def render_steps(steps: Iterable[Step]) -> str:
    """Every step of a scenario: identical, or expected and got side by side."""
    width = max(40, (shutil.get_terminal_size((140, 24)).columns - 3) // 2)
    blocks = []
    for step in steps:
        words = "identical" if step.is_identical else ""
        if step.needs:
            words = f"needs {', '.join(step.needs)}"
        lines = [f"{step.scenario} {step.label}: {words}".rstrip(": ")]
        for difference in step.differences:
            lines += _side_by_side(difference, width)
        blocks.append("\n".join(lines))
    return "\n".join(blocks)


def _side_by_side(difference: Difference, width: int) -> list[str]:
    lines = [f"  {difference.field}:", f"  {'expected':<{width}} | got"]
    for expected, got in _pairs(difference.expected, difference.got):
        left = textwrap.wrap(expected, width) or [""]
        right = textwrap.wrap(got, width) or [""]
        for place in range(max(len(left), len(right))):
            one = left[place] if place < len(left) else ""
            other = right[place] if place < len(right) else ""
            lines.append(f"  {one:<{width}} | {other}".rstrip())
    return lines


def _pairs(expected: Any, got: Any, path: str = "") -> list[tuple[str, str]]:
    """Return the parts in which two values differ, down to the first that are not both maps."""
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        found = []
        for key in sorted({*expected, *got}):
            one, other = expected.get(key, ABSENT), got.get(key, ABSENT)
            if one != other:
                found += _pairs(one, other, f"{path}{key}: ")
        return found
    return [(path + _as_text(expected), path + _as_text(got))]


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, sort_keys=True)
