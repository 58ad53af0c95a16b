"""Compares the decision of another scheduler with this scheduler's decision in the same state."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.explain.clusters.cluster_model import ClusterModel, SearchOutcome
from kubesched.explain.explanation import VersusPoint
from kubesched.explain.score_table import ScoreTable
from kubesched.explain.shadow.shadow_entries import ShadowVerdict
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.search.node_filtering import nodes_to_find

__all__ = ["ComparedDecision", "DecisionComparison", "scoring_all_nodes"]

# The reference's default percentage of nodes to score: lower in large clusters, at least 5.
_ADAPTIVE_START: Final = 50
_ADAPTIVE_STEP: Final = 125
_ADAPTIVE_LEAST: Final = 5
_MOST_WINDOWS: Final = 64


class ComparedDecision(NamedTuple):
    """A verdict, and the reason for it."""

    verdict: ShadowVerdict
    own_node: str = ""
    summary: str = ""
    plugin: str = ""
    points: tuple[VersusPoint, ...] = ()


def scoring_all_nodes(configuration: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Return the configuration without sampling: the shadow scores every node."""
    profiles = tuple(
        replace(profile, percentage_of_nodes_to_score=None) for profile in configuration.profiles
    )
    return replace(configuration, percentage_of_nodes_to_score=0, profiles=profiles)


class DecisionComparison:
    """Decides for pods in a model that scores all nodes, and compares the results."""

    def __init__(self, model: ClusterModel, configuration: KubeSchedulerConfiguration) -> None:
        """`configuration` has the percentage of nodes that the other scheduler scores."""
        self._model = model
        whole = configuration.percentage_of_nodes_to_score
        self._percentages = {
            profile.scheduler_name: whole
            if profile.percentage_of_nodes_to_score is None
            else profile.percentage_of_nodes_to_score
            for profile in configuration.profiles
        }

    def compare(self, pod: Pod, other_node: str, *, explains: bool = True) -> ComparedDecision:
        """Compare the other scheduler's decision for a pod; an empty node means that none fitted.

        With `explains` the result has the reason for a difference.
        """
        outcome = self._model.search(pod)
        own = outcome.node_name
        if not own and not other_node:
            return ComparedDecision(ShadowVerdict.NEITHER, summary=outcome.message)
        if not other_node:
            return ComparedDecision(ShadowVerdict.ONLY_SHADOW, own)
        if own == other_node:
            return ComparedDecision(ShadowVerdict.SAME, own)
        if not own:
            reason = self._rejection(outcome, pod, other_node) if explains else ("", "")
            return ComparedDecision(ShadowVerdict.ONLY_OTHER, "", *reason)
        return self._compare_nodes(outcome, pod, other_node, explains)

    def _compare_nodes(
        self, outcome: SearchOutcome, pod: Pod, other_node: str, explains: bool
    ) -> ComparedDecision:
        result = outcome.result
        assert result is not None
        row = self._model.snapshot.table.row_of.get(other_node)
        rows = result.feasible.rows
        places = [] if row is None else np.flatnonzero(rows == row).tolist()
        if not places:
            reason = self._rejection(outcome, pod, other_node) if explains else ("", "")
            return ComparedDecision(ShadowVerdict.ANOTHER, result.node_name, *reason)
        scores = result.scores
        total = np.ones(len(rows), dtype=np.int64) if scores is None else scores.total
        if total[places[0]] == total.max():
            return ComparedDecision(ShadowVerdict.TIED, result.node_name)
        if self._is_best_of_a_sample(outcome, pod, total, places[0]):
            return ComparedDecision(ShadowVerdict.SAMPLED, result.node_name)
        if not explains:
            return ComparedDecision(ShadowVerdict.ANOTHER, result.node_name)
        versus = ScoreTable(self._model.framework_of(pod), result).versus(other_node, ())
        deciding = max(versus.points, key=lambda each: each.difference, default=None)
        return ComparedDecision(
            ShadowVerdict.ANOTHER,
            result.node_name,
            versus.summary,
            "" if deciding is None else deciding.plugin,
            tuple(each for each in versus.points if each.chosen or each.other),
        )

    def _rejection(self, outcome: SearchOutcome, pod: Pod, node: str) -> tuple[str, str]:
        """Return why the pod does not fit the node, and the plugin that rejects it."""
        diagnosis = outcome.diagnosis
        if outcome.result is not None:
            diagnosis = outcome.result.diagnosis
        row = self._model.snapshot.table.row_of.get(node)
        if diagnosis is None or row is None:
            return outcome.message or f"{node} is not in the cluster", ""
        status = diagnosis.status_of(node, row)
        text = status.message or outcome.message
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        return f"{name} does not fit {node}: {text}", status.plugin

    def _is_best_of_a_sample(
        self, outcome: SearchOutcome, pod: Pod, total: np.ndarray, place: int
    ) -> bool:
        """Whether the node is the best of a sample that the other scheduler may have scored.

        The most favourable sample has the nodes with the lowest totals. Because scores depend on
        the sample, that sample is scored, and so are the samples that begin at other nodes of the
        list.
        """
        assert outcome.result is not None
        feasible = outcome.result.feasible
        snapshot = self._model.snapshot
        enough = self._nodes_to_find(pod, len(snapshot))
        if enough >= len(feasible):
            return False
        lowest = np.argsort(total, kind="stable")[:enough]
        if place not in lowest:
            lowest[-1] = place
        if self._is_best_among(pod, feasible.rows[lowest], feasible.rows[place]):
            return True
        fits = np.isin(snapshot.order, feasible.rows)
        listed = snapshot.order[fits]
        own = int(np.flatnonzero(listed == feasible.rows[place])[0])
        step = max(1, enough // _MOST_WINDOWS)
        starts = range(own, own - enough, -step)
        windows = (np.take(listed, range(at, at + enough), mode="wrap") for at in starts)
        return any(self._is_best_among(pod, rows, listed[own]) for rows in windows)

    def _is_best_among(self, pod: Pod, rows: np.ndarray, row: int) -> bool:
        nodes = self._model.snapshot.nodes.at_rows(rows)
        try:
            total = self._model.total_scores(pod, nodes)
        except PluginError:
            return False
        return bool(total[np.flatnonzero(rows == row)[0]] == total.max())

    def _nodes_to_find(self, pod: Pod, count: int) -> int:
        percentage = self._percentages.get(pod.spec.scheduler_name or "default-scheduler")
        if not percentage:
            percentage = max(_ADAPTIVE_START - count // _ADAPTIVE_STEP, _ADAPTIVE_LEAST)
        return nodes_to_find(count, percentage)
