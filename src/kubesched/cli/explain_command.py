"""`kubesched explain`: options and help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubesched.cli.shared_options import scheduler_options, source_options

if TYPE_CHECKING:
    from kubesched.cli.cluster_sources import SourceOptions
    from kubesched.cli.running_scheduler import RunningScheduler

__all__ = ["explain"]


@click.group(
    short_help="Explain why a pod is pending, and which changes would help.",
    epilog="Example: kubesched explain pod shop/web-7 -f dump.yaml",
)
def explain() -> None:
    """Explain decisions of the scheduler. The command never writes to a cluster."""


@explain.command(
    "pod",
    epilog="Example: kubesched explain pod shop/web-7 --versus node-3 -o json",
)
@click.argument("name", metavar="[NAMESPACE/]NAME", required=False, default="")
@source_options
@scheduler_options
@click.option("--node", default="", metavar="NODE", help="Only this node, in full.")
@click.option("--versus", default="", metavar="NODE", help="Compare this node with the chosen one.")
@click.option("--no-suggestions", is_flag=True, help="Do not search for remedies.")
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
    """Explain why a pod is pending, or which node it gets and why.

    The cluster comes from files (-f, a dump of `kubectl get nodes,pods,... -A -o yaml`), a
    capture, or the API server of --kubeconfig, from which the command only reads. With
    --scheduler it queries a running scheduler. Exit status: 0 explained, 1 failed.
    """
    from kubesched.cli.explain_action import run_explain_pod

    run_explain_pod(name, source, scheduler, node, versus, no_suggestions, output)
