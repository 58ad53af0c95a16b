"""Small charts as SVG text: lines over a numeric axis, or bars with a mark beside them.

Written by hand so that no benchmark needs a plotting library; the files are small, scale, and
can be compared line by line.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import NamedTuple

__all__ = ["Bar", "bar_chart", "line_chart"]

_WIDTH, _HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 150, 44, 52
_INNER_WIDTH, _INNER_HEIGHT = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
_MOST_DOTS, _MOST_X_MARKS = 20, 8
_COLOURS = ("#1f6feb", "#d1242f", "#1a7f37", "#9a6700", "#8250df", "#57606a")
_STYLE = (
    "text{font:12px sans-serif;fill:#24292f}.title{font-size:15px;font-weight:bold}"
    ".grid{stroke:#d0d7de;stroke-width:1}.axis{stroke:#57606a;stroke-width:1}"
)
_ROW = 26
_BAR_LEFT, _BAR_RIGHT = 330, 120


class Bar(NamedTuple):
    """A bar, and the value to compare it with, if there is one."""

    label: str
    value: float
    mark: float | None = None


def line_chart(
    title: str,
    x_label: str,
    y_label: str,
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    log_x: bool = False,
) -> str:
    """Draw lines over one axis, which may be logarithmic; the other axis starts at zero."""
    points = [point for line in series.values() for point in line]
    if not points:
        raise ValueError("nothing to draw")
    plane = _Plane(points, log_x)
    middle = _TOP + _INNER_HEIGHT / 2
    parts = [
        _text(_LEFT, 24, title, "title"),
        *plane.grid(),
        _text(_LEFT + _INNER_WIDTH / 2, _HEIGHT - 12, x_label, anchor="middle"),
        f'<text transform="translate(16 {middle:.0f}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_label)}</text>',
    ]
    for number, (name, line) in enumerate(series.items()):
        colour = _COLOURS[number % len(_COLOURS)]
        placed = [plane.place(x, y) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        if len(placed) <= _MOST_DOTS:
            parts += [
                f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in placed
            ]
        parts += _legend(number, name, colour)
    return _document(_HEIGHT, parts)


class _Plane:
    """Maps values to positions in the drawing."""

    def __init__(self, points: Sequence[tuple[float, float]], log_x: bool) -> None:
        self._log_x = log_x
        self._xs = sorted({x for x, _ in points})
        self._y_ticks = _ticks(max(y for _, y in points))
        self._low, self._high = self._scaled(self._xs[0]), self._scaled(self._xs[-1])

    def place(self, x: float, y: float) -> tuple[float, float]:
        width = self._high - self._low
        across = (self._scaled(x) - self._low) / width if width else 0.5
        return _LEFT + across * _INNER_WIDTH, _TOP + (1 - y / self._y_ticks[-1]) * _INNER_HEIGHT

    def grid(self) -> list[str]:
        parts = []
        for tick in self._y_ticks:
            _, y = self.place(self._xs[0], tick)
            parts.append(_line(_LEFT, y, _WIDTH - _RIGHT, y, "grid"))
            parts.append(_text(_LEFT - 8, y + 4, _number(tick), anchor="end"))
        marked = self._xs
        if not self._log_x and len(marked) > _MOST_X_MARKS:
            marked = [x for x in _ticks(marked[-1]) if marked[0] <= x <= marked[-1]]
        for x in marked:
            at, _ = self.place(x, 0)
            parts.append(_text(at, _HEIGHT - _BOTTOM + 18, _number(x), anchor="middle"))
        parts.append(_line(_LEFT, _HEIGHT - _BOTTOM, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM, "axis"))
        return parts

    def _scaled(self, x: float) -> float:
        return math.log10(x) if self._log_x else x


def _legend(number: int, name: str, colour: str) -> list[str]:
    x, y = _WIDTH - _RIGHT + 14, _TOP + 8 + 20 * number
    box = f'<rect x="{x}" y="{y - 9}" width="10" height="10" fill="{colour}"/>'
    return [box, _text(x + 16, y, name)]


def bar_chart(title: str, bars: Sequence[Bar], *, mark_name: str = "") -> str:
    """Bars from top to bottom; a mark is a short red line across its bar."""
    if not bars:
        raise ValueError("nothing to draw")
    top = max(max(bar.value, bar.mark or 0) for bar in bars) or 1
    room = _WIDTH - _BAR_LEFT - _BAR_RIGHT
    parts = [_text(16, 24, title, "title")]
    if mark_name:
        parts.append(_line(_WIDTH - 170, 40, _WIDTH - 170, 54, "axis", "#d1242f"))
        parts.append(_text(_WIDTH - 162, 51, mark_name))
    for number, bar in enumerate(bars):
        y = 64 + number * _ROW
        width = bar.value / top * room
        parts.append(_text(_BAR_LEFT - 8, y + 13, bar.label, anchor="end"))
        parts.append(
            f'<rect x="{_BAR_LEFT}" y="{y}" width="{width:.1f}" height="18" fill="{_COLOURS[0]}"/>'
        )
        parts.append(_text(_BAR_LEFT + max(width, 0) + 6, y + 13, _number(bar.value)))
        if bar.mark is not None:
            x = _BAR_LEFT + bar.mark / top * room
            parts.append(_line(x, y - 2, x, y + 20, "axis", "#d1242f"))
    return _document(80 + len(bars) * _ROW, parts)


def _ticks(top: float) -> list[float]:
    """Round values from zero to at least the top, about five steps."""
    if top <= 0:
        return [0.0, 1.0]
    power = 10 ** math.floor(math.log10(top / 5))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor * 5 >= top)
    return [step * count for count in range(math.ceil(top / step) + 1)]


def _number(value: float) -> str:
    if value >= 1_000_000 and value % 100_000 == 0:
        return f"{value / 1_000_000:g}M"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def _text(x: float, y: float, text: str, kind: str = "", *, anchor: str = "") -> str:
    attributes = f' class="{kind}"' if kind else ""
    attributes += f' text-anchor="{anchor}"' if anchor else ""
    return f'<text x="{x:.1f}" y="{y:.1f}"{attributes}>{escape(text)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str, colour: str = "") -> str:
    style = f' style="stroke:{colour};stroke-width:2"' if colour else ""
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{style}/>'


def _document(height: int, parts: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'width="{_WIDTH}" height="{height}" role="img">'
    )
    background = f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>'
    return "\n".join([head, f"<style>{_STYLE}</style>", background, *parts, "</svg>", ""])
