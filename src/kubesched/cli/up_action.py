"""Action of `kubesched up`: run an embedded cluster here or in the background; show the summary."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from kubesched.api.time import format_time
from kubesched.cli.cluster_run import ClusterRun, ReloadOptions, RunOptions, Started
from kubesched.cli.cluster_summary import ClusterSummary, render
from kubesched.cli.configuration_file import (
    file_hash,
    plugin_configuration,
    read_configuration,
)
from kubesched.cli.detached import DetachedError, repeated_arguments, report_to, start_detached
from kubesched.cli.named_clusters import ClusterFolder, state_folder
from kubesched.cluster.embedded_cluster import Listen
from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.util.clock import MILLISECOND, SECOND, RealClock
from kubesched.foundation.util.log_output import LogSettings, log_to
from kubesched.scheduler.config.feature_gates import FeatureGates, parse_feature_gates
from kubesched.scheduler.options import scheduler_configuration
from kubesched.scheduler.process.configuration_reloader import LoadedConfiguration
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

__all__ = ["run_up"]

_SAMPLE_PACE_NS: Final = 10 * MILLISECOND


_UNNAMED: Final = "default"
# The profile of --no-scheduler. The scheduler then only feeds the page: it places pods with this
# scheduler name, and there are none.
_NO_SCHEDULER: Final = {"schedulerName": "no-scheduler"}


def run_up(
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
    _check_options(options, has_scheduler_options=bool(config_file or plugins), detach=detach)
    folder = None
    if name or detach:
        folder = ClusterFolder(state_folder(os.environ), name or _UNNAMED)
    if detach and folder is not None:
        summary = _detached(ctx, folder, output, options)
        stays = False  # the other process stays
    else:
        summary, stays = _here(folder, config_file, plugins, output, timeout, options)
    if summary.undecided and not stays:
        names = ", ".join(f"{name} ({why})" for name, why in summary.undecided.items())
        raise KubeschedError(f"not decided within {timeout} s: {names}")
    if fail_on_pending and summary.pending:
        ctx.exit(1)


def _check_options(
    options: Mapping[str, Any], *, has_scheduler_options: bool, detach: bool
) -> None:
    if options["no_scheduler"] and (has_scheduler_options or options["verify_engine"]):
        raise click.UsageError(
            "--no-scheduler excludes --config, --plugin and --verify-engine: they are options of a "
            "scheduler"
        )
    if detach and options["exit_when_done"]:
        raise click.UsageError("--detach and --exit exclude each other")


def _detached(
    ctx: click.Context, folder: ClusterFolder, output: str, options: dict[str, Any]
) -> ClusterSummary:
    """Start the cluster in another process, and show its summary."""
    try:
        started = start_detached(
            folder,
            repeated_arguments(ctx, without=("name", "detach", "fail_on_pending")),
            is_quiet=options["quiet"],
            reads_input="-" in options["files"],
        )
    except DetachedError as exc:
        ctx.exit(exc.exit_code)
    _show(
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
    """Run the cluster in this process; return its summary, and whether it stayed after it."""
    descriptor, is_quiet = options["report_to"], options["quiet"]
    if descriptor is not None:
        log_to(LogSettings(), sys.stderr, sys.stderr, os.getpid())
    registry = out_of_tree_plugins(plugins)
    gates = parse_feature_gates(options["feature_gates"])
    if options["no_scheduler"]:
        configuration = scheduler_configuration(profiles=[_NO_SCHEDULER], feature_gates=gates)
    else:
        configuration = plugin_configuration(config_file, registry, plugins, gates)
    files, kubeconfig, listen = options["files"], options["kubeconfig"], options["listen"]
    is_watched, announces = sys.stdout.isatty(), not is_quiet and descriptor is None
    with contextlib.ExitStack() as held:
        if folder is not None:
            port = _claim(held, folder)
            listen = listen or Listen(port=port)
        elif is_watched or kubeconfig is not None:
            listen = listen or Listen()
        stays = listen is not None and not options["exit_when_done"]
        run = ClusterRun(
            RunOptions(
                files=files,
                configuration=configuration,
                reload=_reload(config_file, registry, gates, watches=options["watch_config"]),
                plugins=registry,
                listen=listen,
                kubeconfig=kubeconfig,
                data=options["data"] or _folder_data(folder),
                behavior_file=options["behavior_file"],
                rbac=options["rbac"],
                folder=folder,
                seed=options["seed"],
                verify_engine=options["verify_engine"],
                gates=gates,
                timeout_ns=timeout * SECOND,
                # Create the sample slowly enough for a user to watch its placement.
                pace_ns=_SAMPLE_PACE_NS if is_watched and not files else 0,
                stays=stays,
                is_quiet=is_quiet,
                announces=announces,
            )
        )

        closing = "Running; Ctrl-C stops." if stays else ""

        def on_started(started: Started) -> None:
            if descriptor is not None:
                report_to(descriptor, started)
            else:
                _show(started, output, is_quiet, closing)

        summary = asyncio.run(run.run(on_started))
    if announces:
        _print_how_to_continue(folder)
    return summary, stays


def _folder_data(folder: ClusterFolder | None) -> Path | None:
    return None if folder is None else folder.data


def _print_how_to_continue(folder: ClusterFolder | None) -> None:
    if folder is not None:
        again = f"kubesched up --name {folder.name} continues"
        click.echo(f"Kept: {again}, kubesched down {folder.name} removes it.", err=True)


def _claim(held: contextlib.ExitStack, folder: ClusterFolder) -> int:
    """Lock the cluster's folder until the stack ends; return its previous port if it is free."""
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


