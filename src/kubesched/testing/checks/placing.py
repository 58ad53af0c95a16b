"""Rules about the methods that run after a node is chosen: Reserve, Permit, PreBind, Bind."""

from __future__ import annotations

from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import CycleState, ExtensionPoint, PodInfo, Wait, extension_points
from kubesched.framework.pod_info import assigned_to
from kubesched.testing.checks.filter_and_score import passing
from kubesched.testing.checks.trial import Trial

__all__ = ["check_placing"]

_POINTS = {
    ExtensionPoint.RESERVE,
    ExtensionPoint.PERMIT,
    ExtensionPoint.PRE_BIND,
    ExtensionPoint.BIND,
    ExtensionPoint.POST_BIND,
}


def check_placing(trial: Trial) -> None:
    """Run the methods for a node that passes the plugin's own filter, in virtual time."""
    if not extension_points(trial.plugin) & _POINTS:
        return
    state = CycleState()
    nodes = passing(trial, state)
    if not len(nodes):
        return
    with trial.calling("pre_score"):
        trial.plugin.pre_score(state, PodInfo(trial.pod), nodes)
    run(_place(trial, state, trial.rng.choice(list(nodes.names))))
    # Unreserve must work without Reserve: Reserve of an earlier plugin may have failed.
    with trial.calling("unreserve"):
        trial.plugin.unreserve(CycleState(), trial.pod, nodes.info(0).name)


async def _place(trial: Trial, state: CycleState, node_name: str) -> None:
    plugin, pod = trial.plugin, assigned_to(trial.pod, node_name)
    trial.handle.clock = current_clock()
    with trial.calling("reserve"):
        answer = plugin.reserve(state, pod, node_name)
    if trial.check_status("reserve", answer).is_success and _permitted(trial, state, node_name):
        await _bind(trial, state, node_name)
    with trial.calling("unreserve"):
        plugin.unreserve(state, pod, node_name)


def _permitted(trial: Trial, state: CycleState, node_name: str) -> bool:
    with trial.calling("permit"):
        answer = trial.plugin.permit(state, trial.pod, node_name)
    if isinstance(answer, Wait):
        if answer.timeout_ns < 0:
            trial.fail("a wait has an end", f"permit answered {answer!r}")
        return True
    return trial.check_status("permit", answer).is_success


async def _bind(trial: Trial, state: CycleState, node_name: str) -> None:
    plugin, pod, points = trial.plugin, trial.pod, extension_points(trial.plugin)
    if ExtensionPoint.PRE_BIND in points:
        with trial.calling("pre_bind_pre_flight"):
            answer = plugin.pre_bind_pre_flight(state, pod, node_name)
        if trial.check_status("pre_bind_pre_flight", answer).is_success:
            with trial.calling("pre_bind"):
                answer = await plugin.pre_bind(state, pod, node_name)
            if not trial.check_status("pre_bind", answer).is_success:
                return
    if ExtensionPoint.BIND in points:
        with trial.calling("bind"):
            answer = await plugin.bind(state, pod, node_name)
        trial.check_status("bind", answer)
    with trial.calling("post_bind"):
        await plugin.post_bind(state, pod, node_name)
