"""`kubesched explain`: options and help."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from kubesched.cli.explain_targets import ExplainGroup
from kubesched.cli.shared_options import output_option, scheduler_options, source_options

if TYPE_CHECKING:
    from kubesched.cli.cluster_sources import SourceOptions
    from kubesched.cli.running_scheduler import RunningScheduler

__all__ = ["explain"]


@click.group(
    cls=ExplainGroup,
    short_help="Explain why pods are pending, and which changes would help.",
    epilog="Examples: kubesched explain pods;  kubesched explain pod shop/web-7 -f dump.yaml;  "
    "kubesched explain deployment/web -n shop",
)
def explain() -> None:
    """Explain decisions of the scheduler. The command never writes to a cluster.

    A workload is named as for kubectl: deployment/NAME, sts/NAME, job/NAME and so on.
    """


@explain.command(
    "pod",
    epilog="Example: kubesched explain pod shop/web-7 --versus node-3 -o json",
)
@click.argument("name", metavar="[NAMESPACE/]NAME", required=False, default="")
@source_options
@scheduler_options
@click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace of the pod.")
@click.option("--node", default="", metavar="NODE", help="Only this node, in full.")
@click.option("--versus", default="", metavar="NODE", help="Compare this node with the chosen one.")
@click.option("--no-suggestions", is_flag=True, help="Do not search for remedies.")
@output_option("answer", forms=("text", "json", "html"))
def explain_pod(
    name: str,
    source: SourceOptions,
    scheduler: RunningScheduler | None,
    namespace: str,
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

    if namespace and "/" in name:
        raise click.UsageError(f"-n {namespace} excludes the namespace in {name!r}")
    full_name = f"{namespace}/{name}" if namespace and name else name
    run_explain_pod(full_name, source, scheduler, node, versus, no_suggestions, output)


def _report_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of the commands that explain several pods."""
    for option in reversed(
        (
            click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace."),
            click.option("--no-suggestions", is_flag=True, help="Do not search for remedies."),
            output_option("answer"),
        )
    ):
        command = option(command)
    return command


@explain.command(
    "pods",
    epilog="Example: kubesched explain pods -n shop -f dump.yaml",
)
@source_options
@_report_options
def explain_pods(source: SourceOptions, namespace: str, no_suggestions: bool, output: str) -> None:
    """List all pending pods, grouped by cause, with the smallest changes that would help.

    Without -n the pods of all namespaces. Exit status: 0 explained, 1 failed.
    """
    from kubesched.cli.explain_action import run_explain_pods

    run_explain_pods(source, namespace, no_suggestions, output)


@explain.command(
    "workload",
    epilog="Example: kubesched explain workload deployment/web -n shop",
)
@click.argument("target", metavar="KIND/NAME")
@source_options
@_report_options
def explain_workload(
    target: str, source: SourceOptions, namespace: str, no_suggestions: bool, output: str
) -> None:
    """Explain the pending pods of a workload; `explain KIND/NAME` is the same.

    KIND is a name that kubectl accepts, such as deployment, sts or job. If the controller has
    created no pods, the pod that it would create is explained.
    """
    from kubesched.cli.explain_action import run_explain_workload

    run_explain_workload(target, source, namespace, no_suggestions, output)


@explain.command(
    "podgroup",
    epilog="Example: kubesched explain podgroup ml/training -f dump.yaml",
)
@click.argument("name", metavar="[NAMESPACE/]NAME")
@source_options
@_report_options
def explain_podgroup(
    name: str, source: SourceOptions, namespace: str, no_suggestions: bool, output: str
) -> None:
    """Explain what a PodGroup waits for: how many of its pods exist, and how many fit together.

    With a topology constraint each domain is tried. Exit status: 0 explained, 1 failed.
    """
    from kubesched.cli.explain_action import run_explain_group

    run_explain_group(name, source, namespace, no_suggestions, output)
