"""Preemption for other plugins, which define which pods may be evicted.

`handle.preemption` returns it. The choice between nodes, disruption budgets, evictions and
nominations are those of DefaultPreemption.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, PodDisruptionBudget
from kubesched.api.pod_facts import is_terminating, pod_key
from kubesched.framework import (
    SUCCESS,
    Code,
    CycleState,
    Diagnosis,
    FitError,
    Handle,
    NodeInfo,
    Nominating,
    NominatingMode,
    PodInfo,
    PostFilterResult,
    PreemptionRules,
    Status,
)
from kubesched.scheduler.plugins.default_preemption.candidate_search import (
    calculate_num_candidates,
)
from kubesched.scheduler.plugins.default_preemption.evaluator import (
    NEVER,
    NOT_HELPFUL,
    VICTIM_TERMINATING,
)
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions, is_victim
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import BudgetReader
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import (
    PreemptionCandidate,
    PreemptionCandidates,
)
from kubesched.scheduler.plugins.default_preemption.victim_selection import (
    NO_VICTIMS,
    RuledVictims,
    select_victims,
)

__all__ = ["RuledPreemption"]

_RUNNING = "preemption: waiting for the preemption for this pod to be finished"
_CLEARED = Nominating(NominatingMode.OVERRIDE, "")


class RuledPreemption:
    """Evicts the pods that `rules` allow."""

    def __init__(
        self, handle: Handle, plugin: str, rules: PreemptionRules, percentage: int, absolute: int
    ) -> None:
        self._handle = handle
        self._rules = rules
        self._percentage, self._absolute = percentage, absolute
        self._evictions = Evictions(plugin, handle, is_gating=True, others=self)
        self._pods = handle.lister(Pod)
        self._budgets = BudgetReader(handle.lister(PodDisruptionBudget))
        self._victims: dict[str, tuple[PodInfo, ...]] = {}  # by uid of the preemptor

    def is_running(self, uid: str) -> bool:
        return self._evictions.is_running(uid)

    def waiting_pods(self) -> dict[str, Pod]:
        nominator = self._handle.nominator
        return {
            pod_key(other.pod): other.pod
            for node_name in nominator.nominated_nodes()
            for other in nominator.nominated_pods(node_name)
        }

    def chosen(self) -> list[PodInfo]:
        unseen = self._evictions.unseen()
        chosen = {}
        for uid, victims in self._victims.items():
            if not self.is_running(uid):
                victims = tuple(victim for victim in victims if victim.uid in unseen)
            if victims:
                chosen[uid] = victims
        self._victims = chosen
        return [victim for victims in chosen.values() for victim in victims]

    def victims_on(self, node_name: str) -> list[PodInfo]:
        node = self._handle.snapshot.get(node_name)
        if node is None:
            return []
        chosen = {victim.uid for victim in self.chosen()}
        return [
            other
            for other in node.pods
            if other.uid in chosen or (is_terminating(other.pod) and is_victim(other.pod))
        ]

    def preempt(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        handle, metadata = self._handle, pod_info.pod.metadata
        handle.metrics.count_preemption_attempt()
        current = self._pods.get(metadata.name, metadata.namespace)
        if current is None:
            return PostFilterResult(Status.failure(f'pod "{metadata.name}" not found'))
        preemptor = pod_info if current is pod_info.pod else PodInfo(current)
        if self.is_running(preemptor.uid):
            return PostFilterResult(Status.unschedulable(_RUNNING))
        if reason := self._ineligible(preemptor, diagnosis):
            return PostFilterResult(Status.unschedulable(f"preemption: {reason}"))
        found = self._search(state, preemptor, diagnosis)
        if isinstance(found, Diagnosis):
            found.absent_nodes_status = NOT_HELPFUL
            message = f"preemption: {FitError(len(handle.snapshot.nodes), found)}"
            return PostFilterResult(Status.unschedulable(message), _CLEARED)
        best = PreemptionCandidates.of(found, handle.clock.now_ns()).best()
        self._evictions.start(best, preemptor.pod)
        self._victims[preemptor.uid] = best.victims
        return PostFilterResult(SUCCESS, Nominating(NominatingMode.OVERRIDE, best.node_name))

    def _ineligible(self, preemptor: PodInfo, diagnosis: Diagnosis) -> str:
        """Return why the pod may not preempt other pods now; empty if it may."""
        pod = preemptor.pod
        if pod.spec.preemption_policy == "Never":
            return NEVER
        nominated, snapshot = pod.status.nominated_node_name, self._handle.snapshot
        if not nominated:
            return ""
        row = snapshot.nodes.table.row_of.get(nominated)
        if diagnosis.status_of(nominated, row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        node = snapshot.get(nominated)
        is_leaving = node is not None and any(
            is_terminating(other.pod) and is_victim(other.pod) for other in node.pods
        )
        return VICTIM_TERMINATING if is_leaving else ""

    def _search(
        self, state: CycleState, preemptor: PodInfo, diagnosis: Diagnosis
    ) -> Sequence[PreemptionCandidate] | Diagnosis:
        """Return nodes where evictions make room, or why there are none."""
        handle = self._handle
        snapshot, budgets, now_ns = handle.snapshot, self._budgets.read(), handle.clock.now_ns()
        order, table = snapshot.order, snapshot.nodes.table
        rows = order[diagnosis.has_code(Code.UNSCHEDULABLE, order, table.row_of, table.capacity)]
        wanted = calculate_num_candidates(len(rows), self._percentage, self._absolute)
        offset = handle.random.randrange(len(rows)) if len(rows) else 0
        rows = np.concatenate((rows[offset:], rows[:offset]))
        leaving = self._rules.leaving(state, preemptor)
        if leaving:
            rows = self._nominated_first(preemptor, rows)
        found: list[PreemptionCandidate] = []
        why = Diagnosis(table.names)
        for row in rows.tolist():
            node = snapshot.nodes.info_at(row)
            ruled = self._ruled_victims(state, preemptor, node, leaving)
            answer: PreemptionCandidate | Status = NO_VICTIMS
            if (leaving or ruled.potential) and _may_suffice(preemptor, node, ruled):
                answer = select_victims(handle, state, preemptor, node, budgets, now_ns, ruled)
            if isinstance(answer, Status):
                why.add_node_status(node.name, answer)
                continue
            if not answer.victims:
                return [answer]
            found.append(answer)
            if len(found) >= wanted and any(not each.violations for each in found):
                break
        return found or why

    def _ruled_victims(
        self, state: CycleState, preemptor: PodInfo, node: NodeInfo, leaving: Collection[str]
    ) -> RuledVictims:
        return RuledVictims(
            self._rules,
            self._rules.potential_victims(state, preemptor, node),
            [each for each in node.pods if each.uid in leaving] if leaving else (),
            bool(leaving),
        )

    def _nominated_first(self, preemptor: PodInfo, rows: NDArray[np.intp]) -> NDArray[np.intp]:
        """Move the node to which the preemptor is nominated to the front.

        The preemptor continues to wait there if that suffices. This also holds when the room is
        free and another condition, such as a quota, depends on a pod on another node.
        """
        nominated = preemptor.pod.status.nominated_node_name
        first = rows == self._handle.snapshot.nodes.table.row_of.get(nominated, -1)
        return np.concatenate((rows[first], rows[~first]))


def _may_suffice(preemptor: PodInfo, node: NodeInfo, ruled: RuledVictims) -> bool:
    """Whether these pods leave enough cpu and memory, which is quick to compute."""
    wanted, free, used = preemptor.requested, node.allocatable, node.requested
    gone = (*ruled.potential, *ruled.leaving)
    cpu = sum(each.requested.milli_cpu for each in gone)
    memory = sum(each.requested.memory for each in gone)
    return (
        free.milli_cpu - used.milli_cpu + cpu >= wanted.milli_cpu
        and free.memory - used.memory + memory >= wanted.memory
    )
