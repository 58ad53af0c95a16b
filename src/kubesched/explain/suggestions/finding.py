"""Which changes make a pod fit: candidates by rule, tried out one by one, smallest first.

A node where exactly one rule is in the way needs one change, a node with two needs two. Every
change that is returned has been made on the model and the scheduler's own search was run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from kubesched.api import Pod
from kubesched.api.kinds import kind_of
from kubesched.api.taints import UNSCHEDULABLE_TAINT
from kubesched.config import plugin_names
from kubesched.explain.details.node_choice import untolerated
from kubesched.explain.model import ClusterModel, Removal
from kubesched.explain.results import Edit, Suggestion
from kubesched.explain.suggestions.candidate import Candidate, Question, both
from kubesched.explain.suggestions.neighbours import relax_affinity, relax_spread
from kubesched.explain.suggestions.new_node import add_node_like
from kubesched.explain.suggestions.node_choice import (
    free_ports,
    relax_selection,
    tolerate_taints,
    uncordon,
)
from kubesched.explain.suggestions.room import make_room
from kubesched.explain.verdicts import AllVerdicts
from kubesched.framework import NodeView

__all__ = ["find_suggestions", "try_out"]

Rule = Callable[[Question], Iterator[Candidate]]

RULES: dict[str, Rule] = {
    plugin_names.NODE_RESOURCES_FIT: make_room,
    plugin_names.TAINT_TOLERATION: tolerate_taints,
    plugin_names.NODE_UNSCHEDULABLE: uncordon,
    plugin_names.NODE_AFFINITY: relax_selection,
    plugin_names.NODE_PORTS: free_ports,
    plugin_names.POD_TOPOLOGY_SPREAD: relax_spread,
    plugin_names.INTER_POD_AFFINITY: relax_affinity,
}

_MOST_TRIED = 60
_MOST_SHOWN = 8
_PAIRS_TRIED = 24
_NODES_PER_PAIR = 3


def find_suggestions(
    model: ClusterModel, pod: Pod, verdicts: AllVerdicts
) -> tuple[Suggestion, ...]:
    """Verified changes, smallest first; of two changes together only if no single one helps."""
    verdicts = _cordons_counted_once(pod, verdicts)
    found = _verified(model, _singles(model, pod, verdicts), _MOST_TRIED)
    if not any(suggestion.kind == "pod" for suggestion in found) or len(found) < 2:
        taken = {suggestion.change for suggestion in found}
        pairs = _verified(model, _needed_pairs(model, pod, verdicts), _PAIRS_TRIED)
        found += [each for each in pairs if each.change not in taken]
    return tuple(found[:_MOST_SHOWN])


def _cordons_counted_once(pod: Pod, verdicts: AllVerdicts) -> AllVerdicts:
    """A cordoned node carries a taint as well; both go with one change."""
    by_plugin = {each.plugin: each for each in verdicts.by_plugin}
    cordoned = by_plugin.get(plugin_names.NODE_UNSCHEDULABLE)
    tainted = by_plugin.get(plugin_names.TAINT_TOLERATION)
    if cordoned is None or tainted is None:
        return verdicts
    codes = tainted.codes.copy()
    for place in np.flatnonzero(cordoned.rejected & tainted.rejected).tolist():
        node = verdicts.nodes.info(place).node
        if node is not None and all(
            taint.key == UNSCHEDULABLE_TAINT.key for taint in untolerated(pod, node)
        ):
            codes[place] = 0
    left = tainted._replace(codes=codes)
    found = [left if each is tainted else each for each in verdicts.by_plugin]
    return AllVerdicts(verdicts.nodes, verdicts.state, found)


def _verified(model: ClusterModel, candidates: Iterator[Candidate], most: int) -> list[Suggestion]:
    ordered = sorted(candidates, key=lambda each: (each.size, each.text))
    found: list[Suggestion] = []
    for candidate in ordered[:most]:
        suggestion = try_out(model, candidate)
        if suggestion is not None:
            found.append(suggestion)
    return found


def try_out(model: ClusterModel, candidate: Candidate) -> Suggestion | None:
    """Make the change, run the scheduler, undo the change; None if the pod still fits nowhere."""
    edits = _edits(model, candidate)
    with model.changed(candidate.changes):
        node = model.search(candidate.pod).node_name
    if not node:
        return None
    return Suggestion(
        change=candidate.text,
        verified=True,
        node=node,
        kind=candidate.kind,
        parts=candidate.parts,
        command=candidate.command,
        size=round(candidate.size, 3),
        edits=edits,
    )


def _edits(model: ClusterModel, candidate: Candidate) -> tuple[Edit, ...]:
    """The changes as documents; the pod itself is one of them if it has to be another."""
    metadata = candidate.pod.metadata
    before = model.objects.get(Pod, metadata.name, metadata.namespace)
    edits = [] if before is None or before == candidate.pod else [_edit(candidate.pod, "replace")]
    for change in candidate.changes:
        if isinstance(change, Removal):
            kind = kind_of(change.kind)
            edits.append(
                Edit(
                    action="delete",
                    kind=kind.kind,
                    api_version=kind.api_version,
                    name=change.name,
                    namespace=change.namespace,
                )
            )
        else:
            named: Any = change
            there = model.objects.get(type(named), named.metadata.name, named.metadata.namespace)
            edits.append(_edit(named, "create" if there is None else "replace"))
    return tuple(edits)


def _edit(changed: Any, action: str) -> Edit:
    kind = kind_of(type(changed))
    return Edit(
        action=action,
        kind=kind.kind,
        api_version=kind.api_version,
        name=changed.metadata.name,
        namespace=changed.metadata.namespace,
        document={
            "apiVersion": kind.api_version,
            "kind": kind.kind,
            **msgspec.to_builtins(changed),
        },
    )


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
