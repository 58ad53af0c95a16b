"""Resources: what the pod asks for, and the most that is free on any node of the group."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kubesched.api.pod_requests import fit_requested
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY
from kubesched.explain.amounts import shown_amount
from kubesched.explain.details.context import Detail, DetailContext, nearest

__all__ = ["INSUFFICIENT", "TOO_MANY_PODS", "describe_room"]

INSUFFICIENT = "Insufficient "
TOO_MANY_PODS = "Too many pods"
_EVERYWHERE = (CPU, MEMORY, EPHEMERAL_STORAGE, "pods")


def describe_room(context: DetailContext, reason: str) -> Detail:
    if reason == TOO_MANY_PODS:
        return _too_many_pods(context)
    if not reason.startswith(INSUFFICIENT):
        return Detail()
    nodes = context.rejected
    resource = reason.removeprefix(INSUFFICIENT)
    allocatable = nodes.allocatable(resource)
    free = allocatable - nodes.requested(resource)
    best, largest = int(np.argmax(free)), int(np.argmax(allocatable))
    most = max(int(free[best]), 0)
    asked = shown_amount(resource, fit_requested(context.pod).amount(resource))
    available = f"{shown_amount(resource, most)} on {nodes.names[best]}"
    detail = ""
    if fit_requested(context.pod).amount(resource) > int(allocatable[largest]):
        shown = shown_amount(resource, int(allocatable[largest]))
        detail = f"even empty, none of these has more than {shown} (on {nodes.names[largest]})"
    there_is = _what_there_is(context, resource, most, best)
    says = f"{reason}: asks {asked}{_asked_by(context, resource)}, and {there_is}"
    return Detail(asked, available, detail, says, reason)


def _asked_by(context: DetailContext, resource: str) -> str:
    """Who asks for it, where that is not what the containers ask for together."""
    pod = context.pod
    asked = fit_requested(pod).amount(resource)
    plain = replace(pod, spec=replace(pod.spec, overhead={}))
    overhead = asked - fit_requested(plain).amount(resource)
    parts = []
    for each in pod.spec.init_containers:
        alone = replace(plain, spec=replace(plain.spec, init_containers=(), containers=(each,)))
        without = replace(plain, spec=replace(plain.spec, init_containers=()))
        if (
            each.restart_policy != "Always"
            and fit_requested(alone).amount(resource) == asked - overhead
            and fit_requested(without).amount(resource) < asked - overhead
        ):
            parts.append(f"for init container {each.name} alone")
            break
    if overhead:
        parts.append(f"{shown_amount(resource, overhead)} of it overhead of its runtime class")
    return f" ({', '.join(parts)})" if parts else ""


def _what_there_is(context: DetailContext, resource: str, most: int, best: int) -> str:
    """What is free, or why it can never be enough."""
    asked = fit_requested(context.pod).amount(resource)
    allocatable = context.nodes.allocatable(resource)
    largest = int(np.argmax(allocatable))
    if not int(allocatable[largest]):
        other = nearest(resource, _offered(context)) if resource not in _EVERYWHERE else ""
        hint = f"; did you mean {other}?" if other else ""
        return f"no node offers any{hint}"
    if asked > int(allocatable[largest]):
        shown = shown_amount(resource, int(allocatable[largest]))
        return f"even the largest node, {context.nodes.names[largest]}, has only {shown} in all"
    name = context.rejected.names[best]
    if most == 0:
        return f"none is free on {name}" if len(context.positions) == 1 else "none is free"
    return f"at most {shown_amount(resource, most)} is free (on {name})"


def _offered(context: DetailContext) -> list[str]:
    """Further resources that some node has."""
    found = {
        name
        for node in context.nodes
        if node.node is not None
        for name in node.node.status.allocatable
    }
    return sorted(found.difference(_EVERYWHERE))


def _too_many_pods(context: DetailContext) -> Detail:
    nodes = context.rejected
    free = nodes.allowed_pods - nodes.pod_count
    best = int(np.argmax(free))
    allowed, name = int(nodes.allowed_pods[best]), nodes.names[best]
    available = f"{max(int(free[best]), 0)} of {allowed} on {name}"
    says = f"Too many pods: {name} runs as many as it may, {int(nodes.pod_count[best])}"
    if allowed == 0:
        says = f"Too many pods: {name} takes none at all (it offers 0 pods)"
    return Detail("1 pod", available, "", says, TOO_MANY_PODS)
