"""Reloads the configuration file of a running process (docs/decisions/0045).

It reloads on request, for example after SIGHUP, or when the content of the file has changed. An
invalid file changes nothing; the outcome has the reason.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.watched_file import POLL_PERIOD_NS, WatchedFile
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = ["ConfigurationReloader", "LoadedConfiguration", "ReloadOutcome"]


class LoadedConfiguration(msgspec.Struct, frozen=True):
    """A complete configuration, and the SHA-256 of the file it was read from."""

    configuration: KubeSchedulerConfiguration
    sha256: str


class ReloadOutcome(msgspec.Struct, frozen=True):
    """How a reload ended."""

    result: str  # success, unchanged or failure
    sha256: str = ""  # of the file in use; empty after a failure
    error: ConfigError | None = None

    @property
    def why(self) -> str:
        """The error and its notes in one line."""
        lines = (str(self.error), *getattr(self.error, "__notes__", ()))
        return "; ".join(line for text in lines for line in text.splitlines())


class ConfigurationReloader:
    """A component that reloads on request and, if `watches`, when the file has changed."""

    def __init__(
        self,
        path: str,
        load: Callable[[], LoadedConfiguration],
        apply: Callable[[KubeSchedulerConfiguration], Awaitable[bool]],
        report: Callable[[ReloadOutcome], None],
        clock: Clock,
        *,
        sha256: str,
        watches: bool,
    ) -> None:
        """`apply` returns whether anything has changed. `sha256` is that of the file in use."""
        self._file = WatchedFile(path) if watches else None
        self._load, self._apply, self._report, self._clock = load, apply, report, clock
        self._sha256 = sha256
        self._requested = asyncio.Event()
        self._stop = StopSwitch()

    def request(self) -> None:
        """Reload soon, even if the file looks the same."""
        self._requested.set()

    async def run(self) -> None:
        await self._stop.guard(self._reload_for_ever())

    def stop(self) -> None:
        self._stop.set()

    async def _reload_for_ever(self) -> None:
        while True:
            if await self._is_due():
                self._requested.clear()
                self._report(await self._reload())

    async def _is_due(self) -> bool:
        if self._file is None:
            return await self._requested.wait()
        before = self._file.content
        if not self._file.changed(self._clock.monotonic_ns()):
            return await self._clock.wait(self._requested, POLL_PERIOD_NS)
        # An editor may be in the middle of rewriting the file: load it once a period passes
        # without another change.
        while not await self._clock.wait(self._requested, POLL_PERIOD_NS):
            if not self._file.changed(self._clock.monotonic_ns()):
                break
        else:
            return True
        # The first read of the file is a change only if it is not the file in use.
        content = self._file.content
        if before:
            return content != before
        return hashlib.sha256(content).hexdigest() != self._sha256

    async def _reload(self) -> ReloadOutcome:
        try:
            loaded = self._load()
            has_changed = await self._apply(loaded.configuration)
        except ConfigError as exc:
            return ReloadOutcome("failure", error=exc)
        self._sha256 = loaded.sha256
        return ReloadOutcome("success" if has_changed else "unchanged", loaded.sha256)
