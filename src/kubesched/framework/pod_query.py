"""Queries for pods on nodes, as hashable keys of the pod index."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.api import Pod
from kubesched.api.labels import Selector
from kubesched.api.pod_facts import is_terminating

__all__ = ["Anchor", "Condition", "PodQuery", "anchor_of"]

# Namespaces (None: all of them) and a selector over labels.
Condition = tuple[frozenset[str] | None, Selector]

# A label, key and value, that every match of a selector has.
Anchor = tuple[str, str]


def anchor_of(selector: Selector) -> Anchor | None:
    """Return a label that every match has; None if the selector requires none."""
    for requirement in selector.requirements:
        if requirement.operator in ("in", "=", "==") and len(requirement.values) == 1:
            return requirement.key, requirement.values[0]
    return None


class PodQuery:
    """Selects the pods that meet every condition."""

    __slots__ = ("_hash", "anchor", "conditions", "namespaces", "with_terminating")

    def __init__(self, conditions: Iterable[Condition], with_terminating: bool = True) -> None:
        self.conditions = tuple(conditions)
        self.with_terminating = with_terminating
        self.anchor: Anchor | None = None
        self.namespaces: frozenset[str] | None = None  # outside of these nothing matches
        for namespaces, selector in self.conditions:
            if selector.is_nothing:
                namespaces = frozenset()
            if namespaces is not None:
                self.namespaces = (
                    namespaces if self.namespaces is None else self.namespaces & namespaces
                )
            self.anchor = self.anchor or anchor_of(selector)
        # Read for every pod, and the conditions are slow to hash.
        self._hash = hash((self.conditions, with_terminating))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, PodQuery)
            and self._hash == other._hash
            and self.with_terminating == other.with_terminating
            and self.conditions == other.conditions
        )

    def matches(self, namespace: str, labels: Mapping[str, str], is_terminating: bool) -> bool:
        if is_terminating and not self.with_terminating:
            return False
        return all(
            (namespaces is None or namespace in namespaces) and selector.matches(labels)
            for namespaces, selector in self.conditions
        )

    def matches_pod(self, pod: Pod) -> bool:
        metadata = pod.metadata
        return self.matches(metadata.namespace, metadata.labels, is_terminating(pod))
