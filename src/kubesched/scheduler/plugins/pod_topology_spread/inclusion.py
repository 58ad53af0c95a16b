"""Which nodes count for a spread constraint.

docs/reference/06 §1.4, inclusion policies.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod, Taint, Toleration
from kubesched.api.node_selector import RequiredNodeAffinity
from kubesched.api.sized_caches import weight_of_texts
from kubesched.api.taints import first_untolerated
from kubesched.framework import NodeInfo, NodeView, PodIndex
from kubesched.scheduler.plugins.helpers.node_matching import match_required
from kubesched.scheduler.plugins.pod_topology_spread.spread_constraints import SpreadConstraint

__all__ = ["Inclusion"]


class Inclusion:
    """The rules that decide which nodes count for a pod's constraints.

    A node must have all labels in `keys` to count.
    """

    __slots__ = ("_affinity", "_comparing", "_keys", "_tolerations")

    def __init__(self, pod: Pod, keys: Sequence[str], comparing: bool) -> None:
        required = RequiredNodeAffinity.of(pod)
        is_free = required.selector is None and required.affinity is None
        self._affinity = None if is_free else required
        self._tolerations = pod.spec.tolerations
        self._keys = frozenset(keys)
        self._comparing = comparing  # tolerations may use Lt and Gt

    def accepts(self, constraint: SpreadConstraint, node: NodeInfo) -> bool:
        """Whether the constraint's policies include a node; does not check the keys."""
        assert node.node is not None
        if (
            constraint.honors_affinity
            and self._affinity is not None
            and not self._affinity.matches(node.labels, node.name)
        ):
            return False
        return not constraint.honors_taints or _tolerates_all(
            node.node.spec.taints, self._tolerations, self._comparing
        )

    def rule(self, constraint: SpreadConstraint) -> _InclusionRule | None:
        """Return the same rule for all rows.

        The result is None if every node with the topology key counts.
        """
        keys = self._keys - {constraint.topology_key}
        affinity = self._affinity if constraint.honors_affinity else None
        tolerations = self._tolerations if constraint.honors_taints else None
        if not keys and affinity is None and tolerations is None:
            return None
        return _InclusionRule(keys, affinity, tolerations, self._comparing)


class _InclusionRule(msgspec.Struct, frozen=True):
    """Required labels, node affinity, and tolerations if taints matter."""

    keys: frozenset[str]
    affinity: RequiredNodeAffinity | None
    tolerations: tuple[Toleration, ...] | None
    comparing: bool

    @property
    def weight(self) -> int:
        texts = list(self.keys)
        for each in self.tolerations or ():
            texts += (each.key, each.value)
        return weight_of_texts(texts) + (0 if self.affinity is None else self.affinity.weight)

    def on(self, index: PodIndex) -> _IncludedRows:
        return _IncludedRows(self, index)


class _IncludedRows:
    """The rows that a rule includes, with a version that changes when they may."""

    __slots__ = (
        "_columns",
        "_index",
        "_key_columns",
        "_names",
        "_rule",
    )

    def __init__(self, rule: _InclusionRule, index: PodIndex) -> None:
        self._rule = rule
        self._index = index
        table = index.table
        self._key_columns = [table.label_column(key) for key in sorted(rule.keys)]
        self._columns = list(self._key_columns)
        self._names: list[str] = []
        if rule.affinity is not None:
            keys, names = _read_by(rule.affinity)
            self._columns += [table.label_column(key) for key in sorted(keys)]
            self._names = sorted(names)

    def version(self) -> Hashable:
        table = self._index.table
        return (
            *[column.version for column in self._columns],
            *[table.row_of.get(name) for name in self._names],
            table.taint_version if self._rule.tolerations is not None else 0,
        )

    def mask(self) -> NDArray[np.bool_]:
        rule, table = self._rule, self._index.table
        mask = np.ones(table.capacity, dtype=bool)
        for column in self._key_columns:
            mask &= column.ids >= 0
        if rule.affinity is not None:
            live = table.live_rows
            mask[live] &= match_required(rule.affinity, NodeView(self._index, (), live))
        if rule.tolerations is not None:
            # Many nodes share one list of taints: evaluate each list once.
            is_tolerated = [
                _tolerates_all(taints, rule.tolerations, rule.comparing)
                for taints in table.taint_sets.values
            ]
            mask &= np.asarray(is_tolerated, dtype=bool).take(table.taint_set)
        return mask


def _read_by(required: RequiredNodeAffinity) -> tuple[set[str], set[str]]:
    """The label keys, and the node names, that the affinity depends on."""
    terms = () if required.affinity is None else required.affinity.terms
    selectors = [term.selector for term in terms]
    if required.selector is not None:
        selectors.append(required.selector)
    keys = {each.key for selector in selectors for each in selector.requirements}
    return keys, {field.value for term in terms for field in term.fields}


def _tolerates_all(
    taints: Sequence[Taint], tolerations: Sequence[Toleration], comparing: bool
) -> bool:
    return first_untolerated(taints, tolerations, comparison_operators=comparing) is None
