"""Explanations, event notes and the dashboard of a `kubesched run`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from kubesched.api.access import ApiAccess
from kubesched.cli.scheduler_explanations import SchedulerExplanations
from kubesched.cli.shadow_part import ShadowPart
from kubesched.dashboard.page_sources import dashboard_of_scheduler
from kubesched.explain.event_notes import EventNoteWriter
from kubesched.explain.recordings.flight_recorder import FlightRecorder
from kubesched.foundation.http.http_messages import Handler
from kubesched.foundation.util.clock import Clock
from kubesched.scheduler.process.add_ons import ProcessInputs
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["CommandAddOns"]


class CommandAddOns:
    """`ProcessAddOns` with the rooms `explain/` and `dashboard/`."""

    def explanations(
        self, scheduler: Callable[[], Scheduler | None], inputs: ProcessInputs, clock: Clock
    ) -> SchedulerExplanations:
        return SchedulerExplanations(scheduler, clock, inputs.plugins, inputs.config.gates)

    def event_notes(self, scheduler: Scheduler, clock: Clock) -> EventNoteWriter:
        return EventNoteWriter(scheduler.informers.lister, scheduler.cache.snapshot, clock)

    def dashboard(
        self, scheduler: Scheduler, inputs: ProcessInputs, clock: Clock, hostname: str
    ) -> Handler:
        dashboard = dashboard_of_scheduler(
            scheduler,
            clock,
            title=f"scheduler on {hostname}",
            plugins=inputs.plugins,
            gates=inputs.config.gates,
        )
        return dashboard.answer

    def recorder(self, scheduler: Scheduler, inputs: ProcessInputs, clock: Clock) -> FlightRecorder:
        config = inputs.config
        return FlightRecorder(
            Path(config.options.record),
            config.options.record_size,
            scheduler,
            clock,
            gates=config.gates,
            plugins=config.options.plugins,
        )

    def shadow(
        self,
        api: ApiAccess,
        inputs: ProcessInputs,
        clock: Clock,
        seed: int,
        count: Callable[[str, str, str], object],
    ) -> ShadowPart:
        return ShadowPart(api, inputs, clock, seed, count)
