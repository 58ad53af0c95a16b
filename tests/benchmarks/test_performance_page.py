"""docs/performance.md and the table in README.md agree with the result files."""

from __future__ import annotations

import re

from benchmarks.performance_page import CHART, PAGE, ROOT, history_chart, performance_page
from benchmarks.results_file import read_results

RESULTS = read_results()
AGAIN = "run `python -m benchmarks.performance_page`"
KINDS = {"plain pods": "basic", "hard zone spread": "spread", "500 shapes of pods": "hetero"}


def test_the_page_is_generated_from_the_result_files() -> None:
    assert PAGE.read_text() == performance_page(RESULTS), AGAIN


def test_the_chart_is_generated_from_the_history() -> None:
    assert CHART.read_text() == history_chart(RESULTS["90-history"]), AGAIN


def test_every_result_names_its_command_day_and_commit() -> None:
    for name, result in RESULTS.items():
        assert result.lines, name
        assert result.command, name
        assert re.fullmatch(r"2\d{3}-\d\d-\d\d", result.measured), name
        assert re.fullmatch(r"[0-9a-f]{8}", result.commit), name


def test_the_figures_in_the_readme_are_those_of_the_result_files() -> None:
    engine, reference = RESULTS["10-engine"], RESULTS["11-reference"]
    rows = re.findall(r"^\| ([^|]+) \| (\d+)[^|]*\| (\d+)[^|]*\| ([^|]+) \|$", README, re.MULTILINE)
    assert [name for name, *_ in rows] == list(KINDS)
    for name, sampling, every, own in rows:
        kind = KINDS[name]
        assert sampling == reference.cell("sampling", kind=kind)
        assert every == reference.cell("all", kind=kind)
        assert own.split()[0] == engine.cell("pods_per_cpu_s", kind=kind)


README = (ROOT / "README.md").read_text()
