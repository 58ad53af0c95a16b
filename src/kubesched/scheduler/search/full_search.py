"""Which node a pod should run on: the full search, which defines it (docs/reference/04 §11).

PreFilter, then Filter on the nodes that are left, then PreScore and Score on those that fit; the
best wins. Every plugin is called about every node. `CachedSearch` comes to the same result with
fewer calls. Pure computation: nothing is awaited.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.errors import KubeschedError, PluginError
from kubesched.foundation.util.go_format import format_slice
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import (
    ClusterVersion,
    Code,
    CycleState,
    Diagnosis,
    FitError,
    NodeInfo,
    NodeView,
    NominatedTotals,
    PodInfo,
    Rejections,
    Status,
    TotalsView,
)
from kubesched.scheduler.backend.snapshot import ClusterSnapshot
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.returned_node_scores import score_returned_nodes
from kubesched.scheduler.runtime.search_outcomes import PreFilterOutcome, Scores
from kubesched.scheduler.runtime.ties import RandomTies, Ties
from kubesched.scheduler.search.schedule_result import ScheduleResult

__all__ = [
    "FullSearch",
    "NoNodesError",
    "SchedulePod",
    "ScheduleResult",
    "nodes_to_find",
]

log = get_logger(__name__)

_MIN_NODES_TO_FIND = 100
# Up to here it is quicker to ask about one node after another.
_FEW_NODES = 8
_NOBODY = NominatedTotals(
    np.empty(0, dtype=np.intp), np.empty((0, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
)


class NoNodesError(KubeschedError):
    """The cluster has no node at all."""

    def __init__(self) -> None:
        super().__init__("no nodes available to schedule pods")


# Chooses a node for a pod, or raises as `FullSearch.schedule_pod` does.
SchedulePod = Callable[[Framework, CycleState, PodInfo], ScheduleResult]


class FullSearch:
    """Finds and chooses a node. `percentage` None or 0 means: look at every node.

    The reference samples large clusters by default because scoring is dear there; a value
    that the user sets is honoured, with its rotation through the nodes (docs/differences.md).
    """

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        rng: random.Random,
        percentage: int | None = None,
        *,
        others_choose: bool = False,
    ) -> None:
        """`others_choose` says that extenders narrow or rank the nodes that fit."""
        self._snapshot = snapshot
        self._ties = RandomTies(rng)
        self._percentage = percentage
        self._others_choose = others_choose
        # Where in the list of nodes the next search begins.
        self.start_index = 0

    def schedule_pod(
        self, framework: Framework, state: CycleState, pod_info: PodInfo
    ) -> ScheduleResult:
        """Choose a node for the pod in the snapshot as it is.

        Raises:
            NoNodesError: there is no node.
            FitError: no node fits; carries the diagnosis.
            PluginError: a plugin failed.
        """
        outcome = self.pre_filter(framework, state, pod_info)
        return self.search(framework, state, pod_info, outcome)

    def search(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        outcome: PreFilterOutcome,
    ) -> ScheduleResult:
        """Filter, score and choose, after PreFilter."""
        diagnosis = Diagnosis(self._snapshot.table.names)
        # Nothing is filtered for a pod that PreFilter rejected.
        with (
            framework.point_metrics.timing("Filter") if outcome.status.is_success else nullcontext()
        ):
            feasible = self._find_feasible(framework, state, pod_info, outcome, diagnosis)
        if not len(feasible):
            raise FitError(len(self._snapshot), diagnosis)
        chosen, scores = 0, None
        if len(feasible) > 1:
            scores = self.prioritize(framework, state, pod_info, feasible)
            chosen = self._ties_of(framework).best_of(scores.total, feasible)
        return ScheduleResult(
            feasible.info(chosen).name,
            feasible,
            len(feasible) + diagnosis.explicit_count,
            lambda: scores,
            lambda: diagnosis,
        )

    def pre_filter(
        self, framework: Framework, state: CycleState, pod_info: PodInfo
    ) -> PreFilterOutcome:
        """Have the plugins look at the pod and the cluster as a whole.

        Raises:
            NoNodesError: there is no node.
            PluginError: a plugin failed.
        """
        if not len(self._snapshot):
            raise NoNodesError
        metrics = framework.point_metrics
        started_ns = metrics.now_ns()
        try:
            outcome = framework.run_pre_filter(state, pod_info)
        except PluginError:
            metrics.observe("PreFilter", Code.ERROR, started_ns)
            raise
        metrics.observe("PreFilter", outcome.status.code, started_ns)
        return outcome

    def look_again(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        diagnosis: Diagnosis,
        names: Collection[str] | None = None,
    ) -> NodeView:
        """Those of the named nodes, or of all, that fit in the snapshot as it is by now.

        Raises:
            NoNodesError: there is no node any more.
            PluginError: a plugin failed.
        """
        outcome = self.pre_filter(framework, state, pod_info)
        if not outcome.status.is_success:
            return self.reject_all(outcome, diagnosis)
        candidates = self._snapshot.nodes
        if names is not None:
            candidates = candidates.at_rows(self._snapshot.table.rows_of(names))
        elif outcome.only_nodes is not None:
            candidates = self._only(outcome, diagnosis)
        with framework.point_metrics.timing("Filter"):
            return self._filter(framework, state, pod_info, candidates, diagnosis)

    def reject_all(self, outcome: PreFilterOutcome, diagnosis: Diagnosis) -> NodeView:
        """Note that PreFilter found no node worth a look; returns no nodes."""
        diagnosis.absent_nodes_status = outcome.status
        diagnosis.pre_filter_message = outcome.status.message
        diagnosis.unschedulable_plugins |= outcome.narrowing_plugins
        if outcome.status.plugin:
            diagnosis.unschedulable_plugins.add(outcome.status.plugin)
        return self._snapshot.nodes.at_rows(np.empty(0, dtype=np.intp))

    def _only(self, outcome: PreFilterOutcome, diagnosis: Diagnosis) -> NodeView:
        """The nodes that PreFilter left; the others are noted."""
        assert outcome.only_nodes is not None
        names = format_slice(sorted(outcome.narrowing_plugins))
        diagnosis.absent_nodes_status = Status.unresolvable(
            f"node(s) didn't satisfy plugin(s) {names}"
        )
        diagnosis.unschedulable_plugins |= outcome.narrowing_plugins
        return self._snapshot.nodes.at_rows(self._snapshot.table.rows_of(outcome.only_nodes))

    def fits_now(
        self,
        framework: Framework,
        pod_info: PodInfo,
        since: ClusterVersion,
        refused: Collection[str] = (),
    ) -> bool:
        """Whether a pod that fitted nowhere then fits a node of the snapshot as it is.

        Extenders are not asked. Nodes that they `refused` then count as refused until they
        change; any other counts as good enough to try the pod again before someone has to go.
        """
        if framework.dry_run.version == since:
            return False
        state = CycleState()
        diagnosis = Diagnosis(self._snapshot.table.names)
        try:
            outcome = framework.run_pre_filter(state, pod_info)
            if not outcome.status.is_success:
                return False
            nodes = self.may_have_changed(framework, state, since)
            if outcome.only_nodes is not None:
                named = self._snapshot.table.rows_of(outcome.only_nodes)
                nodes = nodes.subset(np.isin(nodes.rows, named))
            if refused:
                nodes = nodes.subset(~np.isin(nodes.rows, self._unchanged(refused, since)))
            if len(nodes) <= _FEW_NODES:
                return any(framework.dry_run.fits_on(state, pod_info, node) for node in nodes)
            return len(self._filter(framework, state, pod_info, nodes, diagnosis)) > 0
        except PluginError:
            return False

    def fits_without(
        self, framework: Framework, pod_info: PodInfo, node_name: str, gone: Collection[PodInfo]
    ) -> bool:
        """Whether a pod would fit a node of the snapshot as it is, without some pods there."""
        node = self._snapshot.get(node_name)
        if node is None:
            return False
        state, trial = CycleState(), node.clone()
        try:
            if not framework.run_pre_filter(state, pod_info).status.is_success:
                return False
            for each in gone:
                if trial.has_pod(each.uid):
                    removed = trial.remove_pod(each.uid)
                    framework.dry_run.remove_pod(state, pod_info.pod, removed, trial)
            return framework.dry_run.filter_node(state, pod_info, trial).is_success
        except PluginError:
            return False

    def may_have_changed(
        self,
        framework: Framework,  # noqa: ARG002
        state: CycleState,  # noqa: ARG002
        since: ClusterVersion,  # noqa: ARG002
    ) -> NodeView:
        """The nodes of which filters may say something else than in that version."""
        return self._snapshot.nodes

    def run_filter(
        self,
        framework: Framework,
        state: CycleState,
        pod: Pod,
        nodes: NodeView,
        diagnosis: Diagnosis,
    ) -> NodeView:
        """The nodes that pass every filter; the others are noted in the diagnosis."""
        return framework.run_filter(state, pod, nodes, diagnosis)

    def run_score(
        self, framework: Framework, state: CycleState, pod: Pod, nodes: NodeView
    ) -> Scores:
        """The scores of nodes that fit, after PreScore."""
        return framework.run_score(state, pod, nodes)

    def _unchanged(self, names: Collection[str], since: ClusterVersion) -> NDArray[np.intp]:
        """Rows of the named nodes that are as they were."""
        rows, table = self._snapshot.table.rows_of(names), self._snapshot.table
        changed = table.changes.since(since.rows)
        return rows[:0] if changed is None else rows[~np.isin(rows, changed)]

    def _find_feasible(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        outcome: PreFilterOutcome,
        diagnosis: Diagnosis,
    ) -> NodeView:
        if not outcome.status.is_success:
            return self.reject_all(outcome, diagnosis)
        if pod_info.pod.status.nominated_node_name:
            nominated = self.nominated_node(framework, state, pod_info, diagnosis)
            if nominated is not None:
                return nominated
        return self.find(framework, state, pod_info, outcome, diagnosis)

    def find(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        outcome: PreFilterOutcome,
        diagnosis: Diagnosis,
    ) -> NodeView:
        """Nodes that fit, enough of them; the search goes on next time where it ended."""
        count = len(self._snapshot.nodes)
        candidates = None if outcome.only_nodes is None else self._only(outcome, diagnosis)
        try:
            feasible = self._search(framework, state, pod_info, candidates, diagnosis)
        except PluginError:
            self.start_index = (self.start_index + diagnosis.explicit_count) % count
            raise
        visited = len(feasible) + diagnosis.explicit_count
        self.start_index = (self.start_index + visited) % count
        return feasible

    def as_listed(self, nodes: NodeView, start_index: int) -> NodeView:
        """The nodes in the order in which a search that begins there comes by."""
        order = np.roll(self._snapshot.order, -start_index)
        present = np.zeros(self._snapshot.table.capacity, dtype=bool)
        present[nodes.rows] = True
        return nodes.at_rows(order[present[order]])

    def nominated_node(
        self, framework: Framework, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> NodeView | None:
        """The node the pod is nominated to, if it fits there: no other is then looked at."""
        name = pod_info.pod.status.nominated_node_name
        node = self._snapshot.get(name)
        if node is None:
            log.error("Nominated node is gone", pod=pod_info.pod, node=name)
            return None
        try:
            status = framework.dry_run.filter_node(state, pod_info, node)
        except PluginError as exc:
            log.error("Evaluation of the nominated node failed", exc=exc, pod=pod_info.pod)
            return None
        if status.is_success:
            return self._snapshot.nodes.at_rows(self._snapshot.table.rows_of([name]))
        diagnosis.add_node_status(name, status)
        return None

    def _search(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        candidates: NodeView | None,
        diagnosis: Diagnosis,
    ) -> NodeView:
        """Filter the candidates (None: all nodes) until enough nodes fit."""
        everything = self._snapshot.nodes
        count = len(everything if candidates is None else candidates)
        wanted = self._nodes_wanted(framework, count)
        if wanted >= count:
            nodes = everything if candidates is None else candidates
            return self._filter(framework, state, pod_info, nodes, diagnosis)
        rows = self._snapshot.order if candidates is None else candidates.rows
        rows = np.roll(rows, -(self.start_index % count))
        return self._filter_until(framework, state, pod_info, rows, wanted, diagnosis)

    def _nodes_wanted(self, framework: Framework, count: int) -> int:
        if not framework.score_plugins and not self._others_choose:
            return 1
        own = framework.percentage_of_nodes_to_score
        return nodes_to_find(count, self._percentage if own is None else own)

    def _filter_until(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        rows: NDArray[np.intp],
        wanted: int,
        diagnosis: Diagnosis,
    ) -> NodeView:
        """Go through the rows in order and stop at the first node beyond those wanted."""
        found: list[NDArray[np.intp]] = []
        missing = wanted
        nodes = self._snapshot.nodes
        for start in range(0, len(rows), wanted + 1):
            chunk = rows[start : start + wanted + 1]
            attempt = Diagnosis(diagnosis.names)
            fitting = self._filter(framework, state, pod_info, nodes.at_rows(chunk), attempt)
            fits = np.isin(chunk, fitting.rows)
            is_enough = len(fitting) > missing
            if is_enough:
                # The node beyond those wanted, and what comes after it, was not looked at.
                end = int(np.flatnonzero(fits)[missing])
                chunk, fits = chunk[:end], fits[:end]
                attempt = Diagnosis(diagnosis.names)
                self._filter(framework, state, pod_info, nodes.at_rows(chunk), attempt)
            diagnosis.merge(attempt)
            found.append(chunk[fits])
            if is_enough:
                break
            missing -= len(fitting)
        return nodes.at_rows(np.concatenate(found))

    def _filter(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        nodes: NodeView,
        diagnosis: Diagnosis,
    ) -> NodeView:
        """Filter all nodes; where other pods are nominated to, it must hold with them as well."""
        nominated = self._nominated(framework, pod_info)
        if not len(nominated.rows):
            return self.run_filter(framework, state, pod_info.pod, nodes, diagnosis)
        crowded = self._rejected_beside(framework, state, pod_info, nodes, nominated, diagnosis)
        if not crowded.any():
            return self.run_filter(framework, state, pod_info.pod, nodes, diagnosis)
        # All nodes are filtered, which is what a cache can answer, and then some are left out.
        attempt = Diagnosis(diagnosis.names)
        try:
            feasible = self.run_filter(framework, state, pod_info.pod, nodes, attempt)
        except PluginError:
            free = nodes.subset(~crowded[nodes.rows])
            return self.run_filter(framework, state, pod_info.pod, free, diagnosis)
        diagnosis.merge_except(attempt, crowded)
        return feasible.subset(~crowded[feasible.rows])

    def _nominated(self, framework: Framework, pod_info: PodInfo) -> NominatedTotals:
        if not framework.nominator.nominated_nodes():
            return _NOBODY
        return framework.dry_run.nominated_totals(pod_info.pod)

    def _rejected_beside(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        nodes: NodeView,
        nominated: NominatedTotals,
        diagnosis: Diagnosis,
    ) -> NDArray[np.bool_]:
        """Rows where the pod does not fit if the pods nominated there come; noted as such."""
        table = self._snapshot.table
        crowded = np.zeros(table.capacity, dtype=bool)
        present = np.zeros(table.capacity, dtype=bool)
        present[nodes.rows] = True
        which = present[nominated.rows]
        rows = nominated.rows[which]
        dry_run, pod = framework.dry_run, pod_info.pod
        together = dry_run.sees_totals_only(state, pod, [table.names[row] for row in rows])
        requested = table.requested[:, rows] + nominated.requested[:, which]
        pod_count = table.pod_count[rows] + nominated.pod_count[which]
        view = TotalsView(nodes, rows, requested, pod_count)
        verdicts: list[tuple[NDArray[np.intp], Rejections]] = []
        try:
            if together.any():
                found = dry_run.filter_nodes(state, pod, view.subset(together), in_full=True)
                verdicts.append((rows[together], found))
        except PluginError:
            # Only one node at a time can tell which node it is that a plugin fails on.
            together[:] = False
        if not together.all():
            one_by_one = rows[~together]
            statuses = (
                dry_run.filter_beside_nominated(state, pod_info, node)
                for node in nodes.at_rows(one_by_one)
            )
            verdicts.append((one_by_one, Rejections.from_statuses(statuses)))
        for judged, found in verdicts:
            if found.codes is not None and found.codes.any():
                hit = found.codes != 0
                diagnosis.add_verdicts(judged[hit], found.codes[hit], found.statuses)
                crowded[judged[hit]] = True
        return crowded

    def prioritize(
        self,
        framework: Framework,
        state: CycleState,
        pod_info: PodInfo,
        feasible: NodeView,
        infos: Sequence[NodeInfo] | None = None,
    ) -> Scores:
        """Scores of the nodes; of `infos`, if given, in place of what is known of them."""
        if not framework.score_plugins:
            return Scores(np.ones(len(feasible), dtype=np.int64))
        with framework.point_metrics.timing("PreScore"):
            framework.run_pre_score(state, pod_info, feasible)
        with framework.point_metrics.timing("Score"):
            if infos is not None:
                return score_returned_nodes(framework, state, pod_info.pod, feasible, infos)
            return self.run_score(framework, state, pod_info.pod, feasible)

    def choose(self, framework: Framework, totals: NDArray[np.int64], names: Sequence[str]) -> int:
        """The position of the best; among equals by the profile's rule."""
        return self._ties_of(framework).best_named(totals, names)

    def _ties_of(self, framework: Framework) -> Ties:
        return framework.own_ties or self._ties


def nodes_to_find(count: int, percentage: int | None) -> int:
    """How many fitting nodes are enough, of `count` (docs/reference/04 §11.3)."""
    if count < _MIN_NODES_TO_FIND or not percentage:
        return count
    return max(count * percentage // 100, _MIN_NODES_TO_FIND)
