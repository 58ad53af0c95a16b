"""Inter-pod affinity terms in the form that plugins and the engine match with.

docs/reference/04 §3.1 and 06 §2.2.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from kubesched.api import Pod, PodAffinityTerm, WeightedPodAffinityTerm
from kubesched.api.labels import NOTHING, Selector

__all__ = ["AffinityTerm", "WeightedAffinityTerm", "parse_terms", "parse_weighted_terms"]


class AffinityTerm(msgspec.Struct, frozen=True):
    """The pods that a term selects, and the node label whose values are its domains."""

    namespaces: frozenset[str]
    selector: Selector
    topology_key: str
    namespace_selector: Selector = NOTHING

    def matches(self, pod: Pod, namespace_labels: Mapping[str, str]) -> bool:
        metadata = pod.metadata
        return (
            metadata.namespace in self.namespaces
            or self.namespace_selector.matches(namespace_labels)
        ) and self.selector.matches(metadata.labels)


class WeightedAffinityTerm(msgspec.Struct, frozen=True):
    term: AffinityTerm
    weight: int


def parse_term(term: PodAffinityTerm, owner_namespace: str) -> AffinityTerm:
    """Build the term of a pod.

    Raises:
        SelectorError: a selector in the term is invalid.
    """
    if not term.namespaces and term.namespace_selector is None:
        namespaces = frozenset({owner_namespace})
    else:
        namespaces = frozenset(term.namespaces)
    return AffinityTerm(
        namespaces=namespaces,
        selector=Selector.from_label_selector(term.label_selector),
        topology_key=term.topology_key,
        namespace_selector=Selector.from_label_selector(term.namespace_selector),
    )


def parse_terms(
    terms: tuple[PodAffinityTerm, ...], owner_namespace: str
) -> tuple[AffinityTerm, ...]:
    return tuple(parse_term(term, owner_namespace) for term in terms)


def parse_weighted_terms(
    terms: tuple[WeightedPodAffinityTerm, ...], owner_namespace: str
) -> tuple[WeightedAffinityTerm, ...]:
    return tuple(
        WeightedAffinityTerm(parse_term(term.pod_affinity_term, owner_namespace), term.weight)
        for term in terms
    )
