"""`kubesched up`: options and help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kubesched.cli.shared_options import ClusterName, ListenAddress, output_option

__all__ = ["up"]


@click.command(
    epilog="Examples: kubesched up -f nodes.yaml -f pods.yaml -o json;  "
    "kubesched up --name blue --detach",
    short_help="Run a cluster in this process and place a workload.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="YAML with nodes, pods and other objects; may be repeated; - reads standard input. "
    "Without it, a sample cluster of 30 nodes and 300 pods.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A KubeSchedulerConfiguration file.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="PLUGIN",
    help="Also load this plugin: module:Class or the path of a .py file; may be repeated. "
    "It runs if the configuration enables it, and without a configuration in any case.",
)
@click.option(
    "--listen",
    type=ListenAddress(),
    metavar="HOST:PORT",
    help="Serve the API here until Ctrl-C; port 0 selects a free port. On a "
    "terminal the default is 127.0.0.1:0.",
)
@click.option(
    "--watch-config",
    is_flag=True,
    help="Reload the file of --config when it changes, as SIGHUP does.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write the kubeconfig of the cluster here. By default a temporary file; with "
    "--name the first file of $KUBECONFIG, or ~/.kube/config.",
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Store the cluster in this file (SQLite), and resume from it. Objects of -f that the "
    "file already has are not changed.",
)
@click.option(
    "--behavior",
    "behavior_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="YAML with rules for how pods behave: how long they take to start, when they fail, and so "
    "on; see docs/cluster.md. Annotations of a pod take precedence.",
)
@click.option(
    "--name",
    type=ClusterName(),
    metavar="NAME",
    help="Store the cluster under this name until `kubesched down NAME`; its context "
    "kubesched-NAME is added to the kubeconfig that kubectl uses. Other commands "
    "select it with --name.",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Continue in the background when the workload is placed, under the name `default` "
    "without --name; `kubesched clusters` lists the clusters.",
)
@click.option(
    "--rbac",
    is_flag=True,
    help="Authorize clients by Roles and bindings. The kubeconfig is the administrator's.",
)
@click.option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Enable or disable features of the scheduler and the API server, as in `kubesched run`. "
    "For example GenericWorkload=true,GangScheduling=true for pod groups (docs/pod-groups.md).",
)
@click.option(
    "--no-scheduler",
    is_flag=True,
    help="Place no pods: run a scheduler of your own with the kubeconfig.",
)
@click.option(
    "--seed", default=0, show_default=True, help="Seed for the choice between equal nodes."
)
@click.option(
    "--verify-engine",
    is_flag=True,
    help="Check every decision against a full evaluation; stop on the first difference.",
)
@click.option(
    "--exit", "exit_when_done", is_flag=True, help="Exit after the summary, also on a terminal."
)
@click.option("-q", "--quiet", is_flag=True, help="Print only errors, and the JSON of -o json.")
@output_option("summary")
@click.option(
    "--timeout",
    default=60,
    type=click.IntRange(0, 10**6),
    show_default=True,
    metavar="SECONDS",
    help="The longest wait for a decision about every pod. Afterwards the command prints the "
    "summary and fails.",
)
@click.option("--fail-on-pending", is_flag=True, help="Exit with 1 if a pod is pending at the end.")
@click.option("--report-to", type=int, hidden=True)
@click.pass_context
def up(
    ctx: click.Context,
    /,
    config_file: Path | None,
    plugins: tuple[str, ...],
    name: str | None,
    detach: bool,
    output: str,
    timeout: int,
    fail_on_pending: bool,
    **options: Any,
) -> None:
    """Run a whole cluster in this process: API server, kubelets, scheduler.

    Applies the files, shows the progress of the placement, and prints the nodes of the pods and
    the causes of pending ones. On a terminal the cluster then runs until Ctrl-C, and kubectl and
    other clients can use it with the kubeconfig that it writes.
    """
    from kubesched.cli.up_action import run_up

    run_up(ctx, config_file, plugins, name, detach, output, timeout, fail_on_pending, **options)
