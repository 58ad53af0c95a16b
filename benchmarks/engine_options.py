"""The command line that the engine and loop benchmarks share, and what they print."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.charts import Bar, bar_chart, line_chart
from benchmarks.measuring import Spent, median_of, rates, write_line
from benchmarks.workloads import KINDS

__all__ = ["Run", "report", "workload_options"]

Measure = Callable[[int, int, str], Spent]
"""Nodes, pods and kind of pods, to what placing them took."""


class Run(NamedTuple):
    nodes: tuple[int, ...]
    pods: int
    kinds: tuple[str, ...]
    repeat: int
    plot: Path | None


def workload_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options, and hand them to the command as a `Run`."""

    @functools.wraps(command)  # options that it has already are kept
    def collected(
        nodes: str, pods: int, kind: str, repeat: int, plot: Path | None, **rest: Any
    ) -> None:
        counts = tuple(int(count) for count in nodes.split(","))
        kinds = KINDS if kind == "all" else tuple(kind.split(","))
        if unknown := set(kinds) - set(KINDS):
            raise click.BadParameter(f"{', '.join(sorted(unknown))}: not among {', '.join(KINDS)}")
        command(Run(counts, pods, kinds, repeat, plot), **rest)

    for option in (
        click.option(
            "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Chart (SVG)."
        ),
        click.option("--repeat", default=1, show_default=True, help="Runs to take the median of."),
        click.option(
            "--kind",
            default="basic",
            show_default=True,
            help=f"One of {', '.join(KINDS)}; several by comma, or all.",
        ),
        click.option("--pods", default=5000, show_default=True),
        click.option("--nodes", default="5000", show_default=True, help="Several by comma."),
    ):
        collected = option(collected)
    return collected


def report(name: str, measure: Measure, run: Run) -> None:
    """Measure each combination, print a line for it, and draw them all."""
    lines = []
    for kind in run.kinds:
        for nodes in run.nodes:
            spent = median_of(
                run.repeat,
                lambda nodes=nodes, kind=kind: measure(nodes, run.pods, kind),  # type: ignore[misc]
                lambda spent: spent.wall_s,
            )
            line = {"benchmark": name, "kind": kind, "nodes": nodes, "pods": run.pods}
            line |= rates(run.pods, spent) | {"runs": run.repeat}
            write_line(line)
            lines.append(line)
    if run.plot is not None:
        run.plot.write_text(_chart(name, lines))


def _chart(name: str, lines: list[dict[str, Any]]) -> str:
    series: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        series.setdefault(line["kind"], []).append((line["nodes"], line["pods_per_s"]))
    if all(len(points) == 1 for points in series.values()):
        bars = [Bar(kind, points[0][1]) for kind, points in series.items()]
        return bar_chart(f"{name}: pods/s on {lines[0]['nodes']:,} nodes", bars)
    return line_chart(f"{name}: pods/s by nodes", "nodes", "pods/s", series, log_x=True)
