"""The memory of a soak test's processes as a picture: `python -m tests.soak.curves LOG OUT.svg`.

LOG is the standard output of `python -m tests.soak`. Each process is a curve; a gap is a restart.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["draw_curves"]

_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 860, 320, 48, 16, 36
_COLOURS = {"server": "#b3261e", "scheduler-0": "#1f5fa8", "scheduler-1": "#2e7d32"}
_STEP_MIB, _STEP_MINUTES = 50, 10
_LONGEST_GAP_S = 12.0


def draw_curves(lines: Iterable[str]) -> str:
    """Return an SVG document."""
    samples = [line for line in map(_parsed, lines) if "second" in line and "bound" in line]
    seconds = max((each["second"] for each in samples), default=1)
    curves = {
        # A server that did not answer has a text in the place of its usage.
        name: [(each["second"], each[name][0]) for each in samples if _is_usage(each.get(name))]
        for name in _COLOURS
    }
    most = max((mib for curve in curves.values() for _, mib in curve), default=1.0)
    top = (int(most) // _STEP_MIB + 1) * _STEP_MIB

    def x(second: float) -> float:
        return round(_LEFT + (_WIDTH - _LEFT - 10) * second / seconds, 1)

    def y(mib: float) -> float:
        return round(_HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * mib / top, 1)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12" role="img">',
        "<title>Memory of the processes of a soak test</title>",
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="#ffffff"/>',
    ]
    for mib in range(0, top + 1, _STEP_MIB):
        parts.append(f'<path d="M{_LEFT} {y(mib)}H{_WIDTH - 10}" stroke="#dddddd"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y(mib) + 4}" text-anchor="end">{mib}</text>')
    parts += [
        f'<text x="{x(60 * minute)}" y="{_HEIGHT - 18}" text-anchor="middle">{minute}</text>'
        for minute in range(0, int(seconds / 60) + 1, _STEP_MINUTES)
    ]
    for number, (name, colour) in enumerate(_COLOURS.items()):
        path = _path(curves[name], x, y)
        parts.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>')
        parts.append(
            f'<text x="{_LEFT + 150 * number}" y="{_HEIGHT - 4}" fill="{colour}">{name}</text>'
        )
    parts.append(f'<text x="{_WIDTH - 10}" y="{_HEIGHT - 4}" text-anchor="end">MiB, minutes</text>')
    return "\n".join([*parts, "</svg>"]) + "\n"


def _path(points: list[tuple[float, float]], x: Any, y: Any) -> str:
    drawn, last = [], -math.inf
    for second, mib in points:
        drawn.append(f"{'M' if second - last > _LONGEST_GAP_S else 'L'}{x(second)} {y(mib)}")
        last = second
    return "".join(drawn)


def _is_usage(value: object) -> bool:
    return isinstance(value, list)


def _parsed(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


if __name__ == "__main__":
    Path(sys.argv[2]).write_text(draw_curves(Path(sys.argv[1]).read_text().splitlines()))
