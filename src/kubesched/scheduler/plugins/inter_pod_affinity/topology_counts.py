"""Pod counts per topology key and value, with the changes of dry runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import NodeInfo, NodeView
from kubesched.framework.engine.domain_counts import DomainCounts

__all__ = ["TopologyCounts", "weighted_sum"]

Weighted = Sequence[tuple[DomainCounts, int]]


def weighted_sum(parts: Weighted, nodes: NodeView) -> NDArray[np.int64]:
    """Per node, the weighted counts of its domain.

    All parts have the same topology key.
    """
    first = parts[0][0]
    if first.is_per_row:
        return _add_up(parts, [nodes.at(counts.column) for counts, _ in parts])
    # Few domains, many nodes: add up per domain, then map domains to nodes.
    per_domain = _add_up(parts, [counts.counts for counts, _ in parts])
    return per_domain.take(nodes.at(first.domains.domain_of), mode="wrap")


def _add_up(parts: Weighted, columns: Sequence[NDArray[np.int64]]) -> NDArray[np.int64]:
    # Terms often occur in both directions, with one weight: they are multiplied together.
    by_weight: dict[int, NDArray[np.int64]] = {}
    for (_, weight), column in zip(parts, columns, strict=True):
        total = by_weight.get(weight)
        by_weight[weight] = column if total is None else total + column
    sums = [total if weight == 1 else total * weight for weight, total in by_weight.items()]
    return sums[0] if len(sums) == 1 else np.add.reduce(sums)


class TopologyCounts:
    """The number of pods in each domain of some topology keys.

    The base counts belong to the engine and describe the cluster. A dry run changes clones: a
    clone has few entries of its own and shares the base.
    """

    __slots__ = ("_base", "_changes", "_total")

    def __init__(self, parts: Iterable[DomainCounts] = ()) -> None:
        self._base: dict[str, list[DomainCounts]] = {}
        self._changes: dict[tuple[str, str], int] = {}
        self._total = 0
        for counts in parts:
            if counts.total:
                self._base.setdefault(counts.domains.key, []).append(counts)
                self._total += counts.total

    @property
    def is_empty(self) -> bool:
        """Whether no pod is counted in any domain."""
        return not self._total

    @property
    def keys(self) -> list[str]:
        """The topology keys that have counts, in a fixed order."""
        if not self._changes:
            return list(self._base)
        return list(dict.fromkeys((*self._base, *(key for key, _ in self._changes))))

    def get(self, key: str, value: str) -> int:
        count = self._changes.get((key, value), 0)
        for counts in self._base.get(key, ()):
            count += counts.of_value(value)
        return count

    def any_on(self, node: NodeInfo) -> bool:
        """Whether a pod is counted in one of the node's domains."""
        if not self._total:
            return False
        labels = node.labels
        return any(key in labels and self.get(key, labels[key]) > 0 for key in self.keys)

    def change(self, key: str, node: NodeInfo, step: int) -> None:
        """Add `step` to the count of the node's domain, if the node has the key."""
        value = node.labels.get(key)
        if value is not None:
            self._changes[key, value] = self._changes.get((key, value), 0) + step
            self._total += step

    def clone(self) -> TopologyCounts:
        copy = TopologyCounts.__new__(TopologyCounts)
        copy._base = self._base
        copy._changes = self._changes.copy()
        copy._total = self._total
        return copy

    def positive(self, key: str, nodes: NodeView) -> NDArray[np.bool_] | None:
        """Return per node whether its domain has a counted pod.

        The result is None if no domain of the key has one.
        """
        parts = self._base.get(key)
        changes = [(value, step) for (k, value), step in self._changes.items() if k == key]
        if parts is None and not changes:
            return None
        counts = (
            np.zeros(len(nodes), dtype=np.int64)
            if parts is None
            else weighted_sum([(counts, 1) for counts in parts], nodes)
        )
        for value, step in changes:
            counts = counts + step * nodes.label_equals(key, value)
        return counts > 0
