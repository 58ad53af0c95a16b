"""Processes of a soak test: started, killed, stopped, restarted, and observed from outside."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import os
import resource
import signal
from pathlib import Path
from typing import NamedTuple

__all__ = ["Process", "Usage"]

_LINES_KEPT = 40
_LEADS = b"Successfully acquired lease"
_BAD_WORDS = (b"Traceback (most recent call last)", b"Task exception was never retrieved")


class Usage(NamedTuple):
    """The resource usage of a process at a moment."""

    rss_mib: float
    descriptors: int
    threads: int


class Process:
    """A command that is restarted when it ends, as a kubelet does."""

    def __init__(self, name: str, command: list[str], logs: Path | None = None) -> None:
        """With `logs` the log is written to that folder."""
        self.name, self._command = name, command
        self._log = None if logs is None else (logs / f"{name}.log").open("wb")
        self._process: asyncio.subprocess.Process | None = None
        self._reading: asyncio.Task[None] | None = None
        self.last_lines: collections.deque[bytes] = collections.deque(maxlen=_LINES_KEPT)
        self.ready = asyncio.Event()
        # When the log reported that the process leads; 0 if it has not.
        self.led_since_s = 0.0
        self.starts = 0
        self.logged_bytes = 0
        self.bad_lines: list[str] = []

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.returncode is None

    async def start(self) -> None:
        self.starts += 1
        self.led_since_s = 0.0
        self.ready.clear()
        self._process = await asyncio.create_subprocess_exec(
            *self._command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
        )
        self._reading = asyncio.create_task(self._read(self._process))

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Read the log from a pipe, so that no line is lost when the disk is full."""
        assert process.stdout is not None
        while True:
            try:
                line = await process.stdout.readline()
            except ValueError:
                continue  # a line longer than the reader's buffer: its beginning is dropped
            if not line:
                return
            self.logged_bytes += len(line)
            self.last_lines.append(line)
            if self._log is not None:
                self._log.write(line)
            if line == b"ready\n":
                self.ready.set()
            if _LEADS in line:
                self.led_since_s = asyncio.get_running_loop().time()
            if any(word in line for word in _BAD_WORDS) and len(self.bad_lines) < _LINES_KEPT:
                self.bad_lines.append(f"{self.name}: {line.decode(errors='replace').rstrip()}")

    async def wait(self) -> int:
        assert self._process is not None
        code = await self._process.wait()
        if self._reading is not None:
            await self._reading
        return code

    def signal(self, number: signal.Signals) -> None:
        if self.is_alive:
            assert self._process is not None
            self._process.send_signal(number)

    async def end(self) -> None:
        """Kill the process, even if it is stopped."""
        if self.is_alive:
            self.signal(signal.SIGKILL)
        if self._process is not None:
            await self.wait()
        if self._log is not None:
            self._log.close()

    def limit(self, kind: int, most: int | None) -> None:
        """Set a resource limit of the running process; None: the highest value allowed."""
        with contextlib.suppress(ProcessLookupError):
            _, hard = resource.prlimit(self.pid, kind)
            resource.prlimit(self.pid, kind, (hard if most is None else most, hard))

    def descriptors(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def usage(self) -> Usage | None:
        """Return the usage of a process; None if there is no such process."""
        if not self.is_alive:
            return None
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
            fields = dict(line.partition(":")[::2] for line in status.splitlines())
            rss_mib = int(fields["VmRSS"].split()[0]) / 1024
            return Usage(round(rss_mib, 1), self.descriptors(), int(fields["Threads"]))
        except (OSError, KeyError):
            return None
