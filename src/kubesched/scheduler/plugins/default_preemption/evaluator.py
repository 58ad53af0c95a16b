"""The steps of a preemption attempt, from an unschedulable pod to a nomination.

docs/reference/06 §3.3, §3.4. `Evictions` carries evictions out in the background. An attempt
awaits only extenders that review victims; it then checks again whether anything changed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, PodDisruptionBudget
from kubesched.api.pod_facts import is_terminating, pod_key, pod_priority
from kubesched.errors import KubeschedError
from kubesched.framework import (
    SUCCESS,
    ClusterVersion,
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
    VictimReview,
    Victims,
)
from kubesched.scheduler.config.args import DefaultPreemptionArgs
from kubesched.scheduler.plugins.default_preemption.candidate_search import (
    CandidateSearch,
    CandidateSearchResult,
    calculate_num_candidates,
)
from kubesched.scheduler.plugins.default_preemption.dry_run_cache import DryRunCache
from kubesched.scheduler.plugins.default_preemption.eviction import (
    DISRUPTION_TARGET,
    PREEMPTION_BY_SCHEDULER,
    Evictions,
)
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import BudgetReader
from kubesched.scheduler.plugins.default_preemption.pod_columns import PodColumns
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import (
    PreemptionCandidate,
    PreemptionCandidates,
)
from kubesched.scheduler.plugins.default_preemption.running_preemption import is_awaited

__all__ = ["Evaluator"]

NEVER = "not eligible due to preemptionPolicy=Never."
VICTIM_TERMINATING = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = Status.unresolvable("Preemption is not helpful for scheduling")
NO_CANDIDATE = Status.unschedulable("no candidate node for preemption")
PREEMPTOR_GONE = Status.unschedulable("the pod was deleted or bound while extenders reviewed")
FITS_NOW = Status.unschedulable("the pod fits a node without preemption now")
_CLEARED = Nominating(NominatingMode.OVERRIDE, "")


class _Proposal(NamedTuple):
    """The preemptor, and the nodes where evictions would make room for it."""

    preemptor: PodInfo
    candidates: PreemptionCandidates


class Evaluator:
    """Finds the best node for preemption, and starts the evictions there."""

    def __init__(self, handle: Handle, args: DefaultPreemptionArgs, evictions: Evictions) -> None:
        self._handle = handle
        self._args = args
        self._evictions = evictions
        self._pods = handle.lister(Pod)
        self._budgets = BudgetReader(handle.lister(PodDisruptionBudget))
        self._dry_run_cache = DryRunCache(handle)
        self._columns: PodColumns | None = None

    def preempt(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        """Nominate the pod to a node where evictions make room."""
        proposal = self._propose(state, pod_info, diagnosis)
        if isinstance(proposal, PostFilterResult):
            return proposal
        return self._start_evictions(proposal.candidates.best(), proposal.preemptor)

    async def preempt_with_review(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis, review: VictimReview
    ) -> PostFilterResult:
        """Preempt like `preempt`, after extenders have reviewed the victims."""
        proposal = self._propose(state, pod_info, diagnosis)
        if isinstance(proposal, PostFilterResult):
            return proposal
        preemptor, review_start = proposal.preemptor, self._handle.dry_run.version
        try:
            reviewed = await review.review(preemptor.pod, self._victims(proposal.candidates))
        except KubeschedError as exc:
            return PostFilterResult(Status.failure(exc))
        if not reviewed:
            return PostFilterResult(NO_CANDIDATE)
        if not is_awaited(preemptor.pod, self._pods):
            return PostFilterResult(PREEMPTOR_GONE)
        if review.fits_now():
            self._handle.activate({pod_key(preemptor.pod): preemptor.pod})
            return PostFilterResult(FITS_NOW)
        left = [
            PreemptionCandidate(name, each.pods, each.violations) for name, each in reviewed.items()
        ]
        while left:
            best = PreemptionCandidates.of(left, self._handle.clock.now_ns()).best()
            # A node that did not change since is as good as when the review began.
            if not self._has_changed(best.node_name, review_start) or review.fits_without(
                best.node_name, best.victims
            ):
                return self._start_evictions(best, preemptor)
            left.remove(best)
        return PostFilterResult(NO_CANDIDATE)

    def _victims(self, candidates: PreemptionCandidates) -> dict[str, Victims]:
        """Return the candidates in the form that reviewers get."""
        shown: dict[str, Victims] = {}
        for number in range(len(candidates)):
            node_name, victims, violations = candidates[number]
            node = self._handle.snapshot.get(node_name)
            assert node is not None, "candidates are nodes of the snapshot"
            present = {other.uid: other for other in node.pods}
            shown[node_name] = Victims(victims, violations, present)
        return shown

    def _has_changed(self, node_name: str, since: ClusterVersion) -> bool:
        """Whether the verdicts of plugins on a node may have changed since that version."""
        handle = self._handle
        if handle.dry_run.version.objects != since.objects:
            return True
        table = handle.snapshot.nodes.table
        rows = table.changes.since(since.rows)
        nominated = handle.nominator.changes_since(since.nominations)
        row = table.row_of.get(node_name)
        if rows is None or nominated is None or row is None:
            return True
        return row in rows or node_name in nominated

    def _start_evictions(self, best: PreemptionCandidate, preemptor: PodInfo) -> PostFilterResult:
        self._evictions.start(best, preemptor.pod)
        return PostFilterResult(SUCCESS, Nominating(NominatingMode.OVERRIDE, best.node_name))

    def _propose(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> _Proposal | PostFilterResult:
        """Return nodes where evictions would make room, or the final result."""
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
        return _Proposal(preemptor, found.candidates)

    def _ineligible(self, pod: Pod, diagnosis: Diagnosis) -> str:
        """Return why the pod may not preempt other pods now; empty if it may."""
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
            pod_priority(other.pod) < priority and _is_being_preempted(other.pod)
            for other in node.pods
        ):
            return VICTIM_TERMINATING
        return ""

    def _search(
        self, state: CycleState, preemptor: PodInfo, diagnosis: Diagnosis
    ) -> CandidateSearchResult:
        rows = self._potential_rows(diagnosis)
        args = self._args
        wanted = calculate_num_candidates(
            len(rows), args.min_candidate_nodes_percentage, args.min_candidate_nodes_absolute
        )
        offset = self._handle.random.randrange(len(rows)) if len(rows) else 0
        table = self._handle.snapshot.nodes.table
        columns = self._columns
        if columns is None or columns.table is not table:
            columns = self._columns = PodColumns(table)
        columns.compact()
        cached = self._dry_run_cache.entry_of(state, preemptor, columns)
        run = CandidateSearch(self._handle, state, preemptor, columns, self._budgets.read(), cached)
        return run.search(np.concatenate((rows[offset:], rows[:offset])), wanted)

    def _potential_rows(self, diagnosis: Diagnosis) -> NDArray[np.intp]:
        """Return the nodes that evictions could help, in the order of the snapshot."""
        snapshot = self._handle.snapshot
        order, table = snapshot.order, snapshot.nodes.table
        return order[diagnosis.has_code(Code.UNSCHEDULABLE, order, table.row_of, table.capacity)]


def _is_being_preempted(pod: Pod) -> bool:
    """Whether the pod is terminating because a scheduler preempted it."""
    if not is_terminating(pod):
        return False
    for condition in pod.status.conditions:
        if condition.type == DISRUPTION_TARGET:
            return condition.status == "True" and condition.reason == PREEMPTION_BY_SCHEDULER
    return False


def _joined(errors: tuple[BaseException, ...]) -> str:
    """Format errors as the reference does: distinct texts in brackets.

    They are sorted, so that the message does not depend on where the search began.
    """
    texts = sorted(set(map(str, errors)))
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
