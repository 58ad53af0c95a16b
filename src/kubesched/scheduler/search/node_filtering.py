"""The first half of a search: PreFilter, then Filter on the nodes that are left.

docs/reference/04 §11.1 to §11.3. The reference samples large clusters by default because its
scoring is expensive. Here all nodes are scored unless a configuration says otherwise; a percentage
that a user configures is honoured, with the reference's rotation through the nodes.

`FullSearch` runs these steps one after another. An attempt that waits for extenders runs them
itself, with the extenders' calls in between.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.errors import PluginError
from kubesched.foundation.util.go_format import format_slice
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Code, Diagnosis, NodeView, Status
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.runtime.search_outcomes import PreFilterOutcome
from kubesched.scheduler.search.node_evaluation import NodeEvaluation
from kubesched.scheduler.search.nominated_filter import filter_with_nominated
from kubesched.scheduler.search.schedule_result import NoNodesError
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["NodeFiltering", "NodeSampling", "nodes_to_find"]

log = get_logger(__name__)

_MIN_NODES_TO_FIND: Final = 100


class NodeSampling:
    """The rotation of one scheduler's searches through the nodes of a snapshot."""

    def __init__(
        self, snapshot: ClusterSnapshot, percentage: int | None, *, extenders_choose: bool
    ) -> None:
        """`percentage` None or 0 means all nodes.

        `extenders_choose` says that extenders narrow or rank the feasible nodes.
        """
        self._snapshot = snapshot
        self.percentage = percentage
        self._extenders_choose = extenders_choose
        # The position in the list of nodes at which the next search begins.
        self.start_index = 0

    def nodes_to_find(self, framework: Framework, count: int) -> int:
        """Return how many feasible nodes are enough, of `count` candidates."""
        if not framework.score_plugins and not self._extenders_choose:
            return 1
        own = framework.percentage_of_nodes_to_score
        return nodes_to_find(count, self.percentage if own is None else own)

    def rotated_rows(self, candidates: NodeView | None) -> NDArray[np.intp]:
        """Return the rows of the candidates (None: all nodes) in the order of the search."""
        rows = self._snapshot.order if candidates is None else candidates.rows
        return np.roll(rows, -(self.start_index % len(rows)))

    def advance(self, visited: int) -> None:
        """Let the next search begin after the nodes that this one visited."""
        self.start_index = (self.start_index + visited) % len(self._snapshot.candidates)

    def in_search_order(self, nodes: NodeView, start_index: int) -> NodeView:
        """Return the nodes in the order in which a search from `start_index` visits them."""
        order = np.roll(self._snapshot.order, -start_index)
        present = np.zeros(self._snapshot.table.capacity, dtype=bool)
        present[nodes.rows] = True
        return nodes.at_rows(order[present[order]])


