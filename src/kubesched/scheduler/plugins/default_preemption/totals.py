"""The victims on many nodes at once, if filters read only the totals of pods.

The procedure of `victim_selection`, on a matrix with a row per node. One step removes the pods of
lower priority from all nodes. Each further step returns one pod to every node, the most important
first, and runs the filters for all nodes together.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.framework import (
    CycleState,
    Handle,
    NodeView,
    PodInfo,
    Rejections,
    TotalsView,
)
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import DisruptionBudgets
from kubesched.scheduler.plugins.default_preemption.pod_columns import (
    NOT_STARTED,
    PodColumns,
    PodMatrix,
)
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import (
    COSTS,
    PRIORITY_OFFSET,
    PreemptionCandidate,
    PreemptionCandidates,
)
from kubesched.scheduler.plugins.default_preemption.victim_selection import (
    NO_VICTIMS,
    no_victim_needed,
)

__all__ = ["TotalsDryRun"]

Flags = NDArray[np.bool_]
Amounts = NDArray[np.int64]

_LOWEST = np.iinfo(np.int64).min


class _NominatedPods(NamedTuple):
    """Pods that are nominated to some nodes.

    The preemptor must fit with and without them.
    """

    places: NDArray[np.intp]  # positions of these nodes
    requested: Amounts  # [resource, place]
    pod_count: NDArray[np.int64]

    def subset(self, keep: NDArray[np.intp], count: int) -> _NominatedPods:
        """Return the entries of the nodes in `keep`, with their new positions."""
        position = np.full(count, -1)
        position[keep] = np.arange(len(keep))
        places = position[self.places]
        left = places >= 0
        return _NominatedPods(places[left], self.requested[:, left], self.pod_count[left])


class TotalsDryRun:
    """The dry run of one preemptor on nodes of a snapshot."""

    def __init__(
        self,
        handle: Handle,
        state: CycleState,
        preemptor: PodInfo,
        columns: PodColumns,
        budgets: DisruptionBudgets,
        now_ns: int,
    ) -> None:
        self._handle = handle
        self._state = state
        self._preemptor = preemptor
        self._priority = pod_priority(preemptor.pod)
        self._nodes: NodeView = handle.snapshot.nodes
        self._columns = columns
        self._budgets = budgets
        self._now_ns = now_ns
        self._nominated = handle.dry_run.nominated_totals(preemptor.pod)

    def emptied(self, rows: NDArray[np.intp]) -> _EmptiedNodes:
        """Return the nodes without their pods of lower priority."""
        columns, table = self._columns, self._nodes.table
        columns.refresh(self._nodes, rows)
        matrix = columns.pods_below(rows, self._priority)
        # [resource, place, node], so that one place of all nodes is contiguous.
        amounts = columns.amounts[: len(table.requested), matrix.entry.T]
        amounts *= matrix.is_pod.T
        requested = table.requested[:, rows] - amounts.sum(axis=1)
        pod_count = table.pod_count[rows] - matrix.number
        nominated = self._nominated_to(rows)
        return _EmptiedNodes(rows, matrix, amounts, requested, pod_count, nominated)

    def screen(self, emptied: _EmptiedNodes, *, in_full: bool = False) -> Rejections:
        """Run the filters on the emptied nodes, up to the first that reads single pods."""
        totals = emptied.requested, emptied.pod_count
        verdicts = self._filter(emptied, *totals, in_full=in_full)
        return _with_no_victims(verdicts, emptied.matrix.number == 0)

    def dry_run(
        self, rows: NDArray[np.intp], *, in_full: bool = False, now_ns: int | None = None
    ) -> tuple[PreemptionCandidates, NDArray[np.intp], Rejections]:
        """Return the candidates, their positions among the rows, and the other verdicts.

        `in_full` also runs filters that read single pods; they must ignore all pods of lower
        priority on these nodes. `now_ns` is the start time of pods that have not started; the
        default is the current time.
        """
        emptied = self.emptied(rows)
        verdicts = self.screen(emptied, in_full=in_full)
        passed = np.arange(len(rows))
        if verdicts.codes is not None:
            passed = np.flatnonzero(verdicts.codes == 0)
        left = emptied.subset(passed)
        violating = self._violating(left)
        victims = self._spare(left, violating)
        unneeded = ~victims.any(axis=1)
        if unneeded.any():
            verdicts = _with_unneeded(verdicts, passed[unneeded], rows, self._nodes)
            keep = np.flatnonzero(~unneeded)
            left, victims, passed = left.subset(keep), victims[keep], passed[keep]
            violating = None if violating is None else violating[keep]
        now_ns = self._now_ns if now_ns is None else now_ns
        return self._candidates(left, victims, violating, now_ns), passed, verdicts

    def _spare(self, nodes: _EmptiedNodes, violating: Flags | None) -> Flags:
        """Return the pods that cannot be returned to their node [node, place]."""
        amounts, is_pod = nodes.amounts, nodes.matrix.is_pod.T  # [place, node]
        order = None
        if violating is not None:
            # Pods that budgets protect come first; both groups keep their order.
            order = np.argsort(~violating.T, axis=0, kind="stable")
            amounts = np.take_along_axis(amounts, order[None], axis=1)
            is_pod = np.take_along_axis(is_pod, order, axis=0)
        victims = np.zeros(is_pod.shape, dtype=bool)
        requested, pod_count = nodes.requested.copy(), nodes.pod_count.copy()
        for turn, present in enumerate(is_pod):
            requested += amounts[:, turn]
            pod_count += present
            verdicts = self._filter(nodes, requested, pod_count, again=True)
            if verdicts.codes is None:
                continue
            is_victim = np.logical_and(verdicts.codes, present, out=victims[turn])
            requested -= amounts[:, turn] * is_victim
            pod_count -= is_victim
        if order is not None:
            ranked, victims = victims, np.empty_like(victims)
            np.put_along_axis(victims, order, ranked, axis=0)
        return victims.T

    def _filter(
        self,
        nodes: _EmptiedNodes,
        requested: Amounts,
        pod_count: Amounts,
        *,
        in_full: bool = False,
        again: bool = False,
    ) -> Rejections:
        """Run the filters with these totals, with and without nominated pods."""
        rows, nominated = nodes.rows, nodes.nominated
        places = nominated.places
        if len(places):
            rows = np.concatenate([rows, rows[places]])
            crowded = requested[:, places] + nominated.requested
            requested = np.concatenate([requested, crowded], axis=1)
            pod_count = np.concatenate([pod_count, pod_count[places] + nominated.pod_count])
        view = TotalsView(self._nodes, rows, requested, pod_count)
        verdicts = self._handle.dry_run.filter_nodes(
            self._state, self._preemptor.pod, view, in_full=in_full, again=again
        )
        if verdicts.codes is None or not len(places):
            return verdicts
        rows = nodes.rows
        codes, with_nominated = verdicts.codes[: len(rows)].copy(), verdicts.codes[len(rows) :]
        codes[places] = np.where(with_nominated != 0, with_nominated, codes[places])
        return Rejections(codes, verdicts.statuses)

    def _nominated_to(self, rows: NDArray[np.intp]) -> _NominatedPods:
        everywhere = self._nominated
        position = np.full(self._nodes.table.capacity, -1)
        position[rows] = np.arange(len(rows))
        places = position[everywhere.rows]
        here = places >= 0
        return _NominatedPods(
            places[here], everywhere.requested[:, here], everywhere.pod_count[here]
        )

    def _violating(self, nodes: _EmptiedNodes) -> Flags | None:
        """Return whose eviction would violate a budget [node, place]; None: no pod's."""
        budgets, columns = self._budgets, self._columns
        if not budgets:
            return None
        index, is_pod = nodes.matrix.entry, nodes.matrix.is_pod
        label_sets = np.unique(columns.label_set[index][is_pod])
        matching = {
            number: found
            for number in label_sets.tolist()
            if (found := budgets.matching(*_labels(columns, number)))
        }
        if not matching:
            return None
        most = max(map(len, matching.values()))
        table = np.full((len(columns.label_sets), most), -1)  # label set -> budgets
        for number, found in matching.items():
            table[number, : len(found)] = found
        counted = table[columns.label_set[index]]  # budget[node, place, k], -1: none
        counted[~is_pod] = -1
        self._exempt_disrupted(nodes, counted)
        return self._use_up(counted)

    def _use_up(self, counted: NDArray[np.intp]) -> Flags | None:
        """Subtract every pod from its budgets, per node, in the order of places."""
        relevant, compact = np.unique(counted, return_inverse=True)
        compact = compact.reshape(counted.shape)
        allowed = [
            self._budgets.all[number].allowed if number >= 0 else 0 for number in relevant.tolist()
        ]
        nodes, width, most = counted.shape
        every = np.arange(nodes)
        left = np.tile(np.array(allowed, dtype=np.int64), (nodes, 1))
        violating = np.zeros((nodes, width), dtype=bool)
        for place in range(width):
            for k in range(most):
                number, counts = compact[:, place, k], counted[:, place, k] >= 0
                left[every, number] -= counts
                violating[:, place] |= counts & (left[every, number] < 0)
        return violating if violating.any() else None

    def _exempt_disrupted(self, nodes: _EmptiedNodes, counted: NDArray[np.intp]) -> None:
        """Leave out pods that a budget counted when their eviction began."""
        pods = self._handle.lister(Pod)
        row_of = self._nodes.table.row_of
        position = {row: place for place, row in enumerate(nodes.rows.tolist())}
        for number, budget in enumerate(self._budgets.all):
            for name in budget.disrupted:
                pod = pods.get(name, budget.namespace)
                node = None if pod is None else position.get(row_of.get(pod.spec.node_name, -1))
                if pod is None or node is None:
                    continue
                row = int(nodes.rows[node])
                index = self._columns.entry_of(row, pod.metadata.uid)
                if index is not None:
                    hit = nodes.matrix.entry[node] == index
                    counted[node, hit] = np.where(
                        counted[node, hit] == number, -1, counted[node, hit]
                    )

    def _candidates(
        self, nodes: _EmptiedNodes, victims: Flags, violating: Flags | None, now_ns: int
    ) -> PreemptionCandidates:
        columns, index = self._columns, nodes.matrix.entry
        priority = np.where(victims, columns.priority[index], _LOWEST)
        highest = priority.max(axis=1, initial=_LOWEST)
        count = victims.sum(axis=1)
        started = columns.start_ns[index]
        started[started == NOT_STARTED] = now_ns
        is_first = victims & (priority == highest[:, None])
        costs = np.zeros((COSTS, len(index)), dtype=np.int64)
        if violating is not None:
            costs[0] = (victims & violating).sum(axis=1)
        costs[1] = highest
        costs[2] = np.where(victims, priority + PRIORITY_OFFSET, 0).sum(axis=1)
        costs[3] = count
        costs[4] = -np.where(is_first, started, NOT_STARTED).min(axis=1, initial=NOT_STARTED)

        def describe(number: int) -> PreemptionCandidate:
            row = int(nodes.rows[number])
            chosen = index[number][victims[number]].tolist()
            return PreemptionCandidate(
                self._nodes.table.names[row],
                tuple(columns.pod(row, place) for place in chosen),
                int(costs[0, number]),
            )

        return PreemptionCandidates(costs, describe)


