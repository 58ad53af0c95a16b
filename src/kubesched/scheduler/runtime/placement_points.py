"""PlacementGenerate and PlacementScore: the plugins that choose nodes for a whole pod group.

docs/reference/09 §8. Both raise PluginError when a plugin failed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from kubesched.errors import PluginError
from kubesched.framework import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    SUCCESS,
    CycleState,
    ExtensionPoint,
    Plugin,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPlacement,
    Snapshot,
    Status,
    overrides,
)
from kubesched.framework.wrong_answer import is_sound, wrong_answer
from kubesched.scheduler.config.plugin_names import TOPOLOGY_PLACEMENT_GENERATOR
from kubesched.scheduler.runtime.plugin_calls import (
    NORMALIZE_PLACEMENTS,
    PLACEMENT_GENERATE,
    PLACEMENT_SCORE,
    call,
)
from kubesched.scheduler.runtime.plugin_set import ProfilePlugins
from kubesched.scheduler.runtime.point_metrics import PointMetrics

__all__ = ["PlacementPoints"]

_NO_PLACEMENT: Final = Status.unschedulable("no feasible placements found")


class PlacementPoints:
    """Runs the PlacementGenerate and PlacementScore plugins of a profile."""

    def __init__(self, plugins: ProfilePlugins, metrics: PointMetrics) -> None:
        generators = plugins.at(ExtensionPoint.PLACEMENT_GENERATE)
        self._generator: Plugin | None = generators[0] if generators else None
        self._scorers = plugins.at(ExtensionPoint.PLACEMENT_SCORE)
        self._weights = plugins.placement_score_weights
        self._metrics = metrics
        # Whether groups without constraints have one placement with all nodes.
        self.follow_constraints = (
            self._generator is None or self._generator.name == TOPOLOGY_PLACEMENT_GENERATOR
        )
        # Whether the scores depend on the nodes of the assignments, and not only on their number.
        self.read_nodes = any(plugin.placement_score_reads_nodes for plugin in self._scorers)

    def start(self, state: CycleState) -> None:
        """Time the plugins of this group cycle; the reference does not sample these points."""
        state.plugin_timer = self._metrics.timer

    def generate(
        self, state: CycleState, group: PodGroupInfo, parent: PodGroupPlacement, snapshot: Snapshot
    ) -> tuple[Status, Sequence[PodGroupPlacement]]:
        """Return the placements to try, in this order; with a failing status there are none.

        Raises:
            PluginError: the plugin failed, or a placement has other nodes than the snapshot.
        """
        plugin = self._generator
        if plugin is None:
            return SUCCESS, (parent,)
        with self._metrics.timing("PlacementGenerate") as timing:
            answer: Any = call(
                PLACEMENT_GENERATE, plugin, plugin.generate_placements, state, group, parent
            )
            if is_sound(answer):
                if answer.is_success:
                    raise _wrong(PLACEMENT_GENERATE, plugin, answer, "a sequence of placements")
                timing.code = answer.code
                return answer.blame(plugin.name), ()
            if not _are_placements(answer):
                raise _wrong(PLACEMENT_GENERATE, plugin, answer, "a sequence of placements")
        if not len(answer):
            return _NO_PLACEMENT, ()
        for placement in answer:
            _check(placement, snapshot)
        return SUCCESS, tuple(answer)

    def score(
        self, state: CycleState, group: PodGroupInfo, candidates: Sequence[PodGroupAssignments]
    ) -> list[int]:
        """Return the weighted sum of the normalised scores of each candidate.

        Raises:
            PluginError: a plugin failed, or returned a score that is out of range.
        """
        totals = [0] * len(candidates)
        if not self._scorers:
            return totals
        with self._metrics.timing("PlacementScore"):
            for plugin in self._scorers:
                weight = self._weights[plugin.name]
                for place, score in enumerate(_scores_of(plugin, state, group, candidates)):
                    totals[place] += weight * score
        return totals


def _scores_of(
    plugin: Plugin,
    state: CycleState,
    group: PodGroupInfo,
    candidates: Sequence[PodGroupAssignments],
) -> list[int]:
    scores = [
        _as_int(
            PLACEMENT_SCORE,
            plugin,
            call(PLACEMENT_SCORE, plugin, plugin.score_placement, state, group, each),
        )
        for each in candidates
    ]
    if overrides(plugin, "normalize_placement_scores"):
        normalize = plugin.normalize_placement_scores
        answer: Any = call(NORMALIZE_PLACEMENTS, plugin, normalize, state, group, tuple(scores))
        try:
            normalized = list(answer)
        except TypeError as exc:
            raise _wrong(NORMALIZE_PLACEMENTS, plugin, answer, "a sequence of scores") from exc
        if len(normalized) != len(scores):
            wanted = f"a score for each of {len(scores)} placements"
            raise _wrong(NORMALIZE_PLACEMENTS, plugin, answer, wanted)
        scores = [_as_int(NORMALIZE_PLACEMENTS, plugin, each) for each in normalized]
    for score in scores:
        if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
            raise PluginError(
                "applying score defaultWeights on PlacementScore plugins: "
                f'plugin "{plugin.name}" returns an invalid score {score}, '
                f"it should in the range of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
            )
    return scores


def _as_int(what: str, plugin: Plugin, score: Any) -> int:
    try:
        return int(score)
    except (TypeError, ValueError, OverflowError) as exc:
        raise PluginError(f"{what.format(plugin.name)}: {exc}") from exc


def _are_placements(answer: Any) -> bool:
    return isinstance(answer, list | tuple) and all(
        isinstance(each, PodGroupPlacement) for each in answer
    )


def _wrong(what: str, plugin: Plugin, answer: Any, wanted: str) -> PluginError:
    return PluginError(f"{what.format(plugin.name)}: {wrong_answer(answer, wanted)}")


def _check(placement: PodGroupPlacement, snapshot: Snapshot) -> None:
    """Raise PluginError if the placement has a node that the snapshot does not have."""
    nodes, table = placement.nodes, snapshot.nodes.table
    if nodes.table is not table:
        name = next(iter(nodes.names), "")
        raise PluginError(
            f"failed to assume pod group placement: node {name} in placement is not the same "
            "instance as in the snapshot"
        )
    if nodes.is_whole:
        return
    rows = nodes.rows
    known = (rows >= 0) & (rows < len(table.is_live))
    gone = rows[~known] if not known.all() else rows[~np.asarray(table.is_live)[rows]]
    if len(gone):
        raise PluginError(
            "failed to assume pod group placement: "
            f"node in row {int(gone[0])} in placement is not present in snapshot"
        )
