"""`kubesched explain`: why a pod is pending, what would help, why it went where it is."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

import click
import msgspec

from kubesched.api import Pod
from kubesched.cli.cluster_sources import ClusterSource, SourceOptions, source_options
from kubesched.cli.running_scheduler import RunningScheduler, scheduler_options
from kubesched.explain import ExplainError, Explanation
from kubesched.explain.text import Paint, plain, render

__all__ = ["explain"]

_STYLES: dict[str, dict[str, object]] = {
    "head": {"bold": True},
    "good": {"fg": "green", "bold": True},
    "bad": {"fg": "red", "bold": True},
    "dim": {"dim": True},
}


@click.group(
    short_help="Why a pod is pending, and what would help.",
    epilog="Example: kubesched explain pod shop/web-7 -f dump.yaml",
)
def explain() -> None:
    """Ask the scheduler why. Nothing is ever written to a cluster."""


@explain.command(
    "pod",
    epilog="Example: kubesched explain pod shop/web-7 --versus node-3 -o json",
)
@click.argument("name", metavar="[NAMESPACE/]NAME", required=False, default="")
@source_options
@scheduler_options
@click.option("--node", default="", metavar="NODE", help="Only this node, in full.")
@click.option("--versus", default="", metavar="NODE", help="Why the chosen node and not this one.")
@click.option("--no-suggestions", is_flag=True, help="Leave out what would help.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
    help="Form of the answer on standard output.",
)
def explain_pod(
    name: str,
    source: SourceOptions,
    scheduler: RunningScheduler | None,
    node: str,
    versus: str,
    no_suggestions: bool,
    output: str,
) -> None:
    """Explain why a pod is pending, or where it goes and why there.

    The cluster comes from files (-f, a dump of `kubectl get nodes,pods,... -A -o yaml`), a
    capture, or the API server of --kubeconfig, of which only reading is asked; or a running
    scheduler is asked (--scheduler). Exit status: 0 answered, 1 not.
    """
    if scheduler is not None:
        if not name or source.files or source.capture:
            raise click.UsageError("--scheduler takes a pod's name, and neither -f nor --capture")
        asked = scheduler.explain(name, versus=versus, suggest=not no_suggestions)
        answer = asyncio.run(asked)
    else:
        namespace = name.partition("/")[0] if "/" in name else ""
        cluster = asyncio.run(source.snapshot(namespace))
        answer = cluster.snapshot.explain(
            _pod(cluster, name), versus=versus, suggest=not no_suggestions
        )
    if node:
        answer = _only_node(answer, node)
    click.echo(_encoded(answer, output))


def _pod(cluster: ClusterSource, name: str) -> Pod:
    """The pod that is asked about: by name, or the only one that it can be."""
    if name:
        return cluster.snapshot.pod(name)
    if len(cluster.pods) == 1:
        return cluster.pods[0]
    waiting = cluster.snapshot.pending()
    if len(waiting) == 1:
        return waiting[0]
    error = ExplainError("which pod? name one as NAMESPACE/NAME")
    if waiting:
        shown = [f"{each.metadata.namespace}/{each.metadata.name}" for each in waiting[:5]]
        error.add_note(f"{len(waiting)} pods are pending: {', '.join(shown)}")
    raise error


def _only_node(answer: Explanation, node: str) -> Explanation:
    groups = tuple(
        msgspec.structs.replace(group, count=1, example=node, nodes=(node,))
        for group in answer.groups
        if node in group.nodes
    )
    if not groups:
        raise ExplainError(f"no node named {node!r}")
    return msgspec.structs.replace(answer, groups=groups)


def _encoded(answer: Explanation, output: str) -> str:
    if output == "json":
        return msgspec.json.format(msgspec.json.encode(answer), indent=2).decode()
    if output == "html":
        return answer.to_html()
    width = shutil.get_terminal_size((100, 24)).columns
    return render(answer, width=min(width, 120), paint=_paint())


def _paint() -> Paint:
    """Colours on a terminal, unless NO_COLOR says otherwise."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return plain
    return lambda text, style: click.style(text, **_STYLES[style])  # type: ignore[arg-type]
