"""Finds the rules between pods: anti-affinity, affinity, spread constraints and host ports.

The scheduler's plugins parse terms and constraints. Each rule becomes a query for pods, which is
matched once against each set of labels.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Namespace, Node, Pod
from kubesched.api.host_ports import WILDCARD_IP
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.framework import PodInfo
from kubesched.framework.pod_query import PodQuery
from kubesched.plan.packing.packing_problem import ApartRule, NearRule, SpreadRule
from kubesched.scheduler.config.plugin_names import (
    INTER_POD_AFFINITY,
    NODE_PORTS,
    POD_TOPOLOGY_SPREAD,
)
from kubesched.scheduler.plugins.inter_pod_affinity.incoming_terms import resolve_namespaces
from kubesched.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread

__all__ = ["PairRules", "PodTraits"]

Numbers = NDArray[np.int64]


class PodTraits(NamedTuple):
    """The fields of a pod that rules between pods read; equal traits mean equal rules."""

    apart: frozenset[tuple[str, int]]  # (topology key, query)
    near: tuple[tuple[str, ...], int] | None  # (topology keys, query)
    spread: frozenset[Hashable]
    ports: frozenset[tuple[str, str, int]]
    matches: frozenset[int]  # queries that select the pod


_Test = Callable[[PodTraits], bool]


class _Spread(NamedTuple):
    query: int
    key: str
    max_skew: int
    min_domains: int
    nodes: bytes  # bool[node]: the nodes that count


class PairRules:
    """Collects the rules of all pods. Afterwards it returns traits of pods and rules of classes."""

    def __init__(self, model: ClusterModel, nodes: Sequence[Node]) -> None:
        self._model = model
        self._nodes = nodes
        self._namespaces = model.objects.lister(Namespace)
        self._queries: dict[PodQuery, int] = {}
        self._matched: dict[Hashable, frozenset[int]] = {}
        self._domains: dict[str, tuple[NDArray[np.int32], int]] = {}
        plugins = [each.plugins.by_name for each in model.frameworks.values()]
        self._has_affinity = any(INTER_POD_AFFINITY in names for names in plugins)
        self._has_ports = any(NODE_PORTS in names for names in plugins)
        self._carried: dict[str, PodTraits] = {}

    def collect(self, pods: Iterable[PodInfo]) -> None:
        """Read the rules that the pods carry. Call it with all pods before `traits`."""
        for info in pods:
            pod = info.pod
            apart = near = None
            if self._has_affinity and info.has_affinity:
                apart = frozenset(self._apart(info))
                near = self._near(info)
            ports = info.host_ports if self._has_ports else ()
            spread = frozenset(self._spread(pod))
            if apart or near or ports or spread:
                self._carried[pod.metadata.uid] = PodTraits(
                    apart or frozenset(),
                    near,
                    spread,
                    frozenset((each.ip, each.protocol, each.port) for each in ports),
                    frozenset(),
                )

    def traits(self, pod: Pod) -> PodTraits:
        metadata = pod.metadata
        key = (metadata.namespace, frozenset(metadata.labels.items()))
        matches = self._matched.get(key)
        if matches is None:
            matches = self._matched[key] = frozenset(
                number
                for query, number in self._queries.items()
                if query.matches(metadata.namespace, metadata.labels, is_terminating=False)
            )
        carried = self._carried.get(metadata.uid)
        if carried is None:
            return PodTraits(frozenset(), None, frozenset(), frozenset(), matches)
        return carried._replace(matches=matches)

    def apart_rules(
        self, classes: Sequence[PodTraits], fixed: Sequence[tuple[int, PodTraits]]
    ) -> list[ApartRule]:
        """Return the anti-affinity rules, and the conflicts of host ports."""
        rules = []
        everyone = [*classes, *(traits for _, traits in fixed)]
        for term in sorted({term for traits in everyone for term in traits.apart}):
            key, query = term
            domain, count = self.domain(key)
            rule = ApartRule(
                domain,
                _numbers(classes, lambda t, term=term: term in t.apart),  # type: ignore[misc]
                _numbers(classes, lambda t, query=query: query in t.matches),  # type: ignore[misc]
                _fixed(domain, count, fixed, lambda t, term=term: term in t.apart),  # type: ignore[misc]
                _fixed(domain, count, fixed, lambda t, query=query: query in t.matches),  # type: ignore[misc]
            )
            if rule.carriers or rule.matches:
                rules.append(rule)
        rules += self._port_rules(classes)
        return rules

    def near_rules(
        self, classes: Sequence[PodTraits], fixed: Sequence[tuple[int, PodTraits]]
    ) -> list[NearRule]:
        rules = []
        for near in sorted({traits.near for traits in classes if traits.near is not None}):
            keys, query = near
            domains = [self.domain(key) for key in keys]

            def matches(traits: PodTraits, query: int = query) -> bool:
                return query in traits.matches

            rules.append(
                NearRule(
                    tuple(domain for domain, _ in domains),
                    _numbers(classes, lambda t, near=near: t.near == near),  # type: ignore[misc]
                    _numbers(classes, matches),
                    tuple(_fixed(domain, count, fixed, matches) for domain, count in domains),
                )
            )
        return rules

    def spread_rules(
        self, classes: Sequence[PodTraits], fixed: Sequence[tuple[int, PodTraits]]
    ) -> list[SpreadRule]:
        rules = []
        found = {each for traits in classes for each in traits.spread}
        for spread in sorted(each for each in found if isinstance(each, _Spread)):
            domain, count = self.domain(spread.key)
            counts = np.frombuffer(spread.nodes, dtype=np.bool_) & (domain >= 0)
            present = np.zeros(count, dtype=bool)
            present[domain[counts]] = True

            def matches(traits: PodTraits, query: int = spread.query) -> bool:
                return query in traits.matches

            rules.append(
                SpreadRule(
                    domain,
                    counts,
                    present,
                    _numbers(classes, lambda t, spread=spread: spread in t.spread),  # type: ignore[misc]
                    _numbers(classes, matches),
                    _fixed(np.where(counts, domain, -1), count, fixed, matches),
                    spread.max_skew,
                    int(present.sum()) < spread.min_domains,
                )
            )
        return rules

    def domain(self, key: str) -> tuple[NDArray[np.int32], int]:
        """Return the domain number of each node for a label, and the number of domains."""
        if key not in self._domains:
            values: dict[str, int] = {}
            numbers = [
                values.setdefault(labels[key], len(values)) if key in labels else -1
                for labels in (node.metadata.labels for node in self._nodes)
            ]
            self._domains[key] = np.array(numbers, dtype=np.int32), len(values)
        return self._domains[key]

    def _apart(self, info: PodInfo) -> Iterable[tuple[str, int]]:
        for term in info.required_anti_affinity_terms:
            resolved = resolve_namespaces(term, self._namespaces)
            yield term.topology_key, self._number(PodQuery((resolved.condition,)))

    def _near(self, info: PodInfo) -> tuple[tuple[str, ...], int] | None:
        if not info.required_affinity_terms:
            return None
        resolved = [
            resolve_namespaces(term, self._namespaces) for term in info.required_affinity_terms
        ]
        keys = tuple(sorted({term.topology_key for term in resolved}))
        return keys, self._number(PodQuery(term.condition for term in resolved))

    def _spread(self, pod: Pod) -> Iterable[_Spread]:
        framework = self._model.frameworks.get(pod.spec.scheduler_name or "default-scheduler")
        plugin = None if framework is None else framework.plugins.by_name.get(POD_TOPOLOGY_SPREAD)
        if not isinstance(plugin, PodTopologySpread) or not plugin.concerns(pod.spec):
            return
        constraints = plugin.hard_constraints(pod)
        if not constraints:
            return
        inclusion = plugin.inclusion_of(pod, constraints)
        table = self._model.snapshot.nodes
        rows = [table.table.row_of[node.metadata.name] for node in self._nodes]
        for each in constraints:
            rule = inclusion.rule(each)
            counts = np.ones(len(rows), dtype=bool)
            if rule is not None:
                counts = rule.on(table.pods).mask()[rows]
            yield _Spread(
                self._number(each.query),
                each.topology_key,
                each.max_skew,
                each.min_domains,
                counts.tobytes(),
            )

    def _number(self, query: PodQuery) -> int:
        return self._queries.setdefault(query, len(self._queries))

    def _port_rules(self, classes: Sequence[PodTraits]) -> list[ApartRule]:
        """Return the conflicts of host ports; a port on all addresses conflicts with any use."""
        users: dict[tuple[str, str, int], set[int]] = {}
        for number, traits in enumerate(classes):
            for each in traits.ports:
                users.setdefault(each, set()).add(number)
        domain = np.arange(len(self._nodes), dtype=np.int32)
        nothing = np.zeros(len(self._nodes), dtype=np.int64)
        rules = []
        for (ip, protocol, port), carriers in sorted(users.items()):
            matches = set(carriers)
            if ip == WILDCARD_IP:
                for (_, other_protocol, other_port), others in users.items():
                    if (other_protocol, other_port) == (protocol, port):
                        matches |= others
            rules.append(
                ApartRule(domain, frozenset(carriers), frozenset(matches), nothing, nothing)
            )
        return rules


def _numbers(classes: Sequence[PodTraits], is_one: _Test) -> frozenset[int]:
    return frozenset(number for number, traits in enumerate(classes) if is_one(traits))


def _fixed(
    domain: NDArray[np.int32],
    count: int,
    fixed: Sequence[tuple[int, PodTraits]],
    is_one: _Test,
) -> Numbers:
    """Count per domain the pods that are not moved and that pass a test."""
    counts = np.zeros(count, dtype=np.int64)
    for node, traits in fixed:
        if domain[node] >= 0 and is_one(traits):
            counts[domain[node]] += 1
    return counts
