"""SchedulingGates: a pod with gates does not enter the queue.

docs/reference/05 §7.2.
"""

from __future__ import annotations

from typing import Any

from kubesched.api import Pod
from kubesched.foundation.util.go_format import format_slice
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EventResource,
    Plugin,
    QueueingHint,
    Status,
)
from kubesched.framework.causes import SchedulingGated
from kubesched.scheduler.config.plugin_names import SCHEDULING_GATES
from kubesched.scheduler.plugins.helpers.hints import expect, queue_if, same_pod

__all__ = ["SchedulingGates"]


class SchedulingGates(Plugin):
    """PreEnqueue plugin: reject pods that have scheduling gates."""

    name = SCHEDULING_GATES

    def pre_enqueue(self, pod: Pod) -> Status:
        gates = pod.spec.scheduling_gates
        if not gates:
            return SUCCESS
        names = format_slice(gate.name for gate in gates)
        cause = SchedulingGated(tuple(gate.name for gate in gates))
        return Status.unresolvable(f"waiting for scheduling gates: {names}", causes=(cause,))

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        eliminated = ClusterEvent(
            EventResource.POD, ActionType.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        )
        return (ClusterEventWithHint(eliminated, self._gates_eliminated),)

    def _gates_eliminated(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        return queue_if(same_pod(pod, expect(Pod, new)))