class _EmptiedNodes(NamedTuple):
    """Some nodes without their pods of lower priority, and these pods."""

    rows: NDArray[np.intp]
    matrix: PodMatrix
    amounts: Amounts  # [resource, place, node] of the removed pods, 0 where there is none
    requested: Amounts  # [resource, node]
    pod_count: NDArray[np.int64]
    nominated: _NominatedPods

    def subset(self, keep: NDArray[np.intp]) -> _EmptiedNodes:
        if len(keep) == len(self.rows):
            return self
        return _EmptiedNodes(
            self.rows[keep],
            self.matrix.subset(keep),
            self.amounts[:, :, keep],
            self.requested[:, keep],
            self.pod_count[keep],
            self.nominated.subset(keep, len(self.rows)),
        )


def _with_no_victims(verdicts: Rejections, without: Flags) -> Rejections:
    """Set the status of nodes without potential victims."""
    if not without.any():
        return verdicts
    codes = np.zeros(len(without), dtype=np.uint32) if verdicts.codes is None else verdicts.codes
    statuses = (*verdicts.statuses, NO_VICTIMS)
    return Rejections(np.where(without, np.uint32(len(statuses)), codes), statuses)


def _with_unneeded(
    verdicts: Rejections, places: NDArray[np.intp], rows: NDArray[np.intp], nodes: NodeView
) -> Rejections:
    codes = np.zeros(len(rows), dtype=np.uint32)
    if verdicts.codes is not None:
        codes[:] = verdicts.codes
    statuses = list(verdicts.statuses)
    for place in places.tolist():
        statuses.append(no_victim_needed(nodes.table.names[int(rows[place])]))
        codes[place] = len(statuses)
    return Rejections(codes, tuple(statuses))


def _labels(columns: PodColumns, number: int) -> tuple[str, dict[str, str]]:
    namespace, labels = columns.label_sets.values[number]
    return namespace, dict(labels)
