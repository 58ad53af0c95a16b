"""Observers of the scheduler's decisions, such as the page and the simulator."""

from __future__ import annotations

from typing import Protocol

from kubesched.api import Pod
from kubesched.framework import Status
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.search.schedule_result import ScheduleResult

__all__ = ["DecisionRecorder", "DecisionWatcher", "FailureWatcher"]


class DecisionWatcher(Protocol):
    """Is called with the decision of every attempt. The calls must be short."""

    def decided(
        self, attempt: Attempt, status: Status, node_name: str, result: ScheduleResult | None
    ) -> None:
        """Observe the status of an attempt.

        `result` is valid during the call only. It is None for attempts that failed or that
        called extenders.
        """
        ...


class FailureWatcher(Protocol):
    """Is called with every failure that is reported as an event `FailedScheduling`.

    The status has the causes as values, so a watcher does not parse the text of an event. The calls
    must be short.
    """

    def failed(self, pod: Pod, status: Status) -> None:
        """Observe why the pod was not placed."""
        ...


class DecisionRecorder(DecisionWatcher, FailureWatcher, Protocol):
    """Records attempts with their failures. `failed` is called for every failed attempt."""
