"""The steps of a preemption attempt, from the pod that fits nowhere to a nomination.

Spec 06 §3.3, §3.4. Nothing here waits: evictions are handed to `Evictions`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, PodDisruptionBudget
from kubesched.api.pods import is_terminating, pod_priority
from kubesched.config.args import DefaultPreemptionArgs
from kubesched.framework import (
    SUCCESS,
    Code,
    CycleState,
    Diagnosis,
    FitError,
    Handle,
    Nominating,
    NominatingMode,
    PodInfo,
    PostFilterResult,
    Status,
)
from kubesched.plugins.default_preemption.budgets import BudgetReader
from kubesched.plugins.default_preemption.dry_run import DryRun, DryRunResult, candidates_wanted
from kubesched.plugins.default_preemption.eviction import (
    DISRUPTION_TARGET,
    PREEMPTION_BY_SCHEDULER,
    Evictions,
)
from kubesched.plugins.default_preemption.pod_columns import PodColumns

__all__ = ["Evaluator"]

NEVER = "not eligible due to preemptionPolicy=Never."
VICTIM_TERMINATING = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = Status.unresolvable("Preemption is not helpful for scheduling")
_CLEARED = Nominating(NominatingMode.OVERRIDE, "")


class Evaluator:
    """Looks for the best node to preempt pods on, and has them evicted."""

    def __init__(self, handle: Handle, args: DefaultPreemptionArgs, evictions: Evictions) -> None:
        self._handle = handle
        self._args = args
        self._evictions = evictions
        self._pods = handle.lister(Pod)
        self._budgets = BudgetReader(handle.lister(PodDisruptionBudget))
        self._columns: PodColumns | None = None

    def preempt(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Nominate the pod to the node where room is made, or say why there is none."""
        metadata = pod_info.pod.metadata
        current = self._pods.get(metadata.name, metadata.namespace)
        if current is None:
            return PostFilterResult(Status.failure(f'pod "{metadata.name}" not found'))
        preemptor = pod_info if current is pod_info.pod else PodInfo(current)
        reason = self._ineligible(preemptor.pod, diagnosis)
        if reason:
            return PostFilterResult(Status.unschedulable(reason))
        node_count = len(self._handle.snapshot.nodes)
        if not node_count:
            return PostFilterResult(Status.failure("no nodes available"))
        found = self._search(state, preemptor, diagnosis)
        if not len(found.candidates):
            if found.errors:
                return PostFilterResult(Status.failure(_joined(found.errors)))
            found.diagnosis.absent_nodes_status = NOT_HELPFUL
            message = str(FitError(node_count, found.diagnosis))
            return PostFilterResult(Status.unschedulable(message), _CLEARED)
        best = found.candidates.best()
        self._evictions.start(best, preemptor.pod)
        return PostFilterResult(SUCCESS, Nominating(NominatingMode.OVERRIDE, best.node_name))

    def _ineligible(self, pod: Pod, diagnosis: Diagnosis) -> str:
        """Why the pod may not preempt others now; empty if it may."""
        if pod.spec.preemption_policy == "Never":
            return NEVER
        nominated = pod.status.nominated_node_name
        if not nominated:
            return ""
        snapshot = self._handle.snapshot
        row = snapshot.nodes.table.row_of.get(nominated)
        if diagnosis.status_of(nominated, row).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        node = snapshot.get(nominated)
        priority = pod_priority(pod)
        if node is not None and any(
            pod_priority(other.pod) < priority and _goes_by_preemption(other.pod)
            for other in node.pods
        ):
            return VICTIM_TERMINATING
        return ""

    def _search(self, state: CycleState, preemptor: PodInfo, diagnosis: Diagnosis) -> DryRunResult:
        rows = self._potential_rows(diagnosis)
        args = self._args
        wanted = candidates_wanted(
            len(rows), args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )
        offset = self._handle.random.randrange(len(rows)) if len(rows) else 0
        table = self._handle.snapshot.nodes.table
        if self._columns is None or self._columns.table is not table:
            self._columns = PodColumns(table)
        run = DryRun(self._handle, state, preemptor, self._columns, self._budgets.read())
        return run.search(np.roll(rows, -offset), wanted)

    def _potential_rows(self, diagnosis: Diagnosis) -> NDArray[np.intp]:
        """Nodes that evictions could help, in the order in which nodes are listed."""
        snapshot = self._handle.snapshot
        order, table = snapshot.order, snapshot.nodes.table
        return order[diagnosis.has_code(Code.UNSCHEDULABLE, order, table.row_of, table.capacity)]


def _goes_by_preemption(pod: Pod) -> bool:
    """Whether the pod is terminating because a scheduler preempted it."""
    if not is_terminating(pod):
        return False
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == PREEMPTION_BY_SCHEDULER
    return False


def _joined(errors: tuple[BaseException, ...]) -> str:
    """Several errors as the reference lists them: each text once, in brackets."""
    texts = tuple(dict.fromkeys(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
