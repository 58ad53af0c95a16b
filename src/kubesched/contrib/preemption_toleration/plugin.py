"""PreemptionToleration: pods that preemptors may not evict, or not for some time.

Annotations of a PriorityClass define which priority a preemptor of its pods needs, and for how long
they are protected after they were placed. Everything else works as in DefaultPreemption.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import msgspec

from kubesched.api import Pod, PriorityClass, parse_time, pod_priority
from kubesched.framework import (
    SUCCESS,
    CycleState,
    Diagnosis,
    Handle,
    NodeInfo,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
    VictimPreemption,
)

__all__ = ["PreemptionToleration", "PreemptionTolerationArgs"]

_PREFIX: Final = "preemption-toleration.scheduling.x-k8s.io/"
MINIMUM_PRIORITY: Final = _PREFIX + "minimum-preemptable-priority"
TOLERATION_SECONDS: Final = _PREFIX + "toleration-seconds"

_SECOND_NS: Final = 10**9
_GATED: Final = Status.unresolvable("waiting for the preemption for this pod to be finished")


class PreemptionTolerationArgs(
    msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True
):
    """The arguments of PreemptionToleration, which are those of DefaultPreemption."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100

    def __post_init__(self) -> None:
        if not 0 <= self.min_candidate_nodes_percentage <= 100:
            raise ValueError("minCandidateNodesPercentage must be between 0 and 100")
        if self.min_candidate_nodes_absolute < 0:
            raise ValueError("minCandidateNodesAbsolute must not be negative")


class PreemptionToleration(Plugin):
    """Evict pods of lower priority, except pods that tolerate the preemptor."""

    name = "PreemptionToleration"
    args_type = PreemptionTolerationArgs

    def __init__(
        self, args: PreemptionTolerationArgs | None = None, handle: Handle | None = None
    ) -> None:
        super().__init__(args or PreemptionTolerationArgs(), handle)
        given: PreemptionTolerationArgs = self.args
        self._preemption: VictimPreemption | None = None
        if handle is not None:
            self._classes = handle.lister(PriorityClass)
            self._preemption = handle.preemption(
                self.name,
                self,
                percentage=given.min_candidate_nodes_percentage,
                absolute=given.min_candidate_nodes_absolute,
            )

    def pre_enqueue(self, pod: Pod) -> Status:
        preemption = self._preemption
        is_running = preemption is not None and preemption.is_running(pod.metadata.uid)
        return _GATED if is_running else SUCCESS

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        assert self._preemption is not None, "a plugin in a profile has a handle"
        return self._preemption.preempt(state, pod_info, diagnosis)

    def leaving(self, state: CycleState, preemptor: PodInfo) -> Collection[str]:
        return ()  # terminating pods are potential victims, as in DefaultPreemption

    def potential_victims(
        self, state: CycleState, preemptor: PodInfo, node: NodeInfo
    ) -> Sequence[PodInfo]:
        priority, now_ns = pod_priority(preemptor.pod), self.handle.clock.now_ns()
        return [
            other
            for other in node.pods
            if pod_priority(other.pod) < priority
            and not self.tolerates(other.pod, priority, now_ns)
        ]

    def admits(self, state: CycleState, preemptor: PodInfo) -> bool:
        return True

    def tolerates(self, victim: Pod, priority: int, now_ns: int) -> bool:
        """Whether the pod is protected from a preemptor with this priority."""
        name = victim.spec.priority_class_name
        found = self._classes.get(name) if name else None
        if found is None:
            return False
        notes = found.metadata.annotations
        if MINIMUM_PRIORITY not in notes and TOLERATION_SECONDS not in notes:
            return False
        try:
            needed = int(notes.get(MINIMUM_PRIORITY, pod_priority(victim) + 1))
            seconds = int(notes.get(TOLERATION_SECONDS, 0))
        except ValueError:
            return False  # an invalid policy protects no pod
        if priority >= needed:
            return False
        if seconds < 0:
            return True
        placed_ns = _placed_ns(victim)
        return placed_ns is None or now_ns < placed_ns + seconds * _SECOND_NS


def _placed_ns(pod: Pod) -> int | None:
    """Return when the pod was placed, according to its status; None if that is not known yet."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True":
            time = condition.last_transition_time
            return parse_time(time) if time else None
    return None
