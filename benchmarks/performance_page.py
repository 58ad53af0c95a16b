"""Generate docs/performance.md, and the chart of the history, from benchmarks/results/*.json.

    python -m benchmarks.performance_page [--check]

`--check` writes nothing, and ends with 1 if the page or the chart differs from its sources.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from benchmarks.charts import line_chart
from benchmarks.goals import goal_table
from benchmarks.results_file import RESULTS, ResultFile, read_results

__all__ = ["CHART", "PAGE", "history_chart", "performance_page"]

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/performance.md"
CHART = ROOT / "docs/performance/history.svg"
_KINDS = {
    "engine-basic": "plain",
    "engine-spread": "zone spread",
    "engine-affinity": "anti-affinity",
    "engine-hetero": "500 shapes",
    "engine-mixed": "mixed",
    "loop-basic": "whole loop",
}


def performance_page(results: dict[str, ResultFile]) -> str:
    """Return the text of the page."""
    introduction = (RESULTS / "introduction.md").read_text()
    return "\n".join([introduction, _goals(results), *map(_section, results.values())])


def _goals(results: dict[str, ResultFile]) -> str:
    heading, *rows = goal_table(results)
    lines = ["## Which goals are reached?", ""]
    lines += [_row(heading), _row(["---"] * len(heading)), *map(_row, rows), ""]
    lines.append("Each figure is from the section below that names the same benchmark.")
    return "\n".join([*lines, ""])


def _section(result: ResultFile) -> str:
    heading, *rows = result.table()
    lines = [f"## {result.question}", ""]
    if result.chart:
        lines += [f"![{result.question}](performance/{result.chart})", ""]
    lines += [_row(heading), _row(["---"] * len(heading)), *map(_row, rows), ""]
    machine = result.machine
    lines.append(
        f"`{result.command}`: {result.measured}, commit {result.commit}, {result.load}; "
        f"{machine['system']}, {machine['cores']} cores, {machine['memory_gib']} GiB, "
        f"Python {machine['python']}."
    )
    for note in result.notes:
        lines += ["", note]
    return "\n".join([*lines, ""])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def history_chart(result: ResultFile) -> str:
    """Return the chart of instructions per pod over the commits."""
    series = {
        name: [(line["number"], line[kind]) for line in result.lines if line.get(kind)]
        for kind, name in _KINDS.items()
    }
    return line_chart("Thousand instructions per pod", "commit", "thousand instructions", series)


@click.command(help=__doc__)
@click.option("--check", is_flag=True)
def main(check: bool) -> None:
    results = read_results()
    built = {PAGE: performance_page(results), CHART: history_chart(results["90-history"])}
    stale = [path for path, text in built.items() if not path.exists() or path.read_text() != text]
    if check:
        for path in stale:
            click.echo(f"{path.relative_to(ROOT)} differs from benchmarks/results/", err=True)
        sys.exit(bool(stale))
    for path in stale:
        path.write_text(built[path])


if __name__ == "__main__":
    main()
