"""The terms of the incoming pod, with their namespace selectors resolved.

docs/reference/06 §2.2. Namespace labels are read once, here. The resulting term is a condition on
namespace and labels that the pod index can count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from kubesched.api import Namespace, Pod
from kubesched.framework import AffinityTerm, Lister
from kubesched.framework.pod_query import Condition

__all__ = ["IncomingTerm", "labels_of_namespace", "matches_all", "resolve_namespaces"]

_NO_LABELS: Mapping[str, str] = {}


class IncomingTerm(msgspec.Struct, frozen=True):
    """A topology key, and a condition on the pods that must or must not be there."""

    topology_key: str
    condition: Condition

    def matches(self, pod: Pod) -> bool:
        namespaces, selector = self.condition
        metadata = pod.metadata
        return (namespaces is None or metadata.namespace in namespaces) and selector.matches(
            metadata.labels
        )


def resolve_namespaces(term: AffinityTerm, namespaces: Lister[Namespace] | None) -> IncomingTerm:
    """Replace the namespace selector by the namespaces that it selects.

    As in the reference, the selector is then also matched against an empty set of labels. A
    selector of NotIn and DoesNotExist alone matches it, and so selects every namespace.
    """
    selector = term.namespace_selector
    if selector.matches(_NO_LABELS):
        return IncomingTerm(term.topology_key, (None, term.selector))
    names = term.namespaces
    if not selector.is_nothing and namespaces is not None:
        names = names.union(
            namespace.metadata.name
            for namespace in namespaces.list()
            if selector.matches(namespace.metadata.labels)
        )
    return IncomingTerm(term.topology_key, (names, term.selector))


def matches_all(terms: Sequence[IncomingTerm], pod: Pod) -> bool:
    """Whether there are terms and the pod matches all of them."""
    return bool(terms) and all(term.matches(pod) for term in terms)


def labels_of_namespace(name: str, namespaces: Lister[Namespace] | None) -> Mapping[str, str]:
    """The labels of a namespace; empty if there is no such namespace."""
    found = None if namespaces is None else namespaces.get(name)
    return _NO_LABELS if found is None else found.metadata.labels
