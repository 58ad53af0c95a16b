"""`kubesched capture`: one file of all that scheduling depends on, to ask questions about later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from kubesched.api.time import format_time
from kubesched.cli.cluster_address import ClusterAddress, cluster_options, live_api
from kubesched.cli.configuration_file import read_configuration
from kubesched.cli.running_scheduler import RunningScheduler, scheduler_options
from kubesched.explain import ExplainError
from kubesched.explain.capture import Capture, write_capture
from kubesched.explain.sources import Loaded, load_files, read_cluster
from kubesched.foundation.util.clock import RealClock
from kubesched.scheduler.config.write import versioned
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins

__all__ = ["capture"]


@click.command(
    short_help="Write all that scheduling depends on to one file.",
    epilog="Example: kubesched capture --out cluster.capture --anonymize",
)
@click.option(
    "--out",
    "-o",
    "path",
    required=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="The file to write; an existing one is replaced once the new one is whole.",
)
@click.option("--anonymize", is_flag=True, help="Replace names, labels and images, consistently.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Take a dump instead of a live cluster; may be repeated.",
)
@cluster_options
@scheduler_options
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The KubeSchedulerConfiguration of the scheduler there, to be kept with it.",
)
@click.option("--json", "as_json", is_flag=True, help="Say what was written as JSON.")
def capture(
    path: Path,
    anonymize: bool,
    files: tuple[str, ...],
    address: ClusterAddress,
    scheduler: RunningScheduler | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Write nodes, pods, claims, volumes, budgets and the like to one compressed file.

    Only reading is asked of the cluster. Secrets, config maps, env, commands and annotations
    that scheduling does not read are not in the file. With --scheduler it holds the
    configuration and the queue of that scheduler as well.
    """
    loaded = load_files(files) if files else asyncio.run(_live(address))
    configuration = queue = None
    if scheduler is not None:
        configuration, queue = asyncio.run(_of_scheduler(scheduler))
    if config_file is not None:
        plugins = out_of_tree_plugins(())
        configuration = versioned(read_configuration(config_file, plugins))
    taken = format_time(RealClock().now_ns())
    whole = Capture(tuple(loaded.objects), taken, loaded.unknown, configuration, queue)
    try:
        count = write_capture(whole, path, anonymize=anonymize)
    except OSError as error:
        raise ExplainError(f"{path}: cannot be written: {error.strerror}") from error
    if as_json:
        facts = {
            "file": str(path),
            "objects": count,
            "unknown": list(loaded.unknown),
            "queued": None if queue is None else len(queue["pods"]),
        }
        click.echo(msgspec.json.encode(facts).decode())
        return
    size = f" ({path.stat().st_size / 1024:.0f} KiB)" if path.is_file() else ""
    click.echo(f"{count} objects in {path}{size}", err=not path.is_file())
    if loaded.unknown:
        click.echo(f"not allowed to read: {', '.join(loaded.unknown)}", err=True)


async def _live(address: ClusterAddress) -> Loaded:
    async with live_api(address, "capture") as api:
        return await read_cluster(api)


async def _of_scheduler(scheduler: RunningScheduler) -> tuple[Any, Any]:
    return await scheduler.configuration(), await scheduler.queue()
