"""Hard constraints: no domain may be too far ahead of the emptiest (spec 06 §1.4 and §1.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.engine.domain_counts import DomainCounts, Domains
from kubesched.framework import SUCCESS, NodeInfo, NodeView, PodIndex, PodInfo, Rejections, Status
from kubesched.plugins.pod_topology_spread.constraints import Constraint
from kubesched.plugins.pod_topology_spread.inclusion import Inclusion

__all__ = ["LABEL_MISSING", "TOO_SKEWED", "HardSpread"]

TOO_SKEWED = Status.unschedulable("node(s) didn't match pod topology spread constraints")
LABEL_MISSING = Status.unresolvable(
    "node(s) didn't match pod topology spread constraints (missing required label)"
)
_STATUSES = (LABEL_MISSING, TOO_SKEWED)
_LABEL_MISSING_CODE, _TOO_SKEWED_CODE = 1, 2


class _Spread:
    """One constraint with its counts; a dry run changes copies of it."""

    __slots__ = (
        "_changes",
        "_lowest",
        "constraint",
        "counts",
        "inclusion",
        "labelled",
        "self_match",
    )

    constraint: Constraint
    inclusion: Inclusion
    counts: DomainCounts  # of the nodes that count
    labelled: Domains  # of all nodes, whether they count or not
    self_match: int
    _changes: dict[str, int]
    _lowest: int | None

    def clone(self) -> _Spread:
        copy = _Spread()
        copy.constraint = self.constraint
        copy.inclusion = self.inclusion
        copy.counts = self.counts
        copy.labelled = self.labelled
        copy.self_match = self.self_match
        copy._changes = self._changes.copy()
        copy._lowest = self._lowest
        return copy

    @classmethod
    def of(cls, constraint: Constraint, pod: Pod, inclusion: Inclusion, index: PodIndex) -> _Spread:
        spread = cls()
        spread.constraint = constraint
        spread.inclusion = inclusion
        key = constraint.topology_key
        spread.labelled = index.domains(key)
        spread.labelled.refresh()
        domains = index.domains(key, inclusion.rule(constraint))
        spread.counts = index.count(constraint.query).by_domain(domains)
        spread.self_match = int(constraint.selector.matches(pod.metadata.labels))
        spread._changes = {}
        spread._lowest = None
        return spread

    def change(self, other: Pod, node: NodeInfo, step: int) -> None:
        constraint = self.constraint
        if constraint.selector.matches(other.metadata.labels) and self.inclusion.accepts(
            constraint, node
        ):
            value = node.labels[constraint.topology_key]
            self._changes[value] = self._changes.get(value, 0) + step
            self._lowest = None

    @property
    def limit(self) -> int:
        """The largest count with which a domain may still take the pod."""
        return self.constraint.max_skew + self._minimum() - self.self_match

    def _minimum(self) -> int:
        if self._lowest is None:
            domains = self.counts.domains
            if len(domains.present) < self.constraint.min_domains:
                self._lowest = 0
            elif not self._changes:
                self._lowest = self.counts.minimum()
            else:
                self._lowest = int(self._changed_counts()[domains.present].min())
        return self._lowest

    def _changed_counts(self) -> NDArray[np.int64]:
        counts = self.counts.counts
        if self._changes:
            counts = counts.copy()
            for value, step in self._changes.items():
                counts[self.counts.domains.number_of(value)] += step
        return counts

    def count_in(self, value: str) -> int:
        return self.counts.of_value(value) + self._changes.get(value, 0)

    def codes(self, nodes: NodeView) -> NDArray[np.uint8] | None:
        """Per node what is wrong with it; None: nothing with any."""
        limit = self.limit
        if self.counts.is_per_row and not self._changes:
            skewed = nodes.at(self.counts.column) > limit
            return skewed.view(np.uint8) * np.uint8(_TOO_SKEWED_CODE) if skewed.any() else None
        per_domain = (self._changed_counts() > limit).view(np.uint8) * np.uint8(_TOO_SKEWED_CODE)
        per_domain[-1] = _LABEL_MISSING_CODE  # the domain of nodes without the label
        if self.labelled.covers_table and not per_domain[:-1].any():
            return None
        return per_domain.take(nodes.at(self.labelled.domain_of), mode="wrap")


class HardSpread:
    """What PreFilter notes: the pod's hard constraints and where they stand."""

    __slots__ = ("_keys", "_spreads")

    def __init__(self, spreads: Sequence[_Spread], keys: Sequence[str]) -> None:
        self._spreads = spreads
        self._keys = keys

    @classmethod
    def of(
        cls, constraints: Sequence[Constraint], pod: Pod, inclusion: Inclusion, index: PodIndex
    ) -> HardSpread:
        return cls(
            [_Spread.of(constraint, pod, inclusion, index) for constraint in constraints],
            [constraint.topology_key for constraint in constraints],
        )

    def clone(self) -> HardSpread:
        return HardSpread([spread.clone() for spread in self._spreads], self._keys)

    def change(self, pod: Pod, other: PodInfo, node: NodeInfo, step: int) -> None:
        """Count `other` on the node (`step` 1), or no longer (-1).

        Whether it was counted before is not asked: one that terminates was not, and is still
        taken off, as in the reference.
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
            value = labels.get(spread.constraint.topology_key)
            if value is None:
                return LABEL_MISSING
            if spread.count_in(value) > spread.limit:
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
