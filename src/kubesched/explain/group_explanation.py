"""Why a pod group waits: how many of its members exist, and how many fit together.

The members are placed one after another on the model, as in the scheduler's trial. If the group
must be in one topology domain, each domain is tried. Preemption is not considered.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kubesched.api import Pod, PodGroup
from kubesched.api.pod_facts import pod_priority
from kubesched.explain.clusters.cluster_model import ClusterModel, ExplainError
from kubesched.explain.copies import Copies
from kubesched.explain.pending_report import PendingReport
from kubesched.explain.rendering.result import Result
from kubesched.framework import NodeView
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.plugins.helpers.wording import nearest, plural

__all__ = ["PodGroupDomain", "PodGroupExplanation", "explain_group", "members_of"]

_FINISHED: Final = ("Succeeded", "Failed")
_ANYWHERE: Final = ""


class PodGroupDomain(Result, frozen=True, kw_only=True):
    """A topology domain, and how many pending members fit there together."""

    name: str
    nodes: int
    fits: int


class PodGroupExplanation(Result, frozen=True, kw_only=True):
    """The state of a pod group, and what it waits for."""

    group: str  # namespace/name
    verdict: str  # scheduled, incomplete, fits or pending
    summary: str
    policy: str  # gang or basic
    min_count: int  # 1 for basic
    pods: int  # members that have not finished
    scheduled: int  # members on nodes
    fits: int  # pending members that fit together, in the best domain
    topology_key: str = ""
    domains: tuple[PodGroupDomain, ...] = ()  # the best first; empty without a topology key
    message: str = ""  # why the next member does not fit
    condition: str = ""  # the message of the condition PodGroupScheduled
    members: PendingReport = PendingReport()  # the pending members, each explained by itself


def members_of(model: ClusterModel, namespace: str, name: str) -> list[Pod]:
    """Return the members of a group that have not finished, in the order of their attempts."""
    found = [
        pod
        for pod in model.objects.list(Pod, namespace)
        if group_name_of(pod) == name and pod.status.phase not in _FINISHED
    ]
    return sorted(found, key=lambda pod: (-pod_priority(pod), pod.metadata.name))


def explain_group(
    model: ClusterModel, namespace: str, name: str, members: PendingReport
) -> PodGroupExplanation:
    """Explain a group; `members` has the causes of its pending members.

    Raises:
        ExplainError: there is no such group.
    """
    group = model.objects.get(PodGroup, name, namespace)
    pods = members_of(model, namespace, name)
    if group is None:
        raise _not_found(model, namespace, name, len(pods))
    gang = group.spec.scheduling_policy.gang
    least = 1 if gang is None else gang.min_count
    scheduled = sum(bool(pod.spec.node_name) for pod in pods)
    constraints = group.spec.scheduling_constraints
    key = constraints.topology[0].key if constraints and constraints.topology else ""
    tried = _tried_domains(model, pods, key)
    fits, message = (tried[0][2], tried[0][3]) if tried else (0, f"no node has the label {key}")
    verdict, summary = _verdict(pods, scheduled, least, fits, key)
    return PodGroupExplanation(
        group=f"{namespace}/{name}",
        verdict=verdict,
        summary=summary,
        policy="basic" if gang is None else "gang",
        min_count=least,
        pods=len(pods),
        scheduled=scheduled,
        fits=fits,
        topology_key=key,
        domains=tuple(
            PodGroupDomain(name=domain, nodes=count, fits=fit)
            for domain, count, fit, _ in tried
            if domain != _ANYWHERE
        ),
        message=message,
        condition=_condition_message(group),
        members=members,
    )


def _condition_message(group: PodGroup) -> str:
    for each in group.status.conditions:
        if each.type == "PodGroupScheduled":
            return each.message
    return ""


def _tried_domains(
    model: ClusterModel, pods: list[Pod], key: str
) -> list[tuple[str, int, int, str]]:
    """Return each domain with its nodes, the pods that fit, and a reason; the best domain first."""
    pending = [pod for pod in pods if not pod.spec.node_name]
    bound = [pod for pod in pods if pod.spec.node_name]
    tried = [
        (domain, len(nodes), *_place(model, pending, nodes))
        for domain, nodes in _domains(model, key, bound)
    ]
    return sorted(tried, key=lambda each: -each[2])


def _verdict(pods: list[Pod], scheduled: int, least: int, fits: int, key: str) -> tuple[str, str]:
    pending, needed = len(pods) - scheduled, max(least - scheduled, 1)
    where = f" in one domain of {key}" if key else ""
    if not pending and scheduled >= least:
        return "scheduled", f"all {plural(scheduled, 'pod')} have a node"
    if len(pods) < least:
        missing = least - len(pods)
        return "incomplete", (
            f"the group needs {least} pods, and {len(pods)} exist: "
            f"it waits for {plural(missing, 'more pod')}"
        )
    if fits >= needed:
        return "fits", f"{fits} of {plural(pending, 'pending pod')} fit together{where}"
    return "pending", (
        f"{needed} of {plural(pending, 'pending pod')} must fit together{where}, and {fits} do"
    )


def _domains(model: ClusterModel, key: str, bound: list[Pod]) -> Iterator[tuple[str, NodeView]]:
    """Yield the sets of nodes on which the group is tried."""
    snapshot = model.snapshot
    if not key:
        yield _ANYWHERE, snapshot.nodes
        return
    nodes = [snapshot.get(pod.spec.node_name) for pod in bound]
    pinned = {node.labels[key] for node in nodes if node is not None and key in node.labels}
    values = {node.labels[key] for node in snapshot.nodes if key in node.labels}
    for value in sorted(pinned or values):
        yield value, snapshot.nodes.subset(snapshot.nodes.label_equals(key, value))


def _place(model: ClusterModel, pods: list[Pod], nodes: NodeView) -> tuple[int, str]:
    """Return how many pods fit these nodes together, and why the next one does not fit."""
    copies, message = Copies(model), ""
    try:
        with model.snapshot.restricted_to(nodes):
            for number, pod in enumerate(pods):
                problem = copies.try_one(pod, number)
                message = message or problem
        return len(copies), message
    finally:
        copies.take_back()


def _not_found(model: ClusterModel, namespace: str, name: str, pods: int) -> ExplainError:
    known = sorted(
        f"{each.metadata.namespace}/{each.metadata.name}" for each in model.objects.list(PodGroup)
    )
    error = ExplainError(f"no PodGroup {namespace}/{name} among {len(known)}")
    if pods:
        error.add_note(f"{plural(pods, 'pod')} of the namespace name it and wait for it")
    elif near := nearest(f"{namespace}/{name}", known):
        error.add_note(f"did you mean {near}?")
    return error
