"""Spread constraints in the form that filtering and scoring use (docs/reference/06 §1.2).

Pods of one workload bring the same constraints again and again, so what was made of them is
remembered by content.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kubesched.api import LabelSelector, Pod, TopologySpreadConstraint
from kubesched.api.labels import NOTHING, Selector
from kubesched.framework import NodeInfo
from kubesched.framework.pod_query import PodQuery

__all__ = [
    "DO_NOT_SCHEDULE",
    "SCHEDULE_ANYWAY",
    "SpreadConstraint",
    "SpreadConstraintReader",
    "selector_key",
]

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"

_HONOR = "Honor"
_IGNORE = "Ignore"

_REMEMBERED = 4096

# An empty selector matches every pod but is counted as if there were none.
_NO_PODS = PodQuery([(frozenset(), NOTHING)])


class SpreadConstraint:
    """One constraint of a pod. Equal constraints of equal pods are one object."""

    __slots__ = (
        "honors_affinity",
        "honors_taints",
        "max_skew",
        "min_domains",
        "query",
        "selector",
        "topology_key",
    )

    def __init__(self, given: TopologySpreadConstraint, selector: Selector, namespace: str) -> None:
        self.max_skew = given.max_skew
        self.topology_key = given.topology_key
        self.min_domains = 1 if given.min_domains is None else given.min_domains
        self.honors_affinity = (given.node_affinity_policy or _HONOR) == _HONOR
        self.honors_taints = (given.node_taints_policy or _IGNORE) == _HONOR
        self.selector = selector
        self.query = _NO_PODS  # which pods on the nodes count
        if not selector.is_empty:
            condition = (frozenset({namespace}), selector)
            self.query = PodQuery([condition], with_terminating=False)

    def count_on(self, node: NodeInfo) -> int:
        """How many pods on one node count."""
        return sum(map(self.query.matches_pod, (pod_info.pod for pod_info in node.pods)))


class SpreadConstraintReader:
    """Makes constraints of what pods say."""

    def __init__(self, merges_match_label_keys: bool = True) -> None:
        self._merges = merges_match_label_keys
        self._remembered: dict[Hashable, tuple[SpreadConstraint, ...]] = {}

    def read(
        self, pod: Pod, given: Sequence[TopologySpreadConstraint], action: str
    ) -> tuple[SpreadConstraint, ...]:
        """The constraints with this action (`whenUnsatisfiable`), in order.

        Raises:
            SelectorError: a label selector cannot be built.
        """
        wanted = [each for each in given if each.when_unsatisfiable == action]
        if not wanted:
            return ()
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        key = (namespace, *(self._key(each, labels) for each in wanted))
        made = self._remembered.get(key)
        if made is None:
            made = tuple(
                SpreadConstraint(each, self._selector(each, labels), namespace) for each in wanted
            )
            self._remember(key, made)
        return made

    def read_defaults(
        self, pod: Pod, given: tuple[TopologySpreadConstraint, ...], selector: Selector
    ) -> tuple[SpreadConstraint, ...]:
        """The given constraints, all over the pods that the selector selects.

        The same tuple must be given each time: it is remembered by identity.
        """
        namespace = pod.metadata.namespace
        key = (namespace, selector, id(given))
        made = self._remembered.get(key)
        if made is None:
            made = tuple(SpreadConstraint(each, selector, namespace) for each in given)
            self._remember(key, made)
        return made

    def _remember(self, key: Hashable, made: tuple[SpreadConstraint, ...]) -> None:
        if len(self._remembered) >= _REMEMBERED:
            self._remembered.clear()
        self._remembered[key] = made

    def _key(self, given: TopologySpreadConstraint, labels: dict[str, str]) -> Hashable:
        return (
            given.max_skew,
            given.topology_key,
            selector_key(given.label_selector),
            given.min_domains,
            given.node_affinity_policy,
            given.node_taints_policy,
            tuple((key, labels.get(key)) for key in given.match_label_keys),
        )

    def _selector(self, given: TopologySpreadConstraint, labels: dict[str, str]) -> Selector:
        selector = Selector.from_label_selector(given.label_selector)
        if self._merges:
            same = {key: labels[key] for key in given.match_label_keys if key in labels}
            if same:
                selector = _narrowed(selector, same)
        return selector


def _narrowed(selector: Selector, labels: dict[str, str]) -> Selector:
    if selector.is_nothing:
        return selector
    return Selector.from_map(labels).add(*selector.requirements)


def selector_key(selector: LabelSelector | None) -> Hashable:
    """A hashable stand-in for a label selector."""
    if selector is None:
        return None
    return frozenset(selector.match_labels.items()), selector.match_expressions
