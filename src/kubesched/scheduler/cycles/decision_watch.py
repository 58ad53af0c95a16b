"""Somebody who looks on while pods are tried, such as a page with the last decisions."""

from __future__ import annotations

from typing import Protocol

from kubesched.framework import Status
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.search.schedule_result import ScheduleResult

__all__ = ["DecisionWatcher"]


class DecisionWatcher(Protocol):
    """Told of every attempt in the moment of its decision; must not take long."""

    def decided(
        self, attempt: Attempt, status: Status, node_name: str, result: ScheduleResult | None
    ) -> None:
        """An attempt came to this status. `result` is valid during the call only.

        There is none for attempts that failed, or that extenders had a say in.
        """
        ...