class NodeFiltering:
    """Finds the feasible nodes of a snapshot for one pod at a time."""

    def __init__(
        self, snapshot: ClusterSnapshot, sampling: NodeSampling, evaluation: NodeEvaluation
    ) -> None:
        self._snapshot = snapshot
        self.sampling = sampling
        self._evaluation = evaluation

    def pre_filter(self, attempt: SearchAttempt) -> PreFilterOutcome:
        """Run the PreFilter plugins.

        Raises:
            NoNodesError: there is no node.
            PluginError: a plugin failed.
        """
        if not self._snapshot.table.row_of:
            raise NoNodesError
        metrics = attempt.framework.point_metrics
        started_ns = metrics.now_ns()
        try:
            outcome = attempt.framework.run_pre_filter(attempt.state, attempt.pod_info)
        except PluginError:
            metrics.observe("PreFilter", Code.ERROR, started_ns)
            raise
        metrics.observe("PreFilter", outcome.status.code, started_ns)
        return outcome

    def find(
        self, attempt: SearchAttempt, outcome: PreFilterOutcome, diagnosis: Diagnosis
    ) -> NodeView:
        """Return the feasible nodes after PreFilter: the nominated node if the pod fits there.

        Raises:
            PluginError: a plugin failed.
        """
        if not outcome.status.is_success:
            return self.reject_all(outcome, diagnosis)
        with attempt.framework.point_metrics.timing("Filter"):
            if attempt.pod.status.nominated_node_name:
                nominated = self.nominated_node(attempt, diagnosis)
                if nominated is not None:
                    return nominated
            return self.find_enough(attempt, outcome, diagnosis)

    def reject_all(self, outcome: PreFilterOutcome, diagnosis: Diagnosis) -> NodeView:
        """Record that PreFilter rejected the pod; return a view of no nodes."""
        diagnosis.absent_nodes_status = outcome.status
        diagnosis.pre_filter_message = outcome.status.message
        diagnosis.unschedulable_plugins |= outcome.narrowing_plugins
        if outcome.status.plugin:
            diagnosis.unschedulable_plugins.add(outcome.status.plugin)
        return self._snapshot.nodes.at_rows(np.empty(0, dtype=np.intp))

    def nominated_node(self, attempt: SearchAttempt, diagnosis: Diagnosis) -> NodeView | None:
        """Return the node that the pod is nominated to; None if the pod does not fit there."""
        name = attempt.pod.status.nominated_node_name
        node = self._snapshot.get(name)
        if node is None:
            log.error("Nominated node is gone", pod=attempt.pod, node=name)
            return None
        if not self._is_candidate(name):
            return None
        try:
            status = attempt.framework.dry_run.filter_node(attempt.state, attempt.pod_info, node)
        except PluginError as exc:
            log.error("Evaluation of the nominated node failed", exc=exc, pod=attempt.pod)
            return None
        if status.is_success:
            return self._snapshot.nodes.at_rows(self._snapshot.table.rows_of([name]))
        diagnosis.add_node_status(name, status)
        return None

    def find_enough(
        self, attempt: SearchAttempt, outcome: PreFilterOutcome, diagnosis: Diagnosis
    ) -> NodeView:
        """Filter nodes until enough are feasible; the next search begins where this one ended.

        Raises:
            PluginError: a plugin failed.
        """
        candidates = self._snapshot.placement
        if outcome.only_nodes is not None:
            candidates = self.narrowed(outcome, diagnosis)
        try:
            feasible = self._filter_enough(attempt, candidates, diagnosis)
        except PluginError:
            self.sampling.advance(diagnosis.explicit_count)
            raise
        self.sampling.advance(len(feasible) + diagnosis.explicit_count)
        return feasible

    def narrowed(self, outcome: PreFilterOutcome, diagnosis: Diagnosis) -> NodeView:
        """Return the only nodes that PreFilter left; record the status of the others.

        Its text also lists the plugins that rejected the nominated node: the reference adds them
        to the same set.
        """
        assert outcome.only_nodes is not None
        diagnosis.unschedulable_plugins |= outcome.narrowing_plugins
        names = format_slice(sorted(diagnosis.unschedulable_plugins))
        diagnosis.absent_nodes_status = Status.unresolvable(
            f"node(s) didn't satisfy plugin(s) {names}"
        )
        rows = self._snapshot.table.rows_of(outcome.only_nodes)
        if self._snapshot.placement is not None:
            rows = rows[np.isin(rows, self._snapshot.placement.rows)]
        return self._snapshot.nodes.at_rows(rows)

    def _is_candidate(self, name: str) -> bool:
        """Whether the node is in the placement that the pod's group is tried on."""
        placement = self._snapshot.placement
        return placement is None or self._snapshot.table.row_of[name] in placement.rows

    def filter(self, attempt: SearchAttempt, nodes: NodeView, diagnosis: Diagnosis) -> NodeView:
        """Return the feasible ones of some nodes; record the others in the diagnosis.

        Raises:
            PluginError: a plugin failed.
        """
        return filter_with_nominated(attempt, nodes, diagnosis, self._evaluation)

    def _filter_enough(
        self, attempt: SearchAttempt, candidates: NodeView | None, diagnosis: Diagnosis
    ) -> NodeView:
        """Filter the candidates (None: all nodes) until enough are feasible."""
        nodes = self._snapshot.nodes if candidates is None else candidates
        enough = self.sampling.nodes_to_find(attempt.framework, len(nodes))
        if enough >= len(nodes):
            return self.filter(attempt, nodes, diagnosis)
        if not len(nodes):
            return nodes
        rows = self.sampling.rotated_rows(candidates)
        return self._filter_until(attempt, rows, enough, diagnosis)

    def _filter_until(
        self, attempt: SearchAttempt, rows: NDArray[np.intp], enough: int, diagnosis: Diagnosis
    ) -> NodeView:
        """Filter the rows in order; stop at the first feasible node beyond the limit."""
        found: list[NDArray[np.intp]] = []
        missing = enough
        nodes = self._snapshot.nodes
        for start in range(0, len(rows), enough + 1):
            chunk = rows[start : start + enough + 1]
            verdicts = Diagnosis(diagnosis.names)
            feasible = self.filter(attempt, nodes.at_rows(chunk), verdicts)
            fits = np.isin(chunk, feasible.rows)
            is_enough = len(feasible) > missing
            if is_enough:
                # The reference does not visit the node beyond the limit, nor those after it.
                end = int(np.flatnonzero(fits)[missing])
                unvisited = np.zeros(nodes.table.capacity, dtype=bool)
                unvisited[chunk[end:]] = True
                diagnosis.merge_except(verdicts, unvisited)
                chunk, fits = chunk[:end], fits[:end]
            else:
                diagnosis.merge(verdicts)
            found.append(chunk[fits])
            if is_enough:
                break
            missing -= len(feasible)
        return nodes.at_rows(np.concatenate(found))


def nodes_to_find(count: int, percentage: int | None) -> int:
    """Return how many feasible nodes are enough, of `count` (docs/reference/04 §11.3)."""
    if count < _MIN_NODES_TO_FIND or not percentage:
        return count
    return max(count * percentage // 100, _MIN_NODES_TO_FIND)
