"""Answers that are kept or found in another way, against those that are not: all say the same.

Pods that were tried before are looked at once more, as `--verify-engine` does with each attempt.
What was kept for them may be from long ago, and all that happened since must have been noticed.
Besides, plugins must say of one node at a time what they say of all of them at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.pod import PodStatus
from kubesched.errors import KubeschedError
from kubesched.framework import SUCCESS, CycleState, NodeView, PodInfo, Status
from kubesched.scheduler.runtime.framework import Framework
from kubesched.scheduler.search.verification import EngineMismatchError, VerifyingSearch
from tests.fault_injection.replica import ReplicaProcess

__all__ = ["answer_differences"]

_PODS_ASKED = 16


def answer_differences(process: ReplicaProcess, most: int = _PODS_ASKED) -> Iterator[str]:
    """Sound at any moment: nothing is awaited in between, so all see the same."""
    scheduler = process.scheduler
    snapshot = scheduler.cache.update_snapshot()
    search = VerifyingSearch(snapshot, random.Random(0))
    for pod in [*process.attempted_pods.values()][-most:]:
        framework, pod_info = scheduler.profiles[pod.spec.scheduler_name], PodInfo(_as_new(pod))
        try:
            yield from _differing_forms(framework, pod_info, snapshot.nodes)
            search.schedule_pod(framework, CycleState(), pod_info)
        except EngineMismatchError as error:
            yield " ".join([str(error), *error.__notes__])
        except KubeschedError:
            continue  # it fits nowhere, and both say so


def _as_new(pod: Pod) -> Pod:
    """As it came: what is in its status may be of no use for others, and nothing is kept then."""
    spec = replace(pod.spec, node_name="", scheduling_group=None)
    return replace(pod, spec=spec, status=PodStatus())


def _differing_forms(framework: Framework, pod_info: PodInfo, nodes: NodeView) -> Iterator[str]:
    state, pod = CycleState(), pod_info.pod
    if not len(nodes) or not framework.run_pre_filter(state, pod_info).status.is_success:
        return
    fits = np.ones(len(nodes), dtype=bool)
    for plugin in framework.plugins.filters:
        if plugin.name in state.skip_filter:
            continue
        rejections = plugin.filter_nodes(state, pod, nodes)
        codes = np.zeros(len(nodes), int) if rejections.codes is None else rejections.codes
        fits &= codes == 0
        for code, node in zip(codes.tolist(), nodes, strict=True):
            of_many = rejections.statuses[code - 1] if code else SUCCESS
            of_one = plugin.filter(state, pod, node)
            if _said(of_many) != _said(of_one):
                told = f"{_said(of_one)} of {node.name}, and among others {_said(of_many)}"
                yield f"{plugin.name} says to {pod.metadata.name} {told}"
    fitting = nodes.subset(fits)
    if not len(fitting):
        return
    framework.run_pre_score(state, pod_info, fitting)
    for plugin in framework.plugins.scores:
        if plugin.name in state.skip_score:
            continue
        scores = plugin.score_nodes(state, pod, fitting).tolist()
        alone = [plugin.score(state, pod, node) for node in fitting]
        if scores != alone:
            yield f"{plugin.name} gives {pod.metadata.name} scores of {alone}, and {scores} at once"


def _said(status: Status) -> tuple[str, str]:
    return status.code.name, status.message
