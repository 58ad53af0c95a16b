"""Action of `kubesched explain`: explain why a pod is pending, or why it is on its node."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys

import click
import msgspec

from kubesched.api import Pod
from kubesched.cli.cluster_sources import ClusterSource, SourceOptions
from kubesched.cli.running_scheduler import RunningScheduler
from kubesched.explain import ExplainError, Explanation
from kubesched.explain.group_text import render_group
from kubesched.explain.pending_report import PendingReport
from kubesched.explain.pending_text import render_pending
from kubesched.explain.text import Paint, plain, render
from kubesched.explain.workload_pods import is_workload_kind

__all__ = ["run_explain_group", "run_explain_pod", "run_explain_pods", "run_explain_workload"]

_STYLES: dict[str, dict[str, object]] = {
    "head": {"bold": True},
    "good": {"fg": "green", "bold": True},
    "bad": {"fg": "red", "bold": True},
    "dim": {"dim": True},
}


def run_explain_pod(
    name: str,
    source: SourceOptions,
    scheduler: RunningScheduler | None,
    node: str,
    versus: str,
    no_suggestions: bool,
    output: str,
) -> None:
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


def run_explain_pods(
    source: SourceOptions, namespace: str, no_suggestions: bool, output: str
) -> None:
    snapshot = asyncio.run(source.snapshot(namespace)).snapshot
    _show_report(snapshot.explain_pending(namespace, suggest=not no_suggestions), output)


def run_explain_workload(
    target: str, source: SourceOptions, namespace: str, no_suggestions: bool, output: str
) -> None:
    kind, _, name = target.partition("/")
    if not name or not is_workload_kind(kind):
        raise click.UsageError(f"{target!r} is not KIND/NAME, such as deployment/web")
    before, slash, own = name.rpartition("/")
    cluster = asyncio.run(source.snapshot(before or namespace))
    report = cluster.snapshot.explain_workload(
        kind,
        own if slash else name,
        before or namespace or cluster.namespace,
        suggest=not no_suggestions,
    )
    _show_report(report, output)


def run_explain_group(
    name: str, source: SourceOptions, namespace: str, no_suggestions: bool, output: str
) -> None:
    before, slash, own = name.rpartition("/")
    cluster = asyncio.run(source.snapshot(before or namespace))
    answer = cluster.snapshot.explain_group(
        own if slash else name,
        before or namespace or cluster.namespace,
        suggest=not no_suggestions,
    )
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(answer), indent=2).decode())
        return
    width = shutil.get_terminal_size((100, 24)).columns
    click.echo(render_group(answer, width=min(width, 120), paint=_paint()))


def _show_report(report: PendingReport, output: str) -> None:
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        return
    width = shutil.get_terminal_size((100, 24)).columns
    click.echo(render_pending(report, width=min(width, 120), paint=_paint()))


def _pod(cluster: ClusterSource, name: str) -> Pod:
    """Return the named pod; without a name the only pod of the files, or the only pending one."""
    if name:
        return cluster.snapshot.pod(name, cluster.namespace)
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
    """Return colours for a terminal, unless NO_COLOR is set."""
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return plain
    return lambda text, style: click.style(text, **_STYLES[style])  # type: ignore[arg-type]
