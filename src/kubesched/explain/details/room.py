"""Resources: what the pod asks for, and the most that is free on any node of the group."""

from __future__ import annotations

import numpy as np

from kubesched.api.pod_requests import fit_requested
from kubesched.explain.amounts import shown_amount
from kubesched.explain.details.context import DetailContext

__all__ = ["INSUFFICIENT", "TOO_MANY_PODS", "describe_room"]

INSUFFICIENT = "Insufficient "
TOO_MANY_PODS = "Too many pods"


def describe_room(context: DetailContext, reason: str) -> tuple[str, str, str]:
    nodes = context.rejected
    names = nodes.names
    if reason == TOO_MANY_PODS:
        free = nodes.allowed_pods - nodes.pod_count
        best = int(np.argmax(free))
        allowed = int(nodes.allowed_pods[best])
        return "1 pod", f"{max(int(free[best]), 0)} of {allowed} on {names[best]}", ""
    if not reason.startswith(INSUFFICIENT):
        return "", "", ""
    resource = reason.removeprefix(INSUFFICIENT)
    asked = fit_requested(context.pod).amount(resource)
    allocatable = nodes.allocatable(resource)
    free = allocatable - nodes.requested(resource)
    best = int(np.argmax(free))
    largest = int(np.argmax(allocatable))
    available = f"{shown_amount(resource, max(int(free[best]), 0))} on {names[best]}"
    detail = ""
    if asked > int(allocatable[largest]):
        most = shown_amount(resource, int(allocatable[largest]))
        detail = f"even empty, none of these has more than {most} (on {names[largest]})"
    return shown_amount(resource, asked), available, detail
