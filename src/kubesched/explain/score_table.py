"""Scores of a decision: every plugin's score, weight and points, and a comparison of nodes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.explain.explanation import NodeScore, PluginScore, VerdictGroup, Versus, VersusPoint
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.schedule_result import ScheduleResult

__all__ = ["ScoreTable"]


class ScoreTable:
    """The points of the feasible nodes by plugin; the chosen node is first among equal ones."""

    def __init__(self, framework: Framework, result: ScheduleResult) -> None:
        scores = result.scores
        self.names = list(result.feasible.names)
        self._weights: Mapping[str, int] = framework.plugins.score_weights
        self._points: Mapping[str, NDArray[np.int64]] = {} if scores is None else scores.by_plugin
        count = len(self.names)
        self.total: NDArray[np.int64] = (
            np.zeros(count, dtype=np.int64) if scores is None else scores.total
        )
        self._place = {name: place for place, name in enumerate(self.names)}
        self.chosen = result.node_name

    @property
    def ties(self) -> int:
        """The number of nodes with the best total."""
        return int((self.total == self.total.max()).sum())

    @property
    def margin(self) -> int:
        """The difference between the best total and the next lower total."""
        below = self.total[self.total < self.total.max()]
        return int(self.total.max() - below.max()) if len(below) else 0

    def best(self, count: int) -> tuple[NodeScore, ...]:
        order = sorted(
            range(len(self.names)),
            key=lambda place: (
                -self.total[place],
                self.names[place] != self.chosen,
                self.names[place],
            ),
        )
        return tuple(self.of(self.names[place]) for place in order[:count])

    def of(self, name: str) -> NodeScore:
        place = self._place[name]
        plugins = []
        for plugin, points in self._points.items():
            weight = self._weights[plugin]
            earned = int(points[place])
            plugins.append(
                PluginScore(
                    plugin=plugin,
                    score=earned // weight if weight else 0,
                    weight=weight,
                    points=earned,
                )
            )
        return NodeScore(node=name, total=int(self.total[place]), plugins=tuple(plugins))

    def versus(self, other: str, groups: tuple[VerdictGroup, ...]) -> Versus:
        """Compare the chosen node with another one.

        Raises:
            ExplainError: there is no node of that name.
        """
        chosen = self.of(self.chosen)
        if other not in self._place:
            return self._rejected(other, groups)
        against = self.of(other)
        points = tuple(
            VersusPoint(
                plugin=mine.plugin,
                chosen=mine.points,
                other=theirs.points,
                difference=mine.points - theirs.points,
            )
            for mine, theirs in zip(chosen.plugins, against.plugins, strict=True)
        )
        ahead = chosen.total - against.total
        if not ahead:
            summary = (
                f"{self.chosen} and {other} are equal at {chosen.total} points: chance decided"
            )
        else:
            deciding = max(points, key=lambda each: each.difference)
            summary = (
                f"{self.chosen} leads {other} by {ahead} points, "
                f"most of all in {deciding.plugin} ({deciding.chosen} to {deciding.other})"
            )
        return Versus(node=self.chosen, other=other, summary=summary, points=points)

    def _rejected(self, other: str, groups: tuple[VerdictGroup, ...]) -> Versus:
        for group in groups:
            if other in group.nodes:
                reasons = ", ".join(each.reason for each in group.rejections)
                return Versus(
                    node=self.chosen,
                    other=other,
                    summary=f"{other} does not fit: {reasons}",
                    rejections=group.rejections,
                )
        raise ExplainError(f"no node named {other!r}")
