"""Action of `kubesched fit`: count how many copies of a pod fit into a cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click
import msgspec

from kubesched.cli.cluster_sources import SourceOptions
from kubesched.explain import ExplainError
from kubesched.explain.fitting import Fit
from kubesched.explain.text import render_groups

__all__ = ["run_fit"]

_NODES_SHOWN = 10


def run_fit(
    source: SourceOptions,
    names: Sequence[str],
    replicas: int | None,
    as_many: bool,
    output: str,
) -> None:
    if as_many and replicas is not None:
        raise click.UsageError("--max and --replicas exclude each other")
    cluster = asyncio.run(source.snapshot())
    if names:
        pods = [cluster.snapshot.pod(name, cluster.namespace) for name in names]
    else:
        pods = [pod for pod in cluster.pods if not pod.spec.node_name]
    if not pods:
        error = ExplainError("no pod to place: the files have none without a node")
        error.add_note("-f pod.yaml or --pod names it")
        error.add_note("nodes come from -f, --capture or --kubeconfig")
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
