"""Filtering of nodes that other pods are nominated to (docs/reference/04 §8.3).

A pod must fit such a node with the nominated pods, because they may come, and without them,
because they may not.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.errors import PluginError
from kubesched.framework import Diagnosis, NodeView, NominatedTotals, Rejections, TotalsView
from kubesched.scheduler.search.node_evaluation import NodeEvaluation
from kubesched.scheduler.search.search_attempt import SearchAttempt

__all__ = ["filter_with_nominated", "nominated_totals"]

_NO_NOMINATED_PODS = NominatedTotals(
    np.empty(0, dtype=np.intp), np.empty((0, 0), dtype=np.int64), np.empty(0, dtype=np.int64)
)


def nominated_totals(attempt: SearchAttempt) -> NominatedTotals:
    """Return the totals of the other nominated pods that the pod must leave room for."""
    framework = attempt.framework
    if not framework.nominator.nominated_nodes():
        return _NO_NOMINATED_PODS
    return framework.dry_run.nominated_totals(attempt.pod)


def filter_with_nominated(
    attempt: SearchAttempt, nodes: NodeView, diagnosis: Diagnosis, evaluation: NodeEvaluation
) -> NodeView:
    """Return the nodes that the pod fits both with and without the pods nominated to them."""
    nominated = nominated_totals(attempt)
    if not len(nominated.rows):
        return evaluation.filter(attempt, nodes, diagnosis)
    rejected = _rejected_with_nominated(attempt, nodes, nominated, diagnosis)
    return evaluation.filter(attempt, nodes, diagnosis, rejected if rejected.any() else None)


def _rejected_with_nominated(
    attempt: SearchAttempt, nodes: NodeView, nominated: NominatedTotals, diagnosis: Diagnosis
) -> NDArray[np.bool_]:
    """Record the nodes that the pod does not fit once the nominated pods have come.

    Returns:
        bool[row]: the recorded rows.
    """
    table = nodes.table
    rejected = np.zeros(table.capacity, dtype=bool)
    present = np.zeros(table.capacity, dtype=bool)
    present[nodes.rows] = True
    which = present[nominated.rows]
    rows = nominated.rows[which]
    dry_run, state, pod = attempt.framework.dry_run, attempt.state, attempt.pod
    together = dry_run.sees_totals_only(state, pod, rows)
    requested = table.requested[:, rows] + nominated.requested[:, which]
    pod_count = table.pod_count[rows] + nominated.pod_count[which]
    view = TotalsView(nodes, rows, requested, pod_count)
    verdicts: list[tuple[NDArray[np.intp], Rejections]] = []
    try:
        if together.any():
            found = dry_run.filter_nodes(state, pod, view.subset(together), in_full=True)
            verdicts.append((rows[together], found))
    except PluginError:
        # The call about many nodes does not say on which node a plugin failed.
        together[:] = False
    if not together.all():
        one_by_one = rows[~together]
        statuses = (
            dry_run.filter_beside_nominated(state, attempt.pod_info, node)
            for node in nodes.at_rows(one_by_one)
        )
        verdicts.append((one_by_one, Rejections.from_statuses(statuses)))
    for evaluated, found in verdicts:
        if found.codes is not None and found.codes.any():
            hit = found.codes != 0
            diagnosis.add_verdicts(evaluated[hit], found.codes[hit], found.statuses)
            rejected[evaluated[hit]] = True
    return rejected
