"""Spread constraints in the form that filtering and scoring use.

docs/reference/06 §1.2.

Pods of one workload have equal constraints, so parsed constraints are cached by content.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from kubesched.api import LabelSelector, Pod, TopologySpreadConstraint
from kubesched.api.labels import NOTHING, Selector
from kubesched.api.sized_caches import MOST_WEIGHT
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

_MAX_CACHED = 4096

# An empty selector matches every pod, but the rule counts no pods for it.
_NO_PODS = PodQuery([(frozenset(), NOTHING)])


class SpreadConstraint:
    """One constraint of a pod; equal constraints of equal pods are the same object."""

    __slots__ = (
        "honors_affinity",
        "honors_taints",
        "max_skew",
        "min_domains",
        "query",
        "selector",
        "topology_key",
    )

    def __init__(
        self, source: TopologySpreadConstraint, selector: Selector, namespace: str
    ) -> None:
        self.max_skew = source.max_skew
        self.topology_key = source.topology_key
        self.min_domains = 1 if source.min_domains is None else source.min_domains
        self.honors_affinity = (source.node_affinity_policy or _HONOR) == _HONOR
        self.honors_taints = (source.node_taints_policy or _IGNORE) == _HONOR
        self.selector = selector
        self.query = _NO_PODS  # selects the pods that count
        if not selector.is_empty:
            condition = (frozenset({namespace}), selector)
            self.query = PodQuery([condition], with_terminating=False)

    def count_on(self, node: NodeInfo) -> int:
        """Return the number of pods on one node that the constraint counts."""
        return sum(map(self.query.matches_pod, (pod_info.pod for pod_info in node.pods)))


class SpreadConstraintReader:
    """Parses the spread constraints of pods, with a cache."""

    def __init__(self, merges_match_label_keys: bool = True) -> None:
        self._merges = merges_match_label_keys
        self._cache: dict[Hashable, tuple[SpreadConstraint, ...]] = {}

    def read(
        self, pod: Pod, constraints: Sequence[TopologySpreadConstraint], action: str
    ) -> tuple[SpreadConstraint, ...]:
        """Parse the constraints with this action (`whenUnsatisfiable`), in order.

        Raises:
            SelectorError: a label selector is invalid.
        """
        selected = [each for each in constraints if each.when_unsatisfiable == action]
        if not selected:
            return ()
        namespace, labels = pod.metadata.namespace, pod.metadata.labels
        key = (namespace, *(self._key(each, labels) for each in selected))
        parsed = self._cache.get(key)
        if parsed is None:
            parsed = tuple(
                SpreadConstraint(each, self._selector(each, labels), namespace) for each in selected
            )
            self._store(key, parsed)
        return parsed

    def read_defaults(
        self, pod: Pod, defaults: tuple[TopologySpreadConstraint, ...], selector: Selector
    ) -> tuple[SpreadConstraint, ...]:
        """Parse the default constraints, all with this selector.

        Pass the same tuple each time: the cache uses its identity.
        """
        namespace = pod.metadata.namespace
        key = (namespace, selector, id(defaults))
        parsed = self._cache.get(key)
        if parsed is None:
            parsed = tuple(SpreadConstraint(each, selector, namespace) for each in defaults)
            self._store(key, parsed)
        return parsed

    def _store(self, key: Hashable, parsed: tuple[SpreadConstraint, ...]) -> None:
        if sum(each.selector.weight for each in parsed) > MOST_WEIGHT:
            return
        if len(self._cache) >= _MAX_CACHED:
            self._cache.clear()
        self._cache[key] = parsed

    def _key(self, constraint: TopologySpreadConstraint, labels: dict[str, str]) -> Hashable:
        return (
            constraint.max_skew,
            constraint.topology_key,
            selector_key(constraint.label_selector),
            constraint.min_domains,
            constraint.node_affinity_policy,
            constraint.node_taints_policy,
            tuple((key, labels.get(key)) for key in constraint.match_label_keys),
        )

    def _selector(self, constraint: TopologySpreadConstraint, labels: dict[str, str]) -> Selector:
        selector = Selector.from_label_selector(constraint.label_selector)
        if self._merges:
            same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
            if same:
                selector = _narrowed(selector, same)
        return selector


def _narrowed(selector: Selector, labels: dict[str, str]) -> Selector:
    if selector.is_nothing:
        return selector
    return Selector.from_map(labels).add(*selector.requirements)


def selector_key(selector: LabelSelector | None) -> Hashable:
    """Return a hashable key for a label selector."""
    if selector is None:
        return None
    return frozenset(selector.match_labels.items()), selector.match_expressions
