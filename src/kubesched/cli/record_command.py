"""`kubesched record`: the pods of a live cluster as a trace, to be simulated later."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

import click

from kubesched.cli.cluster_address import ClusterAddress, cluster_options, live_api
from kubesched.sim.recording import record as follow
from kubesched.sim.values import parse_duration_ns
from kubesched.util.clock import SECOND, RealClock
from kubesched.util.errors import KubeschedError

__all__ = ["record"]


@click.command(
    short_help="Write the pods of a live cluster, as they come and go, to a trace.",
    epilog="Example: kubesched record -o monday.jsonl --for 24h",
)
@click.option(
    "-o",
    "--out",
    "path",
    required=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="JSON lines; docs/simulate.md has the form.",
)
@click.option(
    "--for", "duration", default="", metavar="24h", help="How long; default: until Ctrl-C."
)
@cluster_options
def record(path: Path, duration: str, address: ClusterAddress) -> None:
    """Follow the pods of a cluster and write what a simulation needs of them.

    Only reading is asked of the cluster. Every line is written at once, so that what was recorded
    until Ctrl-C can be used.
    """
    duration_ns = parse_duration_ns(duration, "--for") if duration else None
    try:
        with path.open("wb", buffering=0) as file, contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_record(address, file.write, duration_ns))
    except OSError as error:
        raise KubeschedError(f"{path}: cannot be written: {error.strerror}") from error
    click.echo(f"wrote {path}", err=True)


async def _record(
    address: ClusterAddress, write: Callable[[bytes], object], duration_ns: int | None
) -> None:
    timeout_s = None if duration_ns is None else duration_ns / SECOND
    async with live_api(address, "record") as api:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await follow(api, RealClock(), write, duration_ns)
