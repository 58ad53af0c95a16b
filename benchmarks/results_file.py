"""A result file: the output of a benchmark, with its command, date and commit.

docs/performance.md is generated from these files (`benchmarks.performance_page`), and
`benchmarks.record` writes them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["RESULTS", "ResultFile", "read_results"]

RESULTS = Path(__file__).with_name("results")
_DASH = "\N{EN DASH}"


class ResultFile(NamedTuple):
    """A question, and the lines with the measurements."""

    question: str
    command: str
    commit: str
    measured: str
    """A day."""
    load: str
    """Other processes that ran on the machine."""
    machine: Mapping[str, Any]
    columns: Mapping[str, str]
    """The heading of each field that the table shows."""
    lines: Sequence[Mapping[str, Any]]
    by: Sequence[str] = ()
    """Lines that agree in these fields are runs of one measurement; the table has their range."""
    pivot: str = ""
    """The values of this field become columns; the last one of `columns` is in the cells."""
    notes: Sequence[str] = ()
    chart: str = ""
    """A file in docs/performance/."""

    def table(self) -> list[list[str]]:
        """Return the headings and the rows."""
        return self._pivoted() if self.pivot else self._plain()

    def cell(self, field: str, **wanted: Any) -> str:
        """Return a field of the lines with these values, as the table shows it."""
        return _range(self.values(field, wanted))

    def values(self, field: str, wanted: Mapping[str, Any]) -> list[Any]:
        """Return a field of the lines with these values; a dot leads into a part of a line."""
        lines = [line for line in self.lines if wanted.items() <= line.items()]
        return [value for line in lines if (value := _value(line, field)) is not None]

    def _plain(self) -> list[list[str]]:
        rows = [
            [_range([_value(line, field) for line in lines]) for field in self.columns]
            for lines in self._groups(self.by)
        ]
        return [list(self.columns.values()), *rows]

    def _pivoted(self) -> list[list[str]]:
        *fields, shown = self.columns
        values = sorted({line[self.pivot] for line in self.lines})
        heading = [self.columns[field] for field in fields]
        rows = [[*heading, *(f"{value:,} {self.pivot}" for value in values)]]
        for lines in self._groups(fields):
            start = [_range([lines[0][field]]) for field in fields]
            cells = [
                _range([line[shown] for line in lines if line[self.pivot] == value])
                for value in values
            ]
            rows.append([*start, *cells])
        return rows

    def _groups(self, fields: Sequence[str]) -> list[list[Mapping[str, Any]]]:
        """Return the lines, together if they agree in the fields; each alone without fields."""
        if not fields:
            return [[line] for line in self.lines]
        groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
        for line in self.lines:
            groups.setdefault(tuple(line[field] for field in fields), []).append(line)
        return list(groups.values())


def read_results(folder: Path = RESULTS) -> dict[str, ResultFile]:
    """Return the result files by name, in the order of the page."""
    return {
        path.stem: ResultFile(**json.loads(path.read_text()))
        for path in sorted(folder.glob("*.json"))
    }


def _value(line: Mapping[str, Any], field: str) -> Any:
    """Return a field; a dot leads into a part of the line."""
    name, _, rest = field.partition(".")
    found = line.get(name)
    return found if not rest or found is None else _value(found, rest)


def _range(values: Sequence[Any]) -> str:
    """Format a value, or the smallest and the largest of several."""
    found = [value for value in values if value is not None]
    if not found:
        return _DASH
    if not all(isinstance(value, int | float) for value in found):
        return str(found[0])
    low, high = _number(min(found)), _number(max(found))
    return low if low == high else f"{low}{_DASH}{high}"


def _number(value: float) -> str:
    """Three digits are enough, except for whole numbers."""
    if isinstance(value, int):
        return f"{value:,}"
    if value >= 100:
        return f"{round(value, -1 if value >= 1000 else 0):,.0f}"
    return f"{value:.3g}"
