"""The rule about `ignores`: removing an ignored pod from a node changes no result."""

from __future__ import annotations

from kubesched.framework import CycleState, PodInfo, overrides
from kubesched.testing.checks.filter_and_score import run_pre_filter
from kubesched.testing.checks.trial import Trial
from kubesched.testing.objects.views import same_status

__all__ = ["check_ignored_pods"]


def check_ignored_pods(trial: Trial) -> None:
    """Check that results do not depend on pods that the plugin ignores."""
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
