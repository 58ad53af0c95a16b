"""What preemption would do: who would go, or why nobody may, and at which priority it could."""

from __future__ import annotations

import itertools

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.explain.model import ClusterModel, Removal, SearchOutcome
from kubesched.explain.results import Preemption
from kubesched.framework import CycleState, PodInfo

__all__ = ["explain_preemption"]

_MOST_PRIORITIES = 16
_QUESTIONS = itertools.count()


def explain_preemption(model: ClusterModel, pod: Pod, outcome: SearchOutcome) -> Preemption | None:
    """What PostFilter says to a pod that fits nowhere; None if the profile has none."""
    if outcome.diagnosis is None or not model.framework_of(pod).post_filter_plugins:
        return None
    # Plugins remember for whom they evict by uid, and this is only a question.
    pod = _asked_as_another(pod)
    with model.changed([pod]):
        first = _post_filter(model, pod, outcome)
        if first.possible:
            return replace(first, victims=_victims(model, pod, first.node))
        needed = _priority_needed(model, pod)
    return replace(first, priority_needed=needed)


def _asked_as_another(pod: Pod) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, uid=f"question-{next(_QUESTIONS)}"))


def _post_filter(model: ClusterModel, pod: Pod, outcome: SearchOutcome) -> Preemption:
    framework = model.framework_of(pod)
    diagnosis = outcome.diagnosis
    assert diagnosis is not None
    result = framework.run_post_filter(outcome.state, PodInfo(pod), diagnosis)
    node = result.nominating.node_name if result.nominating is not None else ""
    return Preemption(
        possible=result.status.is_success and bool(node), node=node, message=result.status.message
    )


def _priority_needed(model: ClusterModel, pod: Pod) -> int | None:
    """The lowest priority above the pod's own with which it could make room."""
    own = pod_priority(pod)
    above = sorted(
        {pod_priority(each) + 1 for each in model.objects.list(Pod) if each.spec.node_name}
    )
    for priority in [each for each in above if each > own][:_MOST_PRIORITIES]:
        spec = replace(pod.spec, priority=priority, preemption_policy="PreemptLowerPriority")
        raised = _asked_as_another(replace(pod, spec=spec))
        with model.changed([raised]):
            outcome = model.search(raised)
            if outcome.node_name:
                continue
            if outcome.diagnosis is not None and _post_filter(model, raised, outcome).possible:
                return priority
    return None


def _victims(model: ClusterModel, pod: Pod, node_name: str) -> tuple[str, ...]:
    """Whom to evict on the node: as the reference does, all are taken off and put back in turn."""
    node = model.snapshot.get(node_name)
    priority = pod_priority(pod)
    lower = sorted(
        (each.pod for each in node.pods if pod_priority(each.pod) < priority),
        key=lambda each: (-pod_priority(each), each.metadata.name),
    )
    gone = list(lower)
    for candidate in lower:
        trial = [each for each in gone if each is not candidate]
        if _fits(model, pod, node_name, trial):
            gone = trial
    return tuple(f"{each.metadata.namespace}/{each.metadata.name}" for each in gone)


def _fits(model: ClusterModel, pod: Pod, node_name: str, gone: list[Pod]) -> bool:
    removals = [Removal(Pod, each.metadata.name, each.metadata.namespace) for each in gone]
    with model.changed(removals):
        framework = model.framework_of(pod)
        state = CycleState()
        pod_info = PodInfo(pod)
        outcome = framework.run_pre_filter(state, pod_info)
        node = model.snapshot.get(node_name)
        return outcome.status.is_success and framework.dry_run.fits_on(state, pod_info, node)
