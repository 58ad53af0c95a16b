"""Action of `kubesched record`: record the pods of a live cluster as a trace."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import stat
from pathlib import Path

import click
import msgspec

from kubesched.cli.cluster_address import ClusterAddress, live_api
from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import SECOND, Clock, RealClock
from kubesched.sim.recording import Recording
from kubesched.sim.recording import record as follow
from kubesched.sim.values import parse_duration_ns

__all__ = ["TraceFile", "run_record"]


def run_record(path: Path, duration: str, address: ClusterAddress, as_json: bool) -> None:
    duration_ns = parse_duration_ns(duration, "--for") if duration else None
    clock = RealClock()
    trace, recording = TraceFile(path), Recording(clock.now_ns())
    with contextlib.closing(trace), contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_record(address, trace, recording, clock, duration_ns))
    if not trace.has_started:
        raise KubeschedError(f"{path}: nothing was written: the cluster did not answer in time")
    if as_json:
        facts = {"file": str(path), "added": recording.added, "ended": recording.ended}
        click.echo(msgspec.json.encode(facts).decode())
        return
    text = f"wrote {path}: {recording.added} pods came, {recording.ended} ended"
    click.echo(text, err=True)


class TraceFile:
    """A trace file that is opened with its first line, so earlier errors do not truncate it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: io.FileIO | None = None

    @property
    def has_started(self) -> bool:
        return self._file is not None

    def write(self, line: bytes) -> None:
        """Write a line without buffering.

        Raises:
            KubeschedError: the file cannot be written.
        """
        try:
            if self._file is None:
                self._file = io.FileIO(self._path, "w", opener=_private)
            rest = memoryview(line)
            while rest:  # a write to a nearly full disk may be partial
                rest = rest[self._file.write(rest) or 0 :]
        except OSError as error:
            raise KubeschedError(f"{self._path}: cannot be written: {error.strerror}") from error

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _private(path: str, flags: int) -> int:
    """Open a file that only the user can read."""
    descriptor = os.open(path, flags, 0o600)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.fchmod(descriptor, 0o600)
    return descriptor


async def _record(
    address: ClusterAddress,
    trace: TraceFile,
    recording: Recording,
    clock: Clock,
    duration_ns: int | None,
) -> None:
    timeout_s = None if duration_ns is None else duration_ns / SECOND
    async with live_api(address, "record") as api:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await follow(api, clock, trace.write, duration_ns, recording)
