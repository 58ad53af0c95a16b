"""Soft constraints: prefer nodes in emptier domains.

docs/reference/06 §1.6 and §1.7.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import MAX_NODE_SCORE, NodeInfo, NodeView
from kubesched.framework.engine.domain_counts import DomainCounts, Domains, RowCounts
from kubesched.scheduler.plugins.pod_topology_spread.inclusion import Inclusion
from kubesched.scheduler.plugins.pod_topology_spread.spread_constraints import SpreadConstraint

__all__ = ["HOSTNAME", "SoftSpread"]

HOSTNAME = "kubernetes.io/hostname"

_LARGEST_IN_TABLE = 1024

Mask = NDArray[np.bool_]
S = TypeVar("S", bound=np.generic)


class _Spread:
    """One constraint: the weighted number of matching pods in each domain."""

    __slots__ = ("_base", "_constraint", "_domains", "_pods", "_weight", "per_domain")

    def __init__(
        self,
        constraint: SpreadConstraint,
        domains: Domains,
        size: int,
        pods: RowCounts,
        counts: DomainCounts | None,
    ) -> None:
        self._constraint = constraint
        self._domains = domains  # of all nodes, whether or not they count
        self._pods = pods
        self._weight = math.log(size + 2)
        self._base = float(constraint.max_skew - 1)
        # float64[domain]; None for hostname, where each node is its own domain.
        self.per_domain: NDArray[np.float64] | None = None
        if counts is not None:
            per_domain = counts.counts * np.float64(self._weight)
            per_domain += self._base
            per_domain[-1] = 0.0  # nodes without the label
            self.per_domain = per_domain

    def score(self, node: NodeInfo) -> float:
        constraint = self._constraint
        value = node.labels.get(constraint.topology_key)
        if value is None:
            return 0.0
        if self.per_domain is not None:
            return float(self.per_domain[self._domains.number_of(value)])
        return constraint.count_on(node) * self._weight + self._base

    def scores(self, nodes: NodeView) -> NDArray[np.float64]:
        if self.per_domain is not None:
            return self.per_node(self.per_domain, nodes)
        scores: NDArray[np.float64] = nodes.at(self._pods.column) * np.float64(self._weight)
        scores += self._base
        if not self._domains.covers_table:
            scores[nodes.at(self._domains.domain_of) < 0] = 0.0
        return scores

    def per_node(self, per_domain: NDArray[S], nodes: NodeView) -> NDArray[S]:
        """Return the value of each node's domain."""
        return per_domain.take(nodes.at(self._domains.domain_of), mode="wrap")


class SoftSpread:
    """The PreScore state: the pod's soft constraints and their counts.

    With `require_all`, nodes that lack one of the topology keys are ignored: they score 0.
    """

    __slots__ = ("_incomplete", "_keys", "_spreads")

    def __init__(
        self,
        constraints: Sequence[SpreadConstraint],
        inclusion: Inclusion,
        nodes: NodeView,
        require_all: bool,
    ) -> None:
        index = nodes.pods
        split = [index.domains(each.topology_key) for each in constraints]
        for domains in split:
            domains.refresh()
        self._keys = [each.topology_key for each in constraints] if require_all else []
        self._incomplete = [each for each in split if require_all and not each.covers_table]
        ignored = self._ignored(nodes)
        self._spreads: list[_Spread] = []
        for constraint, domains in zip(constraints, split, strict=True):
            pods = index.count(constraint.query)
            counts = None
            if constraint.topology_key == HOSTNAME:
                size = len(nodes) - (0 if ignored is None else int(np.count_nonzero(ignored)))
            else:
                size = _domains_among(nodes, domains, ignored)
                counting = index.domains(
                    constraint.topology_key,
                    inclusion.rule(constraint),
                    missing_as_empty=not require_all and not domains.covers_table,
                )
                counts = pods.by_domain(counting)
            self._spreads.append(_Spread(constraint, domains, size, pods, counts))

    def _ignored(self, nodes: NodeView) -> Mask | None:
        """Per node, whether it is ignored; None if no node is."""
        ignored: Mask | None = None
        for domains in self._incomplete:
            lacking = nodes.at(domains.domain_of) < 0
            ignored = lacking if ignored is None else ignored | lacking
        return ignored

    def score(self, node: NodeInfo) -> int:
        labels = node.labels
        if not all(key in labels for key in self._keys):
            return 0
        total = 0.0
        for spread in self._spreads:
            total += spread.score(node)
        return int(total + 0.5)  # see `_rounded`

    def scores(self, nodes: NodeView) -> NDArray[np.int64]:
        first, *others = self._spreads
        if not others and first.per_domain is not None:
            # Few domains, many nodes: round per domain, then map domains to nodes.
            scores = first.per_node(_rounded(first.per_domain), nodes)
        else:
            total = first.scores(nodes)
            for spread in others:
                total += spread.scores(nodes)
            scores = _rounded(total)
        ignored = self._ignored(nodes)
        if ignored is not None:
            scores[ignored] = 0
        return scores

    def normalized(self, nodes: NodeView, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Reverse the scores: the emptiest node gets 100, an ignored node 0."""
        ignored = self._ignored(nodes)
        counted = scores if ignored is None else scores[~ignored]
        if not len(counted):
            return np.zeros_like(scores)
        lowest, highest = int(counted.min()), int(counted.max())
        if highest <= _LARGEST_IN_TABLE:
            reversed_scores = _reversed_up_to(highest, lowest).take(scores, mode="clip")
        else:
            reversed_scores = _reversed(scores, highest, lowest)
        if ignored is not None:
            reversed_scores[ignored] = 0
        return reversed_scores


def _domains_among(nodes: NodeView, domains: Domains, ignored: Mask | None) -> int:
    """The number of domains of the nodes that are not ignored.

    No label counts as a domain.
    """
    if ignored is None and len(nodes) == len(nodes.table) and domains.covers_table:
        return len(domains.present)
    domain_of = nodes.at(domains.domain_of)
    if ignored is not None:
        domain_of = domain_of[~ignored]
    found = np.bincount(domain_of + 1, minlength=1)  # nodes without the label at index 0
    number = int(np.count_nonzero(found))
    empty = domains.number_of("") + 1
    if found[0] and 0 < empty < len(found) and found[empty]:
        number -= 1  # an absent label and an empty value are the same domain
    return number


def _reversed(scores: NDArray[np.int64], highest: int, lowest: int) -> NDArray[np.int64]:
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE)
    result = (highest + lowest) - scores
    result *= MAX_NODE_SCORE
    result //= highest
    return result


@lru_cache(maxsize=1024)
def _reversed_up_to(highest: int, lowest: int) -> NDArray[np.int64]:
    """The results for all scores up to `highest`.

    A table lookup is cheaper than a division.
    """
    return _reversed(np.arange(highest + 1, dtype=np.int64), highest, lowest)


def _rounded(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round half up, as the reference does; NumPy rounds half to even.

    Values are 0 or at least ln 3. Adding a half would round up wrongly only for the largest float
    below one half.
    """
    return (values + 0.5).astype(np.int64)
