"""`kubesched record`: the pods of a live cluster as a trace, to be simulated later."""

from __future__ import annotations

import asyncio
import contextlib
import io
from pathlib import Path

import click
import msgspec

from kubesched.cli.cluster_address import ClusterAddress, cluster_options, live_api
from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import SECOND, Clock, RealClock
from kubesched.sim.recording import Recording
from kubesched.sim.recording import record as follow
from kubesched.sim.values import parse_duration_ns

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
    help="JSON lines; docs/simulate.md has the form. An existing file is replaced once the "
    "cluster answers.",
)
@click.option(
    "--for", "duration", default="", metavar="24h", help="How long; default: until Ctrl-C."
)
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Say what was written as JSON.")
def record(path: Path, duration: str, address: ClusterAddress, as_json: bool) -> None:
    """Follow the pods of a cluster and write what a simulation needs of them.

    Only reading is asked of the cluster. Every line is written at once, so that what was recorded
    until Ctrl-C can be used.
    """
    duration_ns = parse_duration_ns(duration, "--for") if duration else None
    clock = RealClock()
    trace, recording = _Trace(path), Recording(clock.now_ns())
    with contextlib.closing(trace), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_record(address, trace, recording, clock, duration_ns))
    if not trace.has_begun:
        raise KubeschedError(f"{path}: nothing was written: the cluster did not answer in time")
    if as_json:
        facts = {"file": str(path), "added": recording.added, "ended": recording.ended}
        click.echo(msgspec.json.encode(facts).decode())
        return
    said = f"wrote {path}: {recording.added} pods came, {recording.ended} ended"
    click.echo(said, err=True)


class _Trace:
    """A file that is begun with the first line, so that one that is there is not lost in vain."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.FileIO | None = None

    @property
    def has_begun(self) -> bool:
        return self._file is not None

    def write(self, line: bytes) -> None:
        """Write a whole line, at once.

        Raises:
            KubeschedError: it cannot be written.
        """
        try:
            if self._file is None:
                self._file = io.FileIO(self._path, "w")
            rest = memoryview(line)
            while rest:  # a disk that is nearly full takes less than it is given
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            raise KubeschedError(f"{self._path}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


async def _record(
    address: ClusterAddress,
    trace: _Trace,
    recording: Recording,
    clock: Clock,
    duration_ns: int | None,
) -> None:
    timeout_s = None if duration_ns is None else duration_ns / SECOND
    async with live_api(address, "record") as api:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await follow(api, clock, trace.write, duration_ns, recording)
