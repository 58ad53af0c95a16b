"""Rules about `pods_matter` and `ignores`: what a plugin says when pods leave a node."""

from __future__ import annotations

import numpy as np

from kubesched.framework import (
    CycleState,
    NodeInfo,
    PodInfo,
    PodsMatter,
    Status,
    WhatIfView,
    overrides,
)
from kubesched.testing.checks.judging import passing, run_pre_filter, run_pre_score
from kubesched.testing.checks.trial import Trial
from kubesched.testing.views import filter_together, same_status

__all__ = ["check_ignored_pods", "check_pods_matter"]

_RULE = "pods_matter says what of pods the plugin looks at"


def check_pods_matter(trial: Trial) -> None:
    """A plugin that says it sees pods as totals, or not at all, sees no more of them."""
    _check_filter(trial)
    if trial.plugin.pods_matter is PodsMatter.NOT_AT_ALL and overrides(trial.plugin, "score"):
        _check_score(trial)


def _check_score(trial: Trial) -> None:
    plugin = trial.plugin
    state = CycleState()
    nodes = passing(trial, state)
    if not len(nodes) or not run_pre_score(trial, state, plugin, nodes):
        return
    for node in nodes:
        emptier = _with_fewer_pods(trial, node)
        with trial.calling("score"):
            before = plugin.score(state, trial.pod, node)
            after = plugin.score(state, trial.pod, emptier)
        if before != after:
            trial.fail(_RULE, f"{node.name} scored {before}, and {after} without some of its pods")


def _check_filter(trial: Trial) -> None:
    plugin = trial.plugin
    if plugin.pods_matter is PodsMatter.IN_DETAIL or not overrides(plugin, "filter"):
        return
    if not overrides(plugin, "filter_nodes") and plugin.pods_matter is PodsMatter.AS_TOTALS:
        trial.fail(_RULE, "totals are read through columns: filter_nodes is missing")
    if overrides(plugin, "add_pod") or overrides(plugin, "remove_pod"):
        trial.fail(_RULE, "add_pod and remove_pod follow single pods")
    state = CycleState()
    if not run_pre_filter(trial, state, plugin, trial.view):
        return
    nodes = [_with_fewer_pods(trial, node) for node in trial.view]
    with trial.calling("filter"):
        each = [plugin.filter(state, trial.pod, node) for node in nodes]
    if plugin.pods_matter is PodsMatter.NOT_AT_ALL:
        with trial.calling("filter"):
            other = [plugin.filter(state, trial.pod, node) for node in trial.view]
        _compare(trial, nodes, each, other, "with all its pods")
    if overrides(plugin, "filter_nodes"):
        view = _what_if(trial, nodes)
        with trial.calling("filter_nodes"):
            together = filter_together(plugin, state, trial.pod, view)
        _compare(trial, nodes, each, together, "when only totals are changed")


def check_ignored_pods(trial: Trial) -> None:
    """A pod that a plugin says it ignores may come and go unnoticed."""
    plugin = trial.plugin
    if not overrides(plugin, "ignores") or not overrides(plugin, "filter"):
        return
    state = CycleState()
    if not run_pre_filter(trial, state, plugin, trial.view):
        return
    for place, node in enumerate(trial.view):
        for other in node.pods:
            with trial.calling("ignores"):
                ignored = plugin.ignores(state, trial.pod, other)
            if ignored:
                _check_ignored(trial, state, place, other)


def _check_ignored(trial: Trial, state: CycleState, place: int, other: PodInfo) -> None:
    plugin, node = trial.plugin, trial.view.info(place)
    copy, without = state.clone(), node.clone()
    without.remove_pod(other.uid)
    with trial.calling("remove_pod"):
        plugin.remove_pod(copy, trial.pod, other, without)
    nodes = [without if index == place else each for index, each in enumerate(trial.view)]
    with trial.calling("filter"):
        before = [plugin.filter(state, trial.pod, each) for each in trial.view]
        after = [plugin.filter(copy, trial.pod, each) for each in nodes]
    for each, one, two in zip(nodes, before, after, strict=True):
        if not same_status(one, two):
            trial.fail(
                "a pod that is ignored makes no difference",
                f"without {other.pod.metadata.name}, {each.name} was told {two.code.label} "
                f"{two.message!r} instead of {one.code.label} {one.message!r}",
            )


def _with_fewer_pods(trial: Trial, node: NodeInfo) -> NodeInfo:
    copy = node.clone()
    for pod_info in node.pods:
        if trial.rng.random() < 0.5:
            copy.remove_pod(pod_info.uid)
    return copy


def _what_if(trial: Trial, nodes: list[NodeInfo]) -> WhatIfView:
    names = trial.view.table.resources.values
    requested = [[node.requested.amount(name) for node in nodes] for name in names]
    return WhatIfView(
        trial.view,
        trial.view.rows,
        np.array(requested, dtype=np.int64),
        np.array([len(node.pods) for node in nodes], dtype=np.int64),
    )


def _compare(
    trial: Trial, nodes: list[NodeInfo], each: list[Status], other: list[Status], when: str
) -> None:
    for node, one, two in zip(nodes, each, other, strict=True):
        if not same_status(one, two):
            trial.fail(
                _RULE,
                f"on {node.name} without some pods it said {one.code.label} {one.message!r}, "
                f"and {two.code.label} {two.message!r} {when}",
            )
