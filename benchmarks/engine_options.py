"""The command line and the output that the engine and loop benchmarks share."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.charts import Bar, bar_chart, line_chart
from benchmarks.measuring import Spent, median_of, rates, write_line
from benchmarks.workloads import CONTRIB_KINDS, ENGINE_KINDS, KINDS, SHAPES

__all__ = ["Case", "Run", "report", "workload_options"]


class Case(NamedTuple):
    """The pods and nodes of one measurement."""

    nodes: int
    pods: int
    kind: str
    shapes: int = SHAPES
    """The number of different pods of kind hetero."""


Measure = Callable[[Case], Spent]


class Run(NamedTuple):
    cases: tuple[Case, ...]
    repeat: int
    plot: Path | None


def workload_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options, and pass them to the command as a `Run`."""

    @functools.wraps(command)  # options that it has already are kept
    def collected(
        nodes: str,
        pods: str,
        kind: str,
        shapes: str,
        repeat: int,
        plot: Path | None,
        **rest: Any,
    ) -> None:
        kinds = KINDS if kind == "all" else tuple(kind.split(","))
        known = (*KINDS, *ENGINE_KINDS, *CONTRIB_KINDS)
        if unknown := set(kinds) - set(known):
            raise click.BadParameter(f"{', '.join(sorted(unknown))}: not among {', '.join(known)}")
        cases = itertools.product(kinds, _numbers(shapes), _numbers(pods), _numbers(nodes))
        chosen = tuple(Case(nodes, pods, kind, shapes) for kind, shapes, pods, nodes in cases)
        command(Run(chosen, repeat, plot), **rest)

    for option in (
        click.option(
            "--plot", type=click.Path(dir_okay=False, path_type=Path), help="Chart (SVG)."
        ),
        click.option("--repeat", default=1, show_default=True, help="Runs to take the median of."),
        click.option(
            "--kind",
            default="basic",
            show_default=True,
            help=f"All, or several by comma: {', '.join((*KINDS, *ENGINE_KINDS, *CONTRIB_KINDS))}.",
        ),
        click.option(
            "--shapes",
            default=str(SHAPES),
            show_default=True,
            help="Different pods of kind hetero. Several by comma.",
        ),
        click.option("--pods", default="5000", show_default=True, help="Several by comma."),
        click.option("--nodes", default="5000", show_default=True, help="Several by comma."),
    ):
        collected = option(collected)
    return collected


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def report(name: str, measure: Measure, run: Run) -> None:
    """Measure each case, print a line for it, and draw them all."""
    lines = []
    for case in run.cases:
        measured = functools.partial(measure, case)
        spent = median_of(run.repeat, measured, lambda spent: spent.cpu_s)
        line = {"benchmark": name, "kind": case.kind, "nodes": case.nodes, "pods": case.pods}
        if case.kind == "hetero":
            line["shapes"] = case.shapes
        line |= rates(case.pods, spent) | {"runs": run.repeat}
        write_line(line)
        lines.append(line)
    if run.plot is not None:
        run.plot.write_text(_chart(name, lines))


def _chart(name: str, lines: list[dict[str, Any]]) -> str:
    """Draw rates over the parameter that varies, in processor time; bars if none does."""
    for axis in ("nodes", "pods", "shapes"):
        if len({line.get(axis) for line in lines}) > 1:
            break
    series: dict[str, list[tuple[float, float]]] = {}
    for line in lines:
        series.setdefault(line["kind"], []).append((line.get(axis, 0), line["pods_per_cpu_s"]))
    if all(len(points) == 1 for points in series.values()):
        bars = [Bar(kind, points[0][1]) for kind, points in series.items()]
        return bar_chart(f"{name}: pods per CPU second, {lines[0]['nodes']:,} nodes", bars)
    title = f"{name}: pods per CPU second, by {axis}"
    return line_chart(title, axis, "pods per CPU second", series, log_x=True)
