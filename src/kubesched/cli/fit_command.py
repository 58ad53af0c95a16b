"""`kubesched fit`: how many copies of a pod the cluster still holds."""

from __future__ import annotations

import asyncio

import click
import msgspec

from kubesched.cli.cluster_sources import SourceOptions, source_options
from kubesched.explain import ExplainError
from kubesched.explain.fitting import Fit
from kubesched.explain.text import render_groups

__all__ = ["fit"]

_NODES_SHOWN = 10


@click.command(
    short_help="How many copies of a pod fit, and what stops the next one.",
    epilog="Example: kubesched fit -f pod.yaml --replicas 40",
)
@source_options
@click.option(
    "--replicas", type=click.IntRange(min=1), metavar="N", help="Whether so many copies fit."
)
@click.option("--max", "as_many", is_flag=True, help="As many as fit; the default.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the answer on standard output.",
)
def fit(source: SourceOptions, replicas: int | None, as_many: bool, output: str) -> None:
    """Place copies of the pods of the files on a copy of the cluster until one fits nowhere.

    Several pods are placed in turn, a set at a time. Nothing is written to the cluster.
    """
    if as_many and replicas is not None:
        raise click.UsageError("--max and --replicas exclude each other")
    cluster = asyncio.run(source.snapshot())
    pods = [pod for pod in cluster.pods if not pod.spec.node_name]
    if not pods:
        error = ExplainError("no pod to place: the files have none that waits")
        error.add_note("-f pod.yaml names it; nodes come from -f, --capture or --kubeconfig")
        raise error
    answer = cluster.snapshot.fit(*pods, replicas=replicas)
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2))
    else:
        click.echo("\n".join(_lines(answer)))


def _lines(answer: Fit) -> list[str]:
    wanted = "" if answer.asked is None else f" of {answer.asked}"
    copies = "copy" if answer.fits == 1 else "copies"
    lines = [f"{', '.join(answer.pods)}: {answer.fits}{wanted} {copies} fit"]
    for node, count in list(answer.nodes.items())[:_NODES_SHOWN]:
        lines.append(f"  {count:5d}  {node}")
    if len(answer.nodes) > _NODES_SHOWN:
        lines.append(f"  … on {len(answer.nodes)} nodes in all (-o json shows all)")
    if answer.stopped_by:
        lines += ["", "What stops the next one"]
        lines += render_groups(answer.stopped_by)
    for needed in answer.nodes_needed:
        lines.append(f"For the rest: {needed.count} more like {needed.like}")
    return lines
