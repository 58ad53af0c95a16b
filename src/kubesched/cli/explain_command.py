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
    from kubesched.cli.explain_action import run_explain_pod

    run_explain_pod(name, source, scheduler, node, versus, no_suggestions, output)
