"""Rules about Filter and Score: equal results of both forms, cloned states, score ranges."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.framework import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    SUCCESS,
    CycleState,
    NodeInfo,
    NodeView,
    OnlyNodes,
    Plugin,
    PodInfo,
    Rejections,
    Status,
    overrides,
)
from kubesched.testing.checks.trial import Trial, pick
from kubesched.testing.objects.random_clusters import random_pod
from kubesched.testing.objects.views import same_status

__all__ = [
    "check_dry_runs",
    "check_filter",
    "check_score",
    "described",
    "filter_each",
    "run_pre_filter",
    "run_pre_score",
    "score_each",
]

AGREE = "scalar and vector answers agree"


def check_filter(trial: Trial) -> None:
    """Check that both forms of Filter agree on all nodes, on a subset, and in any order."""
    _check_concern(trial)
    if not overrides(trial.plugin, "filter"):
        run_pre_filter(trial, CycleState(), trial.plugin, trial.view)
        return
    state = CycleState()
    if not run_pre_filter(trial, state, trial.plugin, trial.view):
        return
    each = filter_each(trial, trial.plugin, state, trial.view)
    for indexes in _selections(trial, len(trial.view)):
        part = trial.view.at_rows(trial.view.rows[indexes])
        together = _filter_together(trial, state, part)
        for index, status in zip(indexes.tolist(), together, strict=True):
            if not same_status(each[index], status):
                trial.fail(
                    AGREE,
                    f"on {trial.view.info(index).name} filter says {described(each[index])} "
                    f"and filter_nodes says {described(status)}",
                )


def _check_concern(trial: Trial) -> None:
    """Check that PreFilter skips a pod that does not concern the plugin."""
    if trial.plugin.concerns(trial.pod.spec):
        return
    with trial.calling("pre_filter"):
        answer = trial.plugin.pre_filter(CycleState(), PodInfo(trial.pod), trial.view)
    if not isinstance(answer, Status) or not answer.is_skip:
        shown = described(answer) if isinstance(answer, Status) else repr(answer)
        trial.fail("what does not concern a plugin is skipped", f"pre_filter says {shown}")


def check_score(trial: Trial) -> None:
    """Check that both forms of Score agree, and that normalised scores are in range."""
    plugin = trial.plugin
    if not overrides(plugin, "score"):
        return
    state = CycleState()
    nodes = passing(trial, state)
    if not len(nodes) or not run_pre_score(trial, state, plugin, nodes):
        return
    each = score_each(trial, plugin, state, nodes)
    for indexes in _selections(trial, len(nodes)):
        part = nodes.at_rows(nodes.rows[indexes])
        with trial.calling("score_nodes"):
            scores = plugin.score_nodes(state, trial.pod, part)
        _check_array(trial, "score_nodes", scores, len(part))
        if scores.tolist() != [each[index] for index in indexes.tolist()]:
            trial.fail(
                AGREE,
                f"score says {[each[index] for index in indexes.tolist()]} "
                f"and score_nodes says {scores.tolist()} on {list(part.names)}",
            )
    with trial.calling("normalize_score"):
        final = plugin.normalize_score(state, trial.pod, nodes, np.asarray(each, dtype=np.int64))
    _check_array(trial, "normalize_score", final, len(nodes))
    if final.min() < MIN_NODE_SCORE or final.max() > MAX_NODE_SCORE:
        trial.fail(
            "normalised scores are within 0..100",
            f"scores {each} became {final.tolist()}",
        )


def check_dry_runs(trial: Trial) -> None:
    """Check that a cloned state is independent, and that adding and removing a pod cancel out."""
    plugin = trial.plugin
    if not overrides(plugin, "add_pod") or not overrides(plugin, "filter"):
        return
    state = CycleState()
    if not run_pre_filter(trial, state, plugin, trial.view):
        return
    before = filter_each(trial, plugin, state, trial.view)
    index = pick(trial.rng, trial.view)
    node = trial.view.info(index)
    added = random_pod(trial.rng, "newcomer", claims=trial.cluster.claims, node_name=node.name)
    # Ports of a node are a set: two pods with one port would not survive the round trip.
    portless = tuple(replace(container, ports=()) for container in added.spec.containers)
    added = replace(added, spec=replace(added.spec, containers=portless, init_containers=()))
    _round_trip(trial, state, before, index, PodInfo(added), ("add_pod", "remove_pod"))
    if node.pods:
        resident = trial.rng.choice(node.pods)
        _round_trip(trial, state, before, index, resident, ("remove_pod", "add_pod"))


def _round_trip(
    trial: Trial,
    state: CycleState,
    before: list[Status],
    index: int,
    moved: PodInfo,
    steps: tuple[str, str],
) -> None:
    clone = state.clone()
    node = trial.view.info(index).clone()
    _move(trial, clone, node, moved, steps[0])
    infos = [node if place == index else info for place, info in enumerate(trial.view)]
    for info in infos:
        with trial.calling("filter"):
            trial.check_status("filter", trial.plugin.filter(clone, trial.pod, info))
    _compare(trial, state, before, f"{steps[0]} on a clone changed the original")
    _move(trial, clone, node, moved, steps[1])
    _compare(trial, clone, before, f"{steps[0]} and {steps[1]} left a trace", (index, node))


def _move(trial: Trial, state: CycleState, node: NodeInfo, moved: PodInfo, step: str) -> None:
    """Change the node, then call the plugin, as a dry run does."""
    if step == "add_pod":
        node.add_pod(moved)
    else:
        node.remove_pod(moved.uid)
    with trial.calling(step):
        status = getattr(trial.plugin, step)(state, trial.pod, moved, node)
    if not trial.check_status(step, status).is_success:
        trial.fail("statuses are legal for the extension point", f"{step} says {described(status)}")


def _compare(
    trial: Trial,
    state: CycleState,
    before: list[Status],
    what: str,
    changed: tuple[int, NodeInfo] | None = None,
) -> None:
    after = filter_each(trial, trial.plugin, state, trial.view)
    if changed is not None:
        index, node = changed
        with trial.calling("filter"):
            after[index] = trial.plugin.filter(state, trial.pod, node)
    together = _filter_together(trial, state, trial.view)
    for place, status in enumerate(before):
        for now in (after[place], together[place]):
            if not same_status(status, now):
                name, was = trial.view.info(place).name, described(status)
                trial.fail(
                    "a cloned state is independent",
                    f"{what}: on {name} {was} became {described(now)}",
                )


def run_pre_filter(trial: Trial, state: CycleState, plugin: Plugin, view: NodeView) -> bool:
    """Run PreFilter and check its result; return whether Filter has to run."""
    with trial.calling("pre_filter", view):
        answer = plugin.pre_filter(state, PodInfo(trial.pod), view)
    if isinstance(answer, OnlyNodes):
        return True
    return trial.check_status("pre_filter", answer).is_success


def filter_each(trial: Trial, plugin: Plugin, state: CycleState, view: NodeView) -> list[Status]:
    with trial.calling("filter", view):
        answers = [plugin.filter(state, trial.pod, info) for info in view]
    return [trial.check_status("filter", status) for status in answers]


def passing(trial: Trial, state: CycleState) -> NodeView:
    """Return the nodes that pass the plugin's own filter, as in a scheduling attempt."""
    plugin, view = trial.plugin, trial.view
    with trial.calling("pre_filter"):
        answer = plugin.pre_filter(state, PodInfo(trial.pod), view)
    keep = np.ones(len(view), dtype=bool)
    if isinstance(answer, OnlyNodes):
        keep = np.array([name in answer.names for name in view.names], dtype=bool)
    elif not answer.is_success:
        return view if answer.is_skip else view.subset(~keep)
    if overrides(plugin, "filter"):
        answers = filter_each(trial, plugin, state, view)
        keep &= np.array([status.is_success for status in answers], dtype=bool)
    return view.subset(keep)


