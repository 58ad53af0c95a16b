"""Hard constraints: limit the number of pods by which a domain exceeds the emptiest one.

docs/reference/06 §1.4 and §1.5.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import SUCCESS, NodeInfo, NodeView, PodIndex, PodInfo, Rejections, Status
from kubesched.framework.causes import TopologyLabelMissing, TopologySkewExceeded
from kubesched.scheduler.plugins.pod_topology_spread.inclusion import Inclusion
from kubesched.scheduler.plugins.pod_topology_spread.spread_constraints import SpreadConstraint

__all__ = ["LABEL_MISSING", "TOO_SKEWED", "HardSpread"]

TOO_SKEWED = Status.unschedulable(
    "node(s) didn't match pod topology spread constraints", causes=(TopologySkewExceeded(),)
)
LABEL_MISSING = Status.unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)",
    causes=(TopologyLabelMissing(),),
)
_STATUSES = (LABEL_MISSING, TOO_SKEWED)
_LABEL_MISSING_CODE, _TOO_SKEWED_CODE = 1, 2

# A dry run changes few domains, so the minimum is almost always among the emptiest 16.
_EMPTIEST_KEPT = 16


class _ConstraintCounts:
    """The counts of one constraint in the cluster.

    Dry runs share it and do not change it.
    """

    __slots__ = ("_emptiest", "_minimum", "constraint", "counts", "inclusion", "labelled", "slack")

    def __init__(
        self, constraint: SpreadConstraint, pod: Pod, inclusion: Inclusion, index: PodIndex
    ) -> None:
        key = constraint.topology_key
        self.constraint = constraint
        self.inclusion = inclusion
        self.labelled = index.domains(key)  # of all nodes, whether or not they count
        self.labelled.refresh()
        domains = index.domains(key, inclusion.rule(constraint))
        self.counts = index.count(constraint.query).by_domain(domains)
        # How far a domain may exceed the minimum before the pod is added.
        self.slack = constraint.max_skew - constraint.selector.matches(pod.metadata.labels)
        self._minimum: int | None = None
        self._emptiest: list[tuple[int, int]] | None = None

    @property
    def has_too_few_domains(self) -> bool:
        """Whether there are fewer than `minDomains`; the minimum is then 0."""
        return len(self.counts.domains.present) < self.constraint.min_domains

    def minimum(self) -> int:
        if self._minimum is None:
            self._minimum = 0 if self.has_too_few_domains else self.counts.minimum()
        return self._minimum

    def minimum_with(self, changes: Mapping[int, int]) -> int:
        """Return the minimum after adding these changes to the counts of domains."""
        if self.has_too_few_domains:
            return 0
        counts = self.counts.counts
        lowest = min(int(counts[number]) + step for number, step in changes.items())
        emptiest = self._emptiest_domains()
        for count, number in emptiest:
            if count >= lowest:
                return lowest
            if number not in changes:
                return count
        if len(emptiest) == len(self.counts.domains.present):
            return lowest
        changed = counts.copy()
        for number, step in changes.items():
            changed[number] += step
        return int(changed[self.counts.domains.present].min())

    def _emptiest_domains(self) -> list[tuple[int, int]]:
        """Count and number of the emptiest domains, emptiest first."""
        if self._emptiest is None:
            present = self.counts.domains.present
            counts = self.counts.counts[present]
            few = min(_EMPTIEST_KEPT, len(present))
            chosen = np.argpartition(counts, few - 1)[:few]
            self._emptiest = sorted(
                zip(counts[chosen].tolist(), present[chosen].tolist(), strict=True)
            )
        return self._emptiest


class _Spread:
    """One constraint, with the changes that a dry run made."""

    __slots__ = ("_changes", "_limit", "cluster_counts")

    def __init__(
        self, cluster_counts: _ConstraintCounts, changes: dict[int, int], limit: int | None
    ) -> None:
        self.cluster_counts = cluster_counts
        self._changes = changes  # domain -> added minus removed pods
        self._limit = limit

    def clone(self) -> _Spread:
        return _Spread(self.cluster_counts, self._changes.copy(), self._limit)

    def change(self, other: Pod, node: NodeInfo, step: int) -> None:
        cluster_counts = self.cluster_counts
        constraint = cluster_counts.constraint
        if not constraint.selector.matches(other.metadata.labels):
            return
        if cluster_counts.inclusion.accepts(constraint, node):
            number = cluster_counts.labelled.number_of(node.labels[constraint.topology_key])
            self._changes[number] = self._changes.get(number, 0) + step
            self._limit = None

    @property
    def limit(self) -> int:
        """The largest count at which a domain can still accept the pod."""
        if self._limit is None:
            cluster_counts, changes = self.cluster_counts, self._changes
            minimum = cluster_counts.minimum_with(changes) if changes else cluster_counts.minimum()
            self._limit = minimum + cluster_counts.slack
        return self._limit

    def is_too_full(self, value: str) -> bool:
        """Whether the domain with this value cannot accept the pod."""
        count = self.cluster_counts.counts.of_value(value)
        if self._changes:
            count += self._changes.get(self.cluster_counts.labelled.number_of(value), 0)
        return count > self.limit

    def codes(self, nodes: NodeView) -> NDArray[np.uint8] | None:
        """Return the code of each node's problem; None if no node has one."""
        limit, changes = self.limit, self._changes
        counts, labelled = self.cluster_counts.counts, self.cluster_counts.labelled
        if counts.is_per_row and not changes:
            skewed = nodes.at(counts.column) > limit
            return skewed.view(np.uint8) * np.uint8(_TOO_SKEWED_CODE) if skewed.any() else None
        per_domain = (counts.counts > limit).view(np.uint8) * np.uint8(_TOO_SKEWED_CODE)
        for number, step in changes.items():
            is_too_full = int(counts.counts[number]) + step > limit
            per_domain[number] = _TOO_SKEWED_CODE if is_too_full else 0
        per_domain[-1] = _LABEL_MISSING_CODE  # the domain of nodes without the label
        if labelled.covers_table and not per_domain[:-1].any():
            return None
        return per_domain.take(nodes.at(labelled.domain_of), mode="wrap")


