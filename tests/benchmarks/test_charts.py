"""Charts are well-formed SVG that shows every value, including extreme ones."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.charts import Bar, bar_chart, line_chart

SVG = "{http://www.w3.org/2000/svg}"
POSITIVE = st.floats(0.001, 1e7)


@given(st.lists(st.tuples(POSITIVE, POSITIVE), min_size=1, max_size=30), st.booleans())
def test_every_point_of_a_line_is_inside_the_drawing(
    points: list[tuple[float, float]], log_x: bool
) -> None:
    root = ElementTree.fromstring(
        line_chart("t", "x", "y", {"a": points, "b": points[:1]}, log_x=log_x)
    )
    lines = root.findall(f"{SVG}polyline")
    assert len(lines) == 2
    for pair in lines[0].attrib["points"].split():
        x, y = map(float, pair.split(","))
        assert 0 <= x <= float(root.attrib["width"])
        assert 0 <= y <= float(root.attrib["height"])


def test_names_are_escaped() -> None:
    root = ElementTree.fromstring(bar_chart("a < b & c", [Bar("<x>", 1.0)]))
    texts = [text.text for text in root.findall(f"{SVG}text")]
    assert "a < b & c" in texts
    assert "<x>" in texts


def test_a_bar_is_as_long_as_its_share_of_the_longest() -> None:
    root = ElementTree.fromstring(bar_chart("t", [Bar("all", 200.0), Bar("half", 100.0)]))
    _, all_of_it, half = (float(bar.attrib["width"]) for bar in root.findall(f"{SVG}rect"))
    assert half == pytest.approx(all_of_it / 2, abs=0.1)


def test_a_chart_without_data_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        line_chart("t", "x", "y", {})
    with pytest.raises(ValueError, match="nothing to draw"):
        bar_chart("t", [])