def _filter_together(trial: Trial, state: CycleState, view: NodeView) -> list[Status]:
    with trial.calling("filter_nodes"):
        rejections = trial.plugin.filter_nodes(state, trial.pod, view)
    if not isinstance(rejections, Rejections):
        trial.fail(AGREE, f"filter_nodes answered {rejections!r}, which is not Rejections")
    codes = rejections.codes
    if codes is not None:
        if codes.shape != (len(view),):
            trial.fail(AGREE, f"filter_nodes gave {codes.shape} codes for {len(view)} nodes")
        if len(codes) and int(codes.max()) > len(rejections.statuses):
            trial.fail(AGREE, f"filter_nodes gave code {codes.max()}, which has no status")
    answers = [rejections.status(index) or SUCCESS for index in range(len(view))]
    return [trial.check_status("filter_nodes", status) for status in answers]


def run_pre_score(trial: Trial, state: CycleState, plugin: Plugin, nodes: NodeView) -> bool:
    with trial.calling("pre_score", nodes):
        status = plugin.pre_score(state, PodInfo(trial.pod), nodes)
    return trial.check_status("pre_score", status).is_success


def score_each(trial: Trial, plugin: Plugin, state: CycleState, nodes: NodeView) -> list[int]:
    with trial.calling("score", nodes):
        scores: list[Any] = [plugin.score(state, trial.pod, info) for info in nodes]
    for score in scores:
        if isinstance(score, bool) or not isinstance(score, int | np.integer):
            trial.fail("scores are whole numbers", f"score answered {score!r}")
    return [int(score) for score in scores]


def _check_array(trial: Trial, method: str, scores: object, count: int) -> None:
    if not isinstance(scores, np.ndarray) or scores.dtype.kind not in "iu":
        trial.fail("scores are whole numbers", f"{method} answered {scores!r}")
    if scores.shape != (count,):
        trial.fail(AGREE, f"{method} gave {scores.shape} scores for {count} nodes")


def _selections(trial: Trial, count: int) -> list[NDArray[np.intp]]:
    """Return indexes of all nodes, of one node, and of a random subset in random order."""
    shuffled = trial.rng.sample(range(count), trial.rng.randint(1, count))
    alone = [trial.rng.randrange(count)]
    return [np.asarray(places, dtype=np.intp) for places in (range(count), alone, shuffled)]


def described(status: Status) -> str:
    reasons = f" {list(status.all_reasons)}" if status.all_reasons else ""
    return f"{status.code.label}{reasons}"
