"""Rules about PostFilter, which runs when no node fits the pod."""

from __future__ import annotations

import asyncio

from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import (
    CycleState,
    Diagnosis,
    NominatingMode,
    PodInfo,
    PostFilterResult,
    Status,
    overrides,
)
from kubesched.scheduler.config import default_profile
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.runtime.framework import Framework
from kubesched.testing.checks.trial import Trial

__all__ = ["check_post_filter"]

_NO_ROOM = Status.unschedulable("no room").blame("Other")


def check_post_filter(trial: Trial) -> None:
    """Run PostFilter in a cluster where the in-tree plugins rejected every node."""
    if overrides(trial.plugin, "post_filter"):
        run(_run_post_filter(trial))


async def _run_post_filter(trial: Trial) -> None:
    trial.handle.clock = current_clock()
    framework = Framework(default_profile(), IN_TREE_PLUGINS, trial.handle.services())
    trial.handle.runner = framework
    state, pod_info = CycleState(), PodInfo(trial.pod)
    framework.run_pre_filter(state, pod_info)
    with trial.calling("pre_filter"):
        trial.plugin.pre_filter(state, pod_info, trial.view)
    diagnosis = Diagnosis(trial.view.table.names)
    for name in trial.view.names:
        diagnosis.add_node_status(name, _NO_ROOM)
    with trial.calling("post_filter"):
        result = trial.plugin.post_filter(state, pod_info, diagnosis)
        # Evictions are background tasks of the attempt; wait, so that their failures are raised.
        this = asyncio.current_task()
        await asyncio.gather(*(task for task in asyncio.all_tasks() if task is not this))
    if not isinstance(result, PostFilterResult):
        trial.fail(
            "statuses are legal for the extension point",
            f"post_filter answered {result!r}, which is not a PostFilterResult",
        )
    trial.check_status("post_filter", result.status)
    nominating = result.nominating
    if nominating is None or nominating.mode is NominatingMode.NOOP or not nominating.node_name:
        return
    if nominating.node_name not in list(trial.view.names):
        trial.fail("a nomination names a node", f"there is no node {nominating.node_name!r}")
