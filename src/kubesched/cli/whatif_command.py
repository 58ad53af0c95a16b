"""`kubesched whatif`: options and help."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.cli.shared_options import in_namespace, output_option, source_options
from kubesched.foundation.util.ints import whole_number

if TYPE_CHECKING:
    from kubesched.cli.cluster_sources import SourceOptions

__all__ = ["whatif"]


def _pairs(
    _context: click.Context, option: click.Parameter, values: Sequence[str]
) -> tuple[tuple[str, str], ...]:
    """Split each `LEFT:RIGHT` at the first colon."""
    found = []
    for value in values:
        left, colon, right = value.partition(":")
        if not colon or not left or not right:
            raise click.BadParameter(f"{value!r} is not {option.metavar}")
        found.append((left, right))
    return tuple(found)


def _names(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.split(",") if name)


def _scales(
    _context: click.Context, _option: click.Parameter, values: Sequence[str]
) -> tuple[tuple[str, int], ...]:
    found = []
    for value in values:
        target, equals, replicas = value.rpartition("=")
        count = whole_number(replicas)
        if not equals or count is None:
            raise click.BadParameter(f"{value!r} is not [NAMESPACE/]deploy/NAME=REPLICAS")
        found.append((target, count))
    return tuple(found)


@click.command(
    short_help="Show the effects of changes to nodes or workloads.",
    epilog="Example: kubesched whatif --drain node-3,node-4 -f dump.yaml",
)
@source_options
@click.option(
    "--drain",
    multiple=True,
    callback=_names,
    metavar="NODE,...",
    help="Cordon these nodes and evict their pods.",
)
@click.option("--add", type=click.IntRange(1, 10_000), metavar="N", help="Add N nodes.")
@click.option(
    "--like", default="", metavar="NODE", help="The node to copy for --add; default: the largest."
)
@click.option(
    "--remove", multiple=True, callback=_names, metavar="NODE,...", help="Remove these nodes."
)
@click.option(
    "--taint",
    multiple=True,
    callback=_pairs,
    metavar="NODE:KEY=VALUE:EFFECT",
    help="Add a taint to a node, or to the nodes with a label KEY=VALUE.",
)
@click.option("--label", multiple=True, callback=_pairs, metavar="NODE:KEY=VALUE")
@click.option(
    "-n", "--namespace", default="", metavar="NAME", help="The namespace of --scale KIND/NAME."
)
@click.option(
    "--scale", multiple=True, callback=_scales, metavar="[NAMESPACE/]deploy/NAME=REPLICAS"
)
@click.option(
    "--changes",
    multiple=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE",
    help="Objects to create or replace, if -f is the cluster itself.",
)
@output_option("answer")
def whatif(
    source: SourceOptions,
    drain: tuple[str, ...],
    add: int | None,
    like: str,
    remove: tuple[str, ...],
    taint: tuple[tuple[str, str], ...],
    label: tuple[tuple[str, str], ...],
    namespace: str,
    scale: tuple[tuple[str, int], ...],
    changes: tuple[Path, ...],
    output: str,
) -> None:
    """Apply changes to a copy of the cluster, with the real scheduler and controllers.

    Shows which pods move, wait, are preempted or gone, and how full zones and pools are before and
    after. Files (-f) without nodes, or beside a capture, are changes: objects to create or
    replace. --config is the configuration from then on. Several nodes are drained in an order in
    which nothing waits, if there is one. Nothing is written.
    """
    from kubesched.cli.whatif_action import run_whatif

    targets = in_namespace([target for target, _ in scale], namespace, parts=2)
    scale = tuple(zip(targets, (count for _, count in scale), strict=True))
    run_whatif(source, drain, add, like, remove, taint, label, scale, changes, output)
