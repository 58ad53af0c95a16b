"""Action of `kubesched capture`: write all objects that scheduling depends on to one file."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import click
import msgspec

from kubesched.api.time import format_time
from kubesched.cli.cluster_address import ClusterAddress, live_api
from kubesched.cli.configuration_file import read_configuration
from kubesched.cli.running_scheduler import RunningScheduler
from kubesched.explain import ExplainError
from kubesched.explain.clusters.capture import Capture, write_capture
from kubesched.explain.clusters.sources import Loaded, load_files, read_cluster
from kubesched.foundation.util.clock import RealClock
from kubesched.scheduler.config.write import versioned
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins

__all__ = ["run_capture"]


def run_capture(
    path: Path,
    anonymize: bool,
    files: tuple[str, ...],
    address: ClusterAddress,
    scheduler: RunningScheduler | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
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
        why = "not in the files" if files else "not allowed to read"
        click.echo(f"{why}: {', '.join(loaded.unknown)}", err=True)


async def _live(address: ClusterAddress) -> Loaded:
    async with live_api(address, "capture") as api:
        return await read_cluster(api)


async def _of_scheduler(scheduler: RunningScheduler) -> tuple[Any, Any]:
    return await scheduler.configuration(), await scheduler.queue()