class HardSpread:
    """The PreFilter state: the pod's hard constraints and their counts."""

    __slots__ = ("_keys", "_spreads")

    def __init__(self, spreads: Sequence[_Spread], keys: Sequence[str]) -> None:
        self._spreads = spreads
        self._keys = keys

    @classmethod
    def of(
        cls,
        constraints: Sequence[SpreadConstraint],
        pod: Pod,
        inclusion: Inclusion,
        index: PodIndex,
    ) -> HardSpread:
        return cls(
            [
                _Spread(_ConstraintCounts(constraint, pod, inclusion, index), {}, None)
                for constraint in constraints
            ],
            [constraint.topology_key for constraint in constraints],
        )

    def clone(self) -> HardSpread:
        return HardSpread([spread.clone() for spread in self._spreads], self._keys)

    def concerns(self, pod: Pod, other: PodInfo) -> bool:
        """Whether adding or removing `other` can change a verdict."""
        metadata = other.pod.metadata
        return metadata.namespace == pod.metadata.namespace and any(
            spread.cluster_counts.constraint.selector.matches(metadata.labels)
            for spread in self._spreads
        )

    def change(self, pod: Pod, other: PodInfo, node: NodeInfo, step: int) -> None:
        """Add `other` to the counts of its node (`step` 1), or remove it (-1).

        Does not check whether `other` was counted: removing a terminating pod, which is not
        counted, still lowers the count, as in the reference.
        """
        if other.pod.metadata.namespace != pod.metadata.namespace:
            return
        labels = node.labels
        if all(key in labels for key in self._keys):
            for spread in self._spreads:
                spread.change(other.pod, node, step)

    def verdict(self, node: NodeInfo) -> Status:
        labels = node.labels
        for spread in self._spreads:
            value = labels.get(spread.cluster_counts.constraint.topology_key)
            if value is None:
                return LABEL_MISSING
            if spread.is_too_full(value):
                return TOO_SKEWED
        return SUCCESS

    def verdicts(self, nodes: NodeView) -> Rejections:
        codes: NDArray[np.uint8] | None = None
        for spread in self._spreads:
            found = spread.codes(nodes)
            if found is not None:
                # The first constraint that fails decides.
                codes = found if codes is None else np.where(codes == 0, found, codes)
        return Rejections.none() if codes is None else Rejections(codes, _STATUSES)
