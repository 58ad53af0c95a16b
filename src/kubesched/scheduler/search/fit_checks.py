"""Checks of nodes outside a search, for preemption and for attempts with extenders.

Preemption is asynchronous, and an attempt with extenders awaits their responses. Both check the
current snapshot before they act on earlier results.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import numpy as np
from numpy.typing import NDArray

from kubesched.errors import PluginError
from kubesched.framework import ClusterVersion, Code, CycleState, Diagnosis, NodeView, PodInfo
from kubesched.scheduler.backend.cluster_snapshot import ClusterSnapshot
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.node_filtering import NodeFiltering
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["FitChecks"]

# Up to this number of nodes, filtering one by one is faster than filtering all at once.
_FEW_NODES: Final = 8


class FitChecks:
    """Checks whether pods fit nodes of the current snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, filtering: NodeFiltering) -> None:
        self._snapshot = snapshot
        self._filtering = filtering

    def fits_now(
        self,
        framework: Framework,
        pod_info: PodInfo,
        since: ClusterVersion,
        refused: Collection[str] = (),
    ) -> bool:
        """Whether a pod that fitted no node in the version `since` fits one now.

        Extenders are not called. A node that they `refused` counts as refused until it changes.
        Any other node counts as good enough to try the pod again before victims are evicted.
        """
        if framework.dry_run.version == since:
            return False
        attempt = SearchAttempt(framework, CycleState(), pod_info)
        try:
            outcome = framework.run_pre_filter(attempt.state, pod_info)
            if not outcome.status.is_success:
                return False
            nodes = self._may_have_changed(attempt, since)
            if outcome.only_nodes is not None:
                named = self._snapshot.table.rows_of(outcome.only_nodes)
                nodes = nodes.subset(np.isin(nodes.rows, named))
            if refused:
                nodes = nodes.subset(~np.isin(nodes.rows, self._unchanged(refused, since)))
            if len(nodes) <= _FEW_NODES:
                fits_on = framework.dry_run.fits_on
                return any(fits_on(attempt.state, pod_info, node) for node in nodes)
            diagnosis = Diagnosis(self._snapshot.table.names)
            return len(self._filtering.filter(attempt, nodes, diagnosis)) > 0
        except PluginError:
            return False

    def fits_without(
        self,
        framework: Framework,
        pod_info: PodInfo,
        node_name: str,
        removed_pods: Collection[PodInfo],
    ) -> bool:
        """Whether a pod fits a node once some pods there are removed."""
        node = self._snapshot.get(node_name)
        if node is None:
            return False
        state, trial = CycleState(), node.clone()
        try:
            status = framework.run_pre_filter(state, pod_info).status
            # Another rejection than UNSCHEDULABLE does not depend on pods that may be evicted.
            if not status.is_success and status.code is not Code.UNSCHEDULABLE:
                return False
            for each in removed_pods:
                if trial.has_pod(each.uid):
                    removed = trial.remove_pod(each.uid)
                    framework.dry_run.remove_pod(state, pod_info.pod, removed, trial)
            return framework.dry_run.filter_node(state, pod_info, trial).is_success
        except PluginError:
            return False

    def feasible_now(
        self,
        attempt: SearchAttempt,
        diagnosis: Diagnosis,
        names: Collection[str] | None = None,
    ) -> NodeView:
        """Return the feasible ones of the named nodes, or of all; record the others.

        Raises:
            NoNodesError: there is no node any more.
            PluginError: a plugin failed.
        """
        filtering = self._filtering
        outcome = filtering.pre_filter(attempt)
        if not outcome.status.is_success:
            return filtering.reject_all(outcome, diagnosis)
        candidates = self._snapshot.nodes
        if names is not None:
            candidates = candidates.at_rows(self._snapshot.table.rows_of(names))
        elif outcome.only_nodes is not None:
            candidates = filtering.narrowed(outcome, diagnosis)
        with attempt.framework.point_metrics.timing("Filter"):
            return filtering.filter(attempt, candidates, diagnosis)

    def _may_have_changed(self, attempt: SearchAttempt, since: ClusterVersion) -> NodeView:
        """Return the nodes for which filters may answer otherwise than in that version."""
        nodes = self._snapshot.nodes
        changed = attempt.framework.answer_cache.rows_changed_since(attempt.state, since)
        return nodes if changed is None else nodes.at_rows(changed)

    def _unchanged(self, names: Collection[str], since: ClusterVersion) -> NDArray[np.intp]:
        """Return the rows of the named nodes that have not changed since that version."""
        rows, table = self._snapshot.table.rows_of(names), self._snapshot.table
        changed = table.changes.since(since.rows)
        return rows[:0] if changed is None else rows[~np.isin(rows, changed)]
