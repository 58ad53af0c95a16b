"""`kubesched up`: an embedded cluster, the scheduler, and a workload to place."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from kubesched.api.time import format_time
from kubesched.cli.cluster_run import ClusterRun, RunOptions, Started
from kubesched.cli.cluster_summary import ClusterSummary, render
from kubesched.cli.configuration_file import read_configuration
from kubesched.cli.detached import DetachedError, arguments_again, report_to, start_detached
from kubesched.cli.listen_address import ListenAddress
from kubesched.cli.named_clusters import ClusterFolder, ClusterName, state_folder
from kubesched.cluster.embedded_cluster import Listen
from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import MILLISECOND, SECOND, RealClock
from kubesched.foundation.util.log_output import LogSettings, log_to
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.feature_gates import FeatureGates, check_built, parse_feature_gates
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.runtime.plugin_loading import load_plugin, out_of_tree_plugins
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["up"]

_SAMPLE_PACE_NS: Final = 10 * MILLISECOND
_UNNAMED: Final = "default"


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
    help="Serve the API here, and go on running until Ctrl-C; port 0 takes a free one. On a "
    "terminal the default is 127.0.0.1:0.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Write here how to reach the API. By default a temporary file, whose name is shown; with "
    "a name the first file of $KUBECONFIG, or ~/.kube/config.",
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Keep the cluster in this file (SQLite), and go on where it was. What -f names and the "
    "file already has stays as it is.",
)
@click.option(
    "--behavior",
    "behavior_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="YAML with rules for how pods behave: how long they take to start, when they fail, and so "
    "on; see docs/cluster.md. Annotations of a pod come first.",
)
@click.option(
    "--name",
    type=ClusterName(),
    metavar="NAME",
    help="Keep the cluster under this name until `kubesched down NAME`; its context kubesched-NAME "
    "is added to the kubeconfig that kubectl uses. Other commands find it by --name.",
)
@click.option(
    "--detach",
    is_flag=True,
    help="Go on in the background once the workload is placed, under the name `default` if none is "
    "given; `kubesched clusters` lists what runs.",
)
@click.option(
    "--rbac",
    is_flag=True,
    help="Let clients do what Roles and bindings allow, and nothing else. The kubeconfig is the "
    "administrator's.",
)
@click.option(
    "--feature-gates",
    multiple=True,
    metavar="NAME=BOOL,...",
    help="Turn features of the scheduler and the API server on or off, as in `kubesched run`. For "
    "example GenericWorkload=true,GangScheduling=true for pod groups (docs/pod-groups.md).",
)
@click.option("--seed", default=0, show_default=True, help="Same seed, same ties broken.")
@click.option(
    "--verify-engine",
    is_flag=True,
    help="Check every decision against a full evaluation; stop on the first difference.",
)
@click.option(
    "--exit", "exit_when_done", is_flag=True, help="End after the summary, on a terminal too."
)
@click.option("-q", "--quiet", is_flag=True, help="Only errors, and JSON if that is asked for.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the summary on standard output.",
)
@click.option(
    "--timeout",
    default=60,
    type=click.IntRange(0, 10**6),
    show_default=True,
    metavar="SECONDS",
    help="How long to wait until every pod is decided; then sum up what is, and fail.",
)
@click.option(
    "--fail-on-pending", is_flag=True, help="Exit with 1 if some pod has no node in the end."
)
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

    Applies the files, shows the pods being placed, and prints where they went and why the rest
    is pending. On a terminal it then goes on running until Ctrl-C, and kubectl and other clients
    can use it with the kubeconfig that it writes.
    """
    if detach and options["exit_when_done"]:
        raise click.UsageError("--detach and --exit exclude each other")
    folder = None
    if name or detach:
        folder = ClusterFolder(state_folder(os.environ), name or _UNNAMED)
    if detach and folder is not None:
        summary = _detached(ctx, folder, output, options)
        stays = False  # not here
    else:
        summary, stays = _here(folder, config_file, plugins, output, timeout, options)
    if summary.undecided and not stays:
        names = ", ".join(f"{name} ({why})" for name, why in summary.undecided.items())
        raise KubeschedError(f"not decided within {timeout} s: {names}")
    if fail_on_pending and summary.pending:
        ctx.exit(1)