def _show(started: Started, output: str, is_quiet: bool, closing: str) -> None:
    """Show the summary, and after it how to reach the cluster if it stays."""
    if output == "json":
        encoded = msgspec.json.encode(started.summary).decode()
        click.echo(msgspec.json.format(encoded, indent=2))
    elif not is_quiet:
        click.echo(render(started.summary))
        if hint := _explain_hint(started, stays=bool(closing)):
            click.echo(f"\n{hint}", err=True)
    if is_quiet or not closing or not started.address:
        return
    click.echo(f"\n{closing}", err=True)
    click.echo(f"API server: {started.address}", err=True)
    click.echo(f"Dashboard:  {started.dashboard}", err=True)
    if started.context:
        click.echo(f"Context:    {started.context} in {started.context_file}", err=True)
    click.echo(f"export KUBECONFIG={started.kubeconfig}", err=True)


def _explain_hint(started: Started, *, stays: bool) -> str:
    """Return how to find remedies for pending pods; empty if none was explained."""
    if not any(each.explanation for each in started.summary.pending):
        return ""
    if not stays or not started.address:
        return (
            "In a cluster that stays (--name), `kubesched explain pods` shows changes that would "
            "help."
        )
    where = f"--context {started.context}"
    if not started.context:
        where = f"--kubeconfig {started.kubeconfig}"
    return f"kubesched explain pods {where} shows changes that would help."


def _reload(
    config_file: Path | None, registry: PluginRegistry, gates: FeatureGates, *, watches: bool
) -> ReloadOptions | None:
    """Return how the configuration file is loaded again; None if there is no file."""
    if config_file is None:
        if watches:
            raise click.UsageError("--watch-config needs --config")
        return None

    def load() -> LoadedConfiguration:
        try:
            read, sha256 = read_configuration(config_file, registry, gates), file_hash(config_file)
        except OSError as exc:
            raise ConfigError(f"{config_file}: {exc.strerror}") from exc
        configuration = scheduler_configuration(
            configuration=read, out_of_tree_registry=registry, feature_gates=gates
        )
        return LoadedConfiguration(configuration, sha256)

    return ReloadOptions(config_file, load, file_hash(config_file), watches)
