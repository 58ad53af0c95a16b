"""Preferred affinity and anti-affinity, in both directions.

docs/reference/06 §2.5 and §2.6.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Namespace
from kubesched.framework import Lister, NodeInfo, NodeView, PodIndex, PodInfo
from kubesched.framework.engine.domain_counts import DomainCounts
from kubesched.framework.pod_index import TermKind
from kubesched.framework.pod_query import PodQuery
from kubesched.scheduler.plugins.inter_pod_affinity.incoming_terms import (
    labels_of_namespace,
    resolve_namespaces,
)
from kubesched.scheduler.plugins.inter_pod_affinity.topology_counts import weighted_sum

__all__ = ["Preferences"]

_REQUIRED = TermKind.REQUIRED_AFFINITY
_SCORED_KINDS = (
    (_REQUIRED, 1),
    (TermKind.PREFERRED_AFFINITY, 1),
    (TermKind.PREFERRED_ANTI_AFFINITY, -1),
)


class Preferences:
    """The PreScore state: per topology key, the counts that make up scores."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[DomainCounts, int]]] = {}

    @classmethod
    def of(
        cls,
        pod_info: PodInfo,
        index: PodIndex,
        namespaces: Lister[Namespace] | None,
        hard_weight: int,
    ) -> Preferences | None:
        """Read the counts from the index; None if no node's score is affected."""
        found = cls()
        found._add_incoming(pod_info, index, namespaces)
        if index.has_terms:
            found._add_existing(pod_info, index, namespaces, hard_weight)
        return found if found._parts else None

    def _add_incoming(
        self, pod_info: PodInfo, index: PodIndex, namespaces: Lister[Namespace] | None
    ) -> None:
        """Add the counts of pods that the preferred terms of the incoming pod match."""
        for weighted_terms, sign in (
            (pod_info.preferred_affinity_terms, 1),
            (pod_info.preferred_anti_affinity_terms, -1),
        ):
            for weighted in weighted_terms:
                term = resolve_namespaces(weighted.term, namespaces)
                domains = index.domains(term.topology_key)
                counts = index.count(PodQuery((term.condition,))).by_domain(domains)
                self._add(counts, sign * weighted.weight)

    def _add_existing(
        self,
        pod_info: PodInfo,
        index: PodIndex,
        namespaces: Lister[Namespace] | None,
        hard_weight: int,
    ) -> None:
        """Add the counts of pods whose terms match the incoming pod."""
        pod = pod_info.pod
        labels = labels_of_namespace(pod.metadata.namespace, namespaces)
        terms = index.terms_about(pod, labels)
        for kind, sign in _SCORED_KINDS:
            is_required = kind is _REQUIRED
            if is_required and not hard_weight:
                continue
            for carried in terms[kind]:
                weight = hard_weight if is_required else sign * carried.weight
                domains = index.domains(carried.term.topology_key)
                self._add(index.count(carried).by_domain(domains), weight)

    def _add(self, counts: DomainCounts, weight: int) -> None:
        if counts.total:
            self._parts.setdefault(counts.domains.key, []).append((counts, weight))

    def score(self, node: NodeInfo) -> int:
        labels = node.labels
        return sum(
            counts.of_value(labels[key]) * weight
            for key, parts in self._parts.items()
            if key in labels
            for counts, weight in parts
        )

    def scores(self, nodes: NodeView) -> NDArray[np.int64]:
        total: NDArray[np.int64] | None = None
        for parts in self._parts.values():
            scores = weighted_sum(parts, nodes)
            total = scores if total is None else total + scores
        assert total is not None
        return total
