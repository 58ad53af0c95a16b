"""A million pods on a million nodes: the time and the memory that the search needs.

    python -m benchmarks.million [--nodes 1000000] [--pods 1000000] [--kind basic] [--plot FILE]

Cache and algorithm with the default profile, all nodes scored, one pod after another; no API
server and no queue. Objects are made as a decoder would make them, except that equal strings
and label values are shared and pods are made as they are needed. Progress goes to stderr, one
JSON line to stdout: set-up and placing are timed apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import click
from msgspec.structs import replace

from benchmarks.charts import line_chart
from benchmarks.engine import Engine
from benchmarks.measuring import (
    GcPauses,
    Spent,
    Stopwatch,
    peak_rss_mib,
    rates,
    rss_mib,
    say,
    write_line,
)
from benchmarks.workloads import KINDS, make_node, make_pod
from kubesched.api import Node, Pod
from kubesched.foundation.util.collector import settle_collector
from kubesched.framework import PodInfo

__all__ = ["Outcome", "place_all"]

_CHUNKS = 50
# Pods of one kind repeat after this many, except for their names.
_PATTERNS = 500


class Outcome(NamedTuple):
    adding: Spent
    placing: Spent
    rss_with_nodes_mib: float
    curve: list[tuple[float, float]]
    """Pods placed so far, and pods/s since the point before."""


def place_all(nodes: int, pods: int, kind: str) -> Outcome:
    engine = Engine()
    watch = Stopwatch()
    for node in cheap_nodes(nodes):
        engine.cache.add_node(node)
    engine.cache.update_snapshot()
    adding, rss = watch.spent(), rss_mib()
    say(f"{nodes:,} nodes in {adding.wall_s:.1f} s, {rss:,.0f} MiB")
    watch = Stopwatch()
    curve: list[tuple[float, float]] = []
    chunk, last_s = max(1, pods // _CHUNKS), 0.0
    for number, pod in enumerate(cheap_pods(pods, kind), start=1):
        engine.place(PodInfo(pod))
        if number % chunk == 0:
            now_s = watch.spent().wall_s
            rate = chunk / (now_s - last_s)
            curve.append((number, rate))
            say(f"{number:,} pods in {now_s:.1f} s, {rate:,.0f} pods/s, {rss_mib():,.0f} MiB")
            last_s = now_s
    return Outcome(adding, watch.spent(), rss, curve)


def cheap_nodes(count: int) -> Iterator[Node]:
    """Make the nodes of the other benchmarks, with equal parts shared between them."""
    patterns = [make_node(number) for number in range(min(count, 10))]
    for number in range(count):
        pattern = patterns[number % len(patterns)]
        name = f"node-{number:06d}"
        labels = pattern.metadata.labels | {"kubernetes.io/hostname": name}
        metadata = replace(pattern.metadata, name=name, uid=name, labels=labels)
        yield replace(pattern, metadata=metadata)


def cheap_pods(count: int, kind: str) -> Iterator[Pod]:
    patterns = [make_pod(number, kind) for number in range(min(count, _PATTERNS))]
    for number in range(count):
        pattern = patterns[number % len(patterns)]
        name = f"pod-{number:07d}"
        yield replace(pattern, metadata=replace(pattern.metadata, name=name, uid=name))


@click.command(help=__doc__)
@click.option("--nodes", default=1_000_000, show_default=True)
@click.option("--pods", default=1_000_000, show_default=True)
@click.option("--kind", type=click.Choice(KINDS), default="basic", show_default=True)
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Chart (SVG).")
def main(nodes: int, pods: int, kind: str, plot: Path | None) -> None:
    settle_collector()
    with GcPauses() as pauses:
        outcome = place_all(nodes, pods, kind)
    total_s = outcome.adding.wall_s + outcome.placing.wall_s
    line: dict[str, object] = {"benchmark": "million", "kind": kind, "nodes": nodes, "pods": pods}
    line |= rates(pods, outcome.placing)
    line |= {
        "adding_nodes_s": round(outcome.adding.wall_s, 1),
        "total_s": round(total_s, 1),
        "rss_with_nodes_mib": outcome.rss_with_nodes_mib,
        "peak_rss_mib": peak_rss_mib(),
        "longest_gc_pause_ms": round(pauses.longest_ms, 1),
        "gc_total_s": round(pauses.total_ms / 1000, 1),
    }
    write_line(line)
    if plot is not None:
        title = f"{pods:,} pods on {nodes:,} nodes, {kind}"
        plot.write_text(line_chart(title, "pods placed", "pods/s", {kind: outcome.curve}))


if __name__ == "__main__":
    main()
