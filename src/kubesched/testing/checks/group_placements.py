"""Rules about PlacementGenerate and PlacementScore, which choose nodes for a whole pod group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kubesched.framework import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    CycleState,
    ExtensionPoint,
    PodGroupAssignments,
    PodGroupInfo,
    PodGroupPlacement,
    Status,
    extension_points,
)
from kubesched.testing.checks.trial import Trial, pick

__all__ = ["check_placements"]


def check_placements(trial: Trial) -> None:
    """Let the plugin generate placements for a group of one pod, and score some."""
    points = extension_points(trial.plugin)
    group = PodGroupInfo(trial.pod.metadata.namespace, "group", (trial.pod,))
    if ExtensionPoint.PLACEMENT_GENERATE in points:
        _check_generated(trial, group)
    if ExtensionPoint.PLACEMENT_SCORE in points:
        _check_scores(trial, group)


def _check_generated(trial: Trial, group: PodGroupInfo) -> None:
    first, again = _generate(trial, group), _generate(trial, group)
    if first != again:
        trial.fail("placements are repeatable", f"{first} and then {again}")


def _generate(trial: Trial, group: PodGroupInfo) -> list[tuple[str, list[str]]] | Status:
    parent = PodGroupPlacement("", trial.view)
    with trial.calling("generate_placements"):
        answer: Any = trial.plugin.generate_placements(CycleState(), group, parent)
    rule = "PlacementGenerate returns placements"
    if isinstance(answer, Status):
        if answer.is_success or answer.is_skip:
            trial.fail(rule, f"it returned {answer!r}")
        return answer
    if not isinstance(answer, list | tuple):
        trial.fail(rule, f"it returned {answer!r}")
    for each in answer:
        if not isinstance(each, PodGroupPlacement):
            trial.fail(rule, f"one of them is {each!r}")
        if (
            each.nodes.table is not trial.view.table
            or not np.isin(each.nodes.rows, trial.view.rows).all()
        ):
            trial.fail("placements are parts of the parent", f"{each.name!r} has other nodes")
    return [(each.name, list(each.nodes.names)) for each in answer]


def _check_scores(trial: Trial, group: PodGroupInfo) -> None:
    halves = [trial.view.at_rows(trial.view.rows[start::2]) for start in (0, 1)]
    candidates = [
        PodGroupAssignments(
            PodGroupPlacement(f"half-{number}", nodes),
            group.pods,
            (nodes.names[pick(trial.rng, nodes)],),
        )
        for number, nodes in enumerate(halves)
    ]
    state = CycleState()
    scores = [_score(trial, state, group, each) for each in candidates]
    if not trial.plugin.placement_score_reads_nodes:
        plain = [PodGroupAssignments(each.placement, each.pods) for each in candidates]
        without = [_score(trial, CycleState(), group, each) for each in plain]
        if without != scores:
            rule = "a score that reads no nodes does not depend on them"
            trial.fail(rule, f"{scores} with nodes, {without} without")
    with trial.calling("normalize_placement_scores"):
        normalized: Any = trial.plugin.normalize_placement_scores(state, group, tuple(scores))
    rule = "normalised scores of placements are within 0..100"
    if not isinstance(normalized, Sequence) or len(normalized) != len(scores):
        trial.fail(rule, f"{scores} became {normalized!r}")
    if not all(MIN_NODE_SCORE <= score <= MAX_NODE_SCORE for score in normalized):
        trial.fail(rule, f"{scores} became {list(normalized)}")


def _score(
    trial: Trial, state: CycleState, group: PodGroupInfo, assignments: PodGroupAssignments
) -> int:
    with trial.calling("score_placement"):
        score: Any = trial.plugin.score_placement(state, group, assignments)
    if isinstance(score, bool) or not isinstance(score, int):
        trial.fail("the score of a placement is an integer", f"it is {score!r}")
    return int(score)