def _detached(
    ctx: click.Context, folder: ClusterFolder, output: str, options: dict[str, Any]
) -> ClusterSummary:
    """Have another process run the cluster."""
    try:
        started = start_detached(
            folder,
            arguments_again(ctx, without=("name", "detach", "fail_on_pending")),
            is_quiet=options["quiet"],
            reads_input="-" in options["files"],
        )
    except DetachedError as exc:
        ctx.exit(exc.exit_code)
    _tell(
        started,
        output,
        options["quiet"],
        f"Cluster {folder.name} runs in the background; kubesched down {folder.name} ends it.",
    )
    return started.summary


def _here(
    folder: ClusterFolder | None,
    config_file: Path | None,
    plugins: Sequence[str],
    output: str,
    timeout: int,
    options: dict[str, Any],
) -> tuple[ClusterSummary, bool]:
    """Run the cluster; what came of its workload, and whether it stayed after that."""
    descriptor, is_quiet = options["report_to"], options["quiet"]
    if descriptor is not None:
        log_to(LogSettings(), sys.stderr, sys.stderr, os.getpid())
    registry = out_of_tree_plugins(plugins)
    gates = parse_feature_gates(options["feature_gates"])
    configuration = _configuration(config_file, registry, plugins, gates)
    check_built(gates, has_extenders=bool(configuration.extenders))
    files, kubeconfig, listen = options["files"], options["kubeconfig"], options["listen"]
    is_watched = sys.stdout.isatty()
    with contextlib.ExitStack() as held:
        if folder is not None:
            port = _claim(held, folder)
            listen = listen or Listen(port=port)
        elif listen is None and (is_watched or kubeconfig is not None):
            listen = Listen()
        stays = listen is not None and not options["exit_when_done"]
        run = ClusterRun(
            RunOptions(
                files=files,
                configuration=configuration,
                plugins=registry,
                listen=listen,
                kubeconfig=kubeconfig,
                data=options["data"] or (None if folder is None else folder.data),
                behavior_file=options["behavior_file"],
                rbac=options["rbac"],
                folder=folder,
                seed=options["seed"],
                verify_engine=options["verify_engine"],
                gates=gates,
                timeout_ns=timeout * SECOND,
                # The sample comes in slowly enough for a person to see it being placed.
                pace_ns=_SAMPLE_PACE_NS if is_watched and not files else 0,
                stays=stays,
                is_quiet=is_quiet,
                announces=not is_quiet and descriptor is None,
            )
        )
        tell: Callable[[Started], None]
        if descriptor is not None:
            tell = lambda started: report_to(descriptor, started)  # noqa: E731
        else:
            closing = "Running; Ctrl-C stops." if stays else ""
            tell = lambda started: _tell(started, output, is_quiet, closing)  # noqa: E731
        summary = asyncio.run(run.run(tell))
    if folder is not None and descriptor is None and not is_quiet:
        again = f"kubesched up --name {folder.name} goes on"
        click.echo(f"Kept: {again}, kubesched down {folder.name} removes it.", err=True)
    return summary, stays


def _claim(held: contextlib.ExitStack, folder: ClusterFolder) -> int:
    """Be the process of a cluster until the stack ends; the port it had before if it is free."""
    held.enter_context(folder.prepared())
    held.enter_context(folder.claimed())
    port = folder.begin_record(os.getpid(), format_time(RealClock().now_ns()))
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _tell(started: Started, output: str, is_quiet: bool, closing: str) -> None:
    """Sum up; where the cluster is, if it goes on, comes last."""
    if output == "json":
        encoded = msgspec.json.encode(started.summary).decode()
        click.echo(msgspec.json.format(encoded, indent=2))
    elif not is_quiet:
        click.echo(render(started.summary))
    if is_quiet or not closing or not started.address:
        return
    click.echo(f"\n{closing}", err=True)
    click.echo(f"API server: {started.address}", err=True)
    click.echo(f"Dashboard:  {started.dashboard}", err=True)
    if started.context:
        click.echo(f"Context:    {started.context} in {started.context_file}", err=True)
    click.echo(f"export KUBECONFIG={started.kubeconfig}", err=True)


def _configuration(
    config_file: Path | None,
    registry: PluginRegistry,
    plugins: Sequence[str],
    gates: FeatureGates,
) -> KubeSchedulerConfiguration:
    """The file's configuration; without a file the default one with the plugins that were named."""
    if config_file is not None:
        return read_configuration(config_file, registry, gates)
    if not plugins:
        return default_configuration(gates)
    enabled = [{"name": load_plugin(plugin).name} for plugin in plugins]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    return scheduler_configuration(
        profiles=[profile], out_of_tree_registry=registry, feature_gates=gates
    )
