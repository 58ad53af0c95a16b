"""Which changes make a pod fit: candidates by rule, tried out one by one, smallest first.

A node where exactly one rule is in the way needs one change, a node with two needs two. Every
change that is returned has been made on the model and the scheduler's own search was run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations

import numpy as np

from kubesched.api import Pod
from kubesched.explain.model import ClusterModel
from kubesched.explain.results import Suggestion
from kubesched.explain.suggestions.candidate import Candidate, Question, both
from kubesched.explain.suggestions.claims import fix_claims, free_volumes
from kubesched.explain.suggestions.devices import fix_devices
from kubesched.explain.suggestions.neighbours import relax_affinity, relax_spread
from kubesched.explain.suggestions.new_node import add_node_like
from kubesched.explain.suggestions.node_choice import (
    free_ports,
    relax_selection,
    tolerate_taints,
    uncordon,
)
from kubesched.explain.suggestions.room import make_room
from kubesched.explain.suggestions.trying import try_out
from kubesched.explain.verdicts import AllVerdicts
from kubesched.framework import NodeView
from kubesched.scheduler.config import plugin_names

__all__ = ["find_suggestions"]

Rule = Callable[[Question], Iterator[Candidate]]

RULES: dict[str, Rule] = {
    plugin_names.NODE_RESOURCES_FIT: make_room,
    plugin_names.TAINT_TOLERATION: tolerate_taints,
    plugin_names.NODE_UNSCHEDULABLE: uncordon,
    plugin_names.NODE_AFFINITY: relax_selection,
    plugin_names.NODE_PORTS: free_ports,
    plugin_names.POD_TOPOLOGY_SPREAD: relax_spread,
    plugin_names.INTER_POD_AFFINITY: relax_affinity,
    plugin_names.VOLUME_RESTRICTIONS: fix_claims,
    plugin_names.VOLUME_BINDING: fix_claims,
    plugin_names.VOLUME_ZONE: fix_claims,
    plugin_names.NODE_VOLUME_LIMITS: free_volumes,
    plugin_names.DYNAMIC_RESOURCES: fix_devices,
}

_MOST_TRIED = 60
_MOST_SHOWN = 8
_PAIRS_TRIED = 24
_NODES_PER_PAIR = 3


def find_suggestions(
    model: ClusterModel, pod: Pod, verdicts: AllVerdicts
) -> tuple[Suggestion, ...]:
    """Verified changes, smallest first; of two changes together only if no single one helps."""
    found = _verified(model, _singles(model, pod, verdicts), _MOST_TRIED)
    if not any(suggestion.kind == "pod" for suggestion in found) or len(found) < 2:
        taken = {suggestion.change for suggestion in found}
        pairs = _verified(model, _needed_pairs(model, pod, verdicts), _PAIRS_TRIED)
        found += [each for each in pairs if each.change not in taken]
    return tuple(found[:_MOST_SHOWN])


def _verified(model: ClusterModel, candidates: Iterator[Candidate], most: int) -> list[Suggestion]:
    ordered = sorted(candidates, key=lambda each: (each.size, each.text))
    found: list[Suggestion] = []
    for candidate in ordered[:most]:
        suggestion = try_out(model, candidate)
        if suggestion is not None:
            found.append(suggestion)
    return found


def _singles(model: ClusterModel, pod: Pod, verdicts: AllVerdicts) -> Iterator[Candidate]:
    nodes, counts = verdicts.nodes, verdicts.rejection_counts()
    seen: set[str] = set()
    for each in verdicts.by_plugin:
        rule = RULES.get(each.plugin)
        if rule is None:
            continue
        alone = np.flatnonzero(each.rejected & (counts == 1))
        for candidate in rule(Question(model, pod, nodes, alone)):
            if candidate.text not in seen:
                seen.add(candidate.text)
                yield candidate
    yield from add_node_like(Question(model, pod, nodes, np.arange(len(nodes))))


def _needed_pairs(model: ClusterModel, pod: Pod, verdicts: AllVerdicts) -> Iterator[Candidate]:
    """Pairs of which neither part is enough by itself."""
    is_enough: dict[str, bool] = {}
    for first, second, joined in _pairs(model, pod, verdicts):
        for part in (first, second):
            if part.text not in is_enough:
                is_enough[part.text] = try_out(model, part) is not None
        if not is_enough[first.text] and not is_enough[second.text]:
            yield joined


def _pairs(
    model: ClusterModel, pod: Pod, verdicts: AllVerdicts
) -> Iterator[tuple[Candidate, Candidate, Candidate]]:
    """Two rules that stand together in the way of a node: a change for each, and both."""
    nodes, counts = verdicts.nodes, verdicts.rejection_counts()
    seen: set[str] = set()
    for first, second in combinations(verdicts.by_plugin, 2):
        one, other = RULES.get(first.plugin), RULES.get(second.plugin)
        if one is None or other is None:
            continue
        shared = np.flatnonzero(first.rejected & second.rejected & (counts == 2))
        for pair in _pairs_on(model, pod, nodes, shared, one, other):
            if pair[2].text not in seen:
                seen.add(pair[2].text)
                yield pair


def _pairs_on(
    model: ClusterModel,
    pod: Pod,
    nodes: NodeView,
    positions: np.ndarray[tuple[int], np.dtype[np.intp]],
    one: Rule,
    other: Rule,
) -> Iterator[tuple[Candidate, Candidate, Candidate]]:
    if not len(positions):
        return
    for first in one(Question(model, pod, nodes, positions)):
        where = positions
        if first.node:
            names = nodes.names
            where = np.array(
                [p for p in positions.tolist() if names[p] == first.node], dtype=np.intp
            )
        for number, second in enumerate(other(Question(model, first.pod, nodes, where))):
            if number >= _NODES_PER_PAIR:
                break
            if first.node and second.node and first.node != second.node:
                continue
            changes = (*first.changes, *second.changes)
            if len({_identity(change) for change in changes}) == len(changes):
                alone = second._replace(pod=_pod_of(other, model, pod, nodes, where, second))
                yield first, alone, both(first, second, second.pod)


def _pod_of(
    rule: Rule,
    model: ClusterModel,
    pod: Pod,
    nodes: NodeView,
    where: np.ndarray[tuple[int], np.dtype[np.intp]],
    wanted: Candidate,
) -> Pod:
    """The pod with only the second change, to see whether that is enough."""
    for candidate in rule(Question(model, pod, nodes, where)):
        if candidate.text == wanted.text:
            return candidate.pod
    return wanted.pod


def _identity(change: object) -> tuple[object, ...]:
    metadata = getattr(change, "metadata", change)
    return type(change), metadata.namespace, metadata.name  # type: ignore[attr-defined]
