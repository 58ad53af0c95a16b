"""Parts that other packages add to the process: explanations, event notes, a dashboard.

The scheduler imports neither `explain/` nor `dashboard/`. The command passes in an object that
builds these parts; tests of the process run without it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Protocol

import msgspec

if TYPE_CHECKING:
    from kubesched.api.access import ApiAccess
    from kubesched.foundation.http.http_messages import Handler
    from kubesched.foundation.util.clock import Clock
    from kubesched.foundation.util.components import Component
    from kubesched.framework import Diagnosis, PodInfo
    from kubesched.scheduler.runtime.framework import Framework
    from kubesched.scheduler.runtime.plugin_registry import PluginRegistry
    from kubesched.scheduler.scheduler import Scheduler
    from kubesched.scheduler.server.endpoints.explanations import Explanations
    from kubesched.scheduler.server.options.process_config import ProcessConfig

__all__ = ["EventNotes", "ProcessAddOns", "ProcessInputs", "Shadow"]


class ProcessInputs(msgspec.Struct, frozen=True, kw_only=True):
    """The checked result of a command line: configuration, plugins and flags."""

    config: ProcessConfig
    plugins: PluginRegistry
    flags: Mapping[str, str]
    # Loads and checks the configuration file again. Raises ConfigError.
    load_again: Callable[[], ProcessConfig] | None = None


class EventNotes(Protocol):
    """Writes the note that `--explain-events` appends to an event of a pod that fits nowhere."""

    def note(self, framework: Framework, pod_info: PodInfo, diagnosis: Diagnosis) -> str:
        """Return the note; empty if there is none."""
        ...


class Shadow(Protocol):
    """A component that compares the decisions of another scheduler with its own."""

    synced: asyncio.Event

    async def run(self) -> None: ...

    def stop(self) -> None: ...

    @property
    def buffered_changes(self) -> int:
        """The number of changes that are buffered until their order is certain."""
        ...

    def report(self) -> bytes:
        """Return the ledger as JSON."""
        ...

    def dashboard(self, title: str) -> Handler:
        """Build the handler of all requests below `/dashboard`."""
        ...


class ProcessAddOns(Protocol):
    """Builds the optional parts of a scheduler process."""

    def explanations(
        self, scheduler: Callable[[], Scheduler | None], inputs: ProcessInputs, clock: Clock
    ) -> Explanations:
        """Build the handler of requests below `/explain`.

        `scheduler` returns None until it is built.
        """
        ...

    def event_notes(self, scheduler: Scheduler, clock: Clock) -> EventNotes:
        """Build the writer of notes."""
        ...

    def dashboard(
        self, scheduler: Scheduler, inputs: ProcessInputs, clock: Clock, hostname: str
    ) -> Handler:
        """Build the handler of all requests below `/dashboard`."""
        ...

    def recorder(self, scheduler: Scheduler, inputs: ProcessInputs, clock: Clock) -> Component:
        """Build the flight recorder of `--record`.

        Raises:
            KubeschedError: the folder cannot be written.
        """
        ...

    def shadow(
        self,
        api: ApiAccess,
        inputs: ProcessInputs,
        clock: Clock,
        seed: int,
        count: Callable[[str, str, str], object],
    ) -> Shadow:
        """Build the part that compares; it calls `count` with profile, verdict and state."""
        ...
