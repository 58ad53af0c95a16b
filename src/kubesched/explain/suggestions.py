"""Finds changes after which a pod fits: tries the plugins' remedies, smallest first.

A node that exactly one plugin rejects needs one change, a node that two plugins reject needs two.
Every returned change was made on the model and verified with the scheduler's own search.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.explanation import Suggestion
from kubesched.explain.fewer_replicas import fewer_replicas
from kubesched.explain.new_node import add_larger_node, add_node_like
from kubesched.explain.plugin_explanations import PluginExplanations
from kubesched.explain.remedy_trials import moves_siblings, try_out
from kubesched.explain.verdicts import AllVerdicts
from kubesched.framework import PodInfo, RejectedNodes, Remedy

__all__ = ["find_suggestions"]

_MOST_TRIED = 60
_MOST_SHOWN = 8
_PAIRS_TRIED = 24
_NODES_PER_PAIR = 3


def find_suggestions(
    model: ClusterModel, pod: Pod, verdicts: AllVerdicts, explanations: PluginExplanations
) -> tuple[Suggestion, ...]:
    """Return verified changes, smallest first; pairs of changes only if needed."""
    search = _RemedySearch(model, pod, verdicts, explanations)
    found = search.verified(search.singles(), _MOST_TRIED)
    if not any(suggestion.kind == "pod" for suggestion in found) or len(found) < 2:
        taken = {suggestion.change for suggestion in found}
        pairs = search.verified(search.needed_pairs(), _PAIRS_TRIED)
        found += [each for each in pairs if each.change not in taken]
    if not any(suggestion.kind == "pod" for suggestion in found):
        fewer = fewer_replicas(model, pod)
        found += [] if fewer is None else [fewer]
    return tuple(_distinct(found)[:_MOST_SHOWN])


def _distinct(found: Iterable[Suggestion]) -> list[Suggestion]:
    """Return the first of the suggestions that make the same edits of the cluster."""
    kept: list[Suggestion] = []
    for each in found:
        if not each.edits or all(each.edits != other.edits for other in kept):
            kept.append(each)
    return kept


class _RemedySearch:
    """Collects the remedies for one pod, and tries them."""

    def __init__(
        self,
        model: ClusterModel,
        pod: Pod,
        verdicts: AllVerdicts,
        explanations: PluginExplanations,
    ) -> None:
        self._model, self._pod = model, pod
        self._nodes, self._verdicts = verdicts.nodes, verdicts
        self._explanations = explanations

    def verified(self, remedies: Iterable[Remedy], most: int) -> list[Suggestion]:
        """Try the smallest remedies and return those that help."""
        useful = (each for each in remedies if not moves_siblings(self._pod, each, self._model))
        ordered = sorted(useful, key=lambda each: (each.size, each.text))
        tried = (try_out(self._model, remedy) for remedy in ordered[:most])
        return [suggestion for suggestion in tried if suggestion is not None]

    def singles(self) -> Iterator[Remedy]:
        """Yield remedies for nodes that exactly one plugin rejects, and new nodes."""
        counts = self._verdicts.rejection_counts()
        seen: set[str] = set()
        for each in self._verdicts.by_plugin:
            alone = np.flatnonzero(each.rejected & (counts == 1))
            for remedy in self._remedies(each.plugin, self._pod, alone):
                if remedy.text not in seen:
                    seen.add(remedy.text)
                    yield remedy
        everywhere = self._rejected(self._pod, np.arange(len(self._nodes)))
        yield from add_node_like(everywhere)
        yield from add_larger_node(everywhere)

    def needed_pairs(self) -> Iterator[Remedy]:
        """Yield pairs of remedies neither of which is sufficient alone."""
        is_enough: dict[str, bool] = {}
        for first, second, joined in self._pairs():
            for part in (first, second):
                if part.text not in is_enough:
                    is_enough[part.text] = self._helps(part)
            if not is_enough[first.text] and not is_enough[second.text]:
                yield joined

    def _pairs(self) -> Iterator[tuple[Remedy, Remedy, Remedy]]:
        """Yield a remedy for each of two plugins that reject the same node, and both combined."""
        counts = self._verdicts.rejection_counts()
        seen: set[str] = set()
        for one, other in combinations(self._verdicts.by_plugin, 2):
            shared = np.flatnonzero(one.rejected & other.rejected & (counts == 2))
            for pair in self._pairs_on(shared, one.plugin, other.plugin):
                if pair[2].text not in seen:
                    seen.add(pair[2].text)
                    yield pair

    def _pairs_on(
        self, positions: NDArray[np.intp], one: str, other: str
    ) -> Iterator[tuple[Remedy, Remedy, Remedy]]:
        if not len(positions):
            return
        names = self._nodes.names
        for first in self._remedies(one, self._pod, positions):
            where = positions
            if first.node:
                where = np.array(
                    [each for each in positions.tolist() if names[each] == first.node],
                    dtype=np.intp,
                )
            for number, second in enumerate(self._remedies(other, first.pod, where)):
                if number >= _NODES_PER_PAIR:
                    break
                if first.node and second.node and first.node != second.node:
                    continue
                changes = (*first.changes, *second.changes)
                if len({_identity(change) for change in changes}) == len(changes):
                    alone = second._replace(pod=self._pod_after(other, where, second))
                    yield first, alone, _both(first, second)

    def _pod_after(self, plugin: str, where: NDArray[np.intp], wanted: Remedy) -> Pod:
        """Return the pod with only the second change of a pair."""
        for remedy in self._remedies(plugin, self._pod, where):
            if remedy.text == wanted.text:
                return remedy.pod
        return wanted.pod

    def _remedies(self, plugin: str, pod: Pod, positions: NDArray[np.intp]) -> Iterable[Remedy]:
        return self._explanations.remedies(plugin, self._rejected(pod, positions))

    def _rejected(self, pod: Pod, positions: NDArray[np.intp]) -> RejectedNodes:
        return RejectedNodes(self._model.objects, PodInfo(pod), self._nodes, positions, self._helps)

    def _helps(self, remedy: Remedy) -> bool:
        return try_out(self._model, remedy) is not None


def _both(first: Remedy, second: Remedy) -> Remedy:
    """Combine two remedies; the pod of the second one has both changes."""
    return Remedy(
        f"{first.text}, and {second.text}",
        first.size + second.size,
        second.pod,
        (*first.changes, *second.changes),
        parts=(first.text, second.text),
    )


def _identity(change: object) -> tuple[object, ...]:
    metadata = getattr(change, "metadata", change)
    return type(change), metadata.namespace, metadata.name  # type: ignore[attr-defined]
