"""Compares a cluster with the state that a plan expects, before the plan begins or continues."""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import is_terminating, pod_key
from kubesched.plan.applying.plan_document import PlanDocument
from kubesched.plan.applying.plan_guard import is_unready
from kubesched.plan.applying.plan_journal import PlanJournal
from kubesched.plan.reading.pinned_pods import follows_node

__all__ = ["check_plan"]

_ENDED = ("Succeeded", "Failed")


def check_plan(
    plan: PlanDocument, journal: PlanJournal, nodes: Mapping[str, Node], pods: Mapping[str, Pod]
) -> list[str]:
    """Return the differences between the cluster and the plan as sentences. `pods` are by uid."""
    return [*_node_problems(plan, journal, nodes), *_pod_problems(plan, journal, pods)]


def _node_problems(
    plan: PlanDocument, journal: PlanJournal, nodes: Mapping[str, Node]
) -> list[str]:
    problems = []
    left = [move for move in plan.moves if move.wave > journal.waves_done]
    targets = {move.target for move in left}
    for name in sorted(plan.nodes):
        node = nodes.get(name)
        if node is None:
            problems.append(f"node {name} is gone")
        elif name in targets and is_unready(node):
            problems.append(f"node {name} is not ready")
        elif name in targets and node.spec.unschedulable and name not in journal.cordoned:
            problems.append(f"node {name} is cordoned, but the plan places pods there")
    return problems


def _pod_problems(plan: PlanDocument, journal: PlanJournal, pods: Mapping[str, Pod]) -> list[str]:
    problems = []
    for move in plan.moves:
        if move.wave <= journal.waves_done or move.uid in journal.evicted:
            continue
        pod = pods.get(move.uid)
        if pod is None or pod.status.phase in _ENDED:
            problems.append(f"pod {move.pod} is gone, or is another one")
        elif pod.spec.node_name != move.source:
            problems.append(f"pod {move.pod} is on node {pod.spec.node_name}, not {move.source}")
        elif is_terminating(pod):
            problems.append(f"pod {move.pod} is being deleted")
    planned = {move.uid for move in plan.moves}
    emptied = set(plan.emptied)
    problems += [
        f"pod {pod_key(pod)} is on node {pod.spec.node_name}, which is to be emptied"
        for pod in sorted(pods.values(), key=pod_key)
        if pod.spec.node_name in emptied
        and pod.metadata.uid not in planned
        and pod.status.phase not in _ENDED
        and not is_terminating(pod)
        and not follows_node(pod)
    ]
    return problems
