"""Required affinity and anti-affinity, in both directions.

docs/reference/06 §2.3 and §2.4.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Namespace, Pod
from kubesched.framework import (
    SUCCESS,
    Lister,
    NodeInfo,
    NodeView,
    PodIndex,
    PodInfo,
    Rejections,
    Status,
)
from kubesched.framework.causes import (
    ExistingPodAntiAffinityViolated,
    PodAffinityUnmet,
    PodAntiAffinityViolated,
)
from kubesched.framework.pod_index import TermKind
from kubesched.framework.pod_query import PodQuery
from kubesched.scheduler.plugins.inter_pod_affinity.incoming_terms import (
    IncomingTerm,
    labels_of_namespace,
    matches_all,
    resolve_namespaces,
)
from kubesched.scheduler.plugins.inter_pod_affinity.topology_counts import TopologyCounts

__all__ = [
    "AFFINITY_UNMET",
    "ANTI_AFFINITY_VIOLATED",
    "EXISTING_ANTI_AFFINITY_VIOLATED",
    "RequiredTerms",
]

AFFINITY_UNMET = Status.unresolvable(
    "node(s) didn't match pod affinity rules", causes=(PodAffinityUnmet(),)
)
ANTI_AFFINITY_VIOLATED = Status.unschedulable(
    "node(s) didn't match pod anti-affinity rules", causes=(PodAntiAffinityViolated(),)
)
EXISTING_ANTI_AFFINITY_VIOLATED = Status.unschedulable(
    "node(s) didn't satisfy existing pods anti-affinity rules",
    causes=(ExistingPodAntiAffinityViolated(),),
)
_APART = TermKind.REQUIRED_ANTI_AFFINITY
_STATUSES = (AFFINITY_UNMET, ANTI_AFFINITY_VIOLATED, EXISTING_ANTI_AFFINITY_VIOLATED)


class RequiredTerms:
    """The PreFilter state: required terms, and counts of matching pods.

    `affinity` counts pods that match all affinity terms of the pod. `anti_affinity` counts pods
    that match one of its anti-affinity terms. `existing` counts pods that have an anti-affinity
    term which matches the pod.
    """

    __slots__ = (
        "affinity",
        "affinity_terms",
        "anti_affinity",
        "anti_affinity_terms",
        "existing",
        "namespace_labels",
        "satisfies_itself",
    )

    affinity_terms: tuple[IncomingTerm, ...]
    anti_affinity_terms: tuple[IncomingTerm, ...]
    namespace_labels: Mapping[str, str]
    satisfies_itself: bool
    affinity: TopologyCounts
    anti_affinity: TopologyCounts
    existing: TopologyCounts

    @classmethod
    def of(
        cls,
        pod_info: PodInfo,
        index: PodIndex,
        namespaces: Lister[Namespace] | None,
        *,
        has_nominated_terms: bool = False,
    ) -> RequiredTerms | None:
        """Read the counts from the index; None if every node passes.

        With `has_nominated_terms`, there may be pods with terms that are not in the index. The
        search adds them with `change`.
        """
        pod = pod_info.pod
        near, apart = pod_info.required_affinity_terms, pod_info.required_anti_affinity_terms
        others_are_apart = index.has_terms_of(_APART)
        if not (near or apart or others_are_apart or has_nominated_terms):
            return None
        labels = labels_of_namespace(pod.metadata.namespace, namespaces)
        existing = TopologyCounts()
        if others_are_apart:
            existing = TopologyCounts(
                index.count(carried).by_domain(index.domains(carried.term.topology_key))
                for carried in index.terms_about(pod, labels)[_APART]
            )
        if existing.is_empty and not near and not apart and not has_nominated_terms:
            return None
        terms = cls()
        terms.namespace_labels = labels
        terms.existing = existing
        terms.affinity_terms = tuple(resolve_namespaces(term, namespaces) for term in near)
        terms.anti_affinity_terms = tuple(resolve_namespaces(term, namespaces) for term in apart)
        terms.satisfies_itself = matches_all(terms.affinity_terms, pod)
        terms._count(index)
        return terms

    def _count(self, index: PodIndex) -> None:
        near = TopologyCounts()
        if self.affinity_terms:
            satisfying = index.count(PodQuery(term.condition for term in self.affinity_terms))
            # Terms with the same key are counted once: only zero and non-zero matter.
            keys = dict.fromkeys(term.topology_key for term in self.affinity_terms)
            near = TopologyCounts(satisfying.by_domain(index.domains(key)) for key in keys)
        self.affinity = near
        self.anti_affinity = TopologyCounts(
            index.count(PodQuery((term.condition,))).by_domain(index.domains(term.topology_key))
            for term in self.anti_affinity_terms
        )

    def clone(self) -> RequiredTerms:
        copy = RequiredTerms()
        copy.affinity_terms = self.affinity_terms
        copy.anti_affinity_terms = self.anti_affinity_terms
        copy.namespace_labels = self.namespace_labels
        copy.satisfies_itself = self.satisfies_itself
        copy.affinity = self.affinity.clone()
        copy.anti_affinity = self.anti_affinity.clone()
        copy.existing = self.existing.clone()
        return copy

    def concerns(self, pod: Pod, other: PodInfo) -> bool:
        """Whether adding or removing `other` can change a verdict."""
        return (
            any(
                term.matches(pod, self.namespace_labels)
                for term in other.required_anti_affinity_terms
            )
            or matches_all(self.affinity_terms, other.pod)
            or any(incoming.matches(other.pod) for incoming in self.anti_affinity_terms)
        )

    def change(self, pod: Pod, other: PodInfo, node: NodeInfo, step: int) -> None:
        """Add `other` to the counts of its node (`step` 1), or remove it (-1)."""
        for term in other.required_anti_affinity_terms:
            if term.matches(pod, self.namespace_labels):
                self.existing.change(term.topology_key, node, step)
        if matches_all(self.affinity_terms, other.pod):
            for key in dict.fromkeys(term.topology_key for term in self.affinity_terms):
                self.affinity.change(key, node, step)
        for incoming in self.anti_affinity_terms:
            if incoming.matches(other.pod):
                self.anti_affinity.change(incoming.topology_key, node, step)

    def verdict(self, node: NodeInfo) -> Status:
        if not self._affinity_met(node):
            return AFFINITY_UNMET
        if self.anti_affinity.any_on(node):
            return ANTI_AFFINITY_VIOLATED
        if self.existing.any_on(node):
            return EXISTING_ANTI_AFFINITY_VIOLATED
        return SUCCESS

    def _affinity_met(self, node: NodeInfo) -> bool:
        labels = node.labels
        keys = [term.topology_key for term in self.affinity_terms]
        if not all(key in labels for key in keys):
            return False
        return self._is_first_match or all(self.affinity.get(key, labels[key]) > 0 for key in keys)

    @property
    def _is_first_match(self) -> bool:
        """Whether no pod matches yet but the pod itself would.

        The first pod must fit somewhere.
        """
        return self.affinity.is_empty and self.satisfies_itself

    def verdicts(self, nodes: NodeView) -> Rejections:
        existing = _any_on(self.existing, nodes)
        apart = _any_on(self.anti_affinity, nodes)
        unmet = self._affinity_unmet(nodes)
        if unmet is None and apart is None and existing is None:
            return Rejections.none()
        codes = np.zeros(len(nodes), dtype=np.uint8)
        # The first rule that fails decides, so it is assigned last.
        for code, rejected in ((3, existing), (2, apart), (1, unmet)):
            if rejected is not None:
                np.putmask(codes, rejected, code)
        return Rejections(codes, _STATUSES)

    def _affinity_unmet(self, nodes: NodeView) -> NDArray[np.bool_] | None:
        if not self.affinity_terms:
            return None
        met: NDArray[np.bool_] | None = None
        for key in dict.fromkeys(term.topology_key for term in self.affinity_terms):
            if self._is_first_match:
                holds = nodes.has_label(key)
            else:
                positive = self.affinity.positive(key, nodes)
                if positive is None:
                    return np.ones(len(nodes), dtype=bool)
                holds = positive  # False for nodes without the label
            met = holds if met is None else met & holds
        assert met is not None
        return ~met


def _any_on(counts: TopologyCounts, nodes: NodeView) -> NDArray[np.bool_] | None:
    """Return per node whether one of its domains has a counted pod; None if no node's has."""
    if counts.is_empty:
        return None
    found: NDArray[np.bool_] | None = None
    for key in counts.keys:
        positive = counts.positive(key, nodes)
        if positive is not None:
            found = positive if found is None else found | positive
    return found
