"""Checks of cached answers against a full search, and of the two forms of each plugin.

Pods that were tried before are filtered and scored again with both searches, as `--verify-engine`
does with each attempt. Their cached answers may be old, and every change since must have
invalidated them. The one-node form of a plugin must agree with its many-node form.
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
    """Return where answers differ. Nothing is awaited, so all see the same state."""
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
            continue  # it fits no node, and both searches agree


def _as_new(pod: Pod) -> Pod:
    """Return the pod without node, group and status, which would keep answers from being cached."""
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
            if _code_and_message(of_many) != _code_and_message(of_one):
                one, many = _code_and_message(of_one), _code_and_message(of_many)
                forms = f"{one} for {node.name}, and {many} in many-node form"
                yield f"{plugin.name} answers {pod.metadata.name} with {forms}"
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
            forms = f"{alone}, and {scores} in many-node form"
            yield f"{plugin.name} scores {pod.metadata.name} {forms}"


def _code_and_message(status: Status) -> tuple[str, str]:
    return status.code.name, status.message
