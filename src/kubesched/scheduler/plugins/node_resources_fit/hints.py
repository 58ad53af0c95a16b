"""Queueing hints of NodeResourcesFit: which events may make room.

docs/reference/05 §7.8.6.
"""

from __future__ import annotations

from typing import Any

from kubesched.api import DeviceClass, Node, Pod
from kubesched.api.pod_requests import FIT_REQUESTS, NODE_REQUESTS, pod_requested, pod_requests
from kubesched.api.resource_amounts import Resources
from kubesched.api.resource_names import CPU, DEVICE_CLASS_PREFIX, EPHEMERAL_STORAGE, MEMORY
from kubesched.framework import QueueingHint
from kubesched.scheduler.plugins.helpers.hints import (
    expect,
    expect_or_none,
    is_placed,
    queue_if,
    same_pod,
)
from kubesched.scheduler.plugins.node_resources_fit.filtering import Demand, fit_status

__all__ = ["after_device_class_change", "after_node_change", "after_pod_change"]

_NOTHING = Resources()


def after_pod_change(pod: Pod, old: Any, new: Any) -> QueueingHint:
    """Return QUEUE if a pod was deleted or reduced its requests."""
    before, after = expect(Pod, old), expect_or_none(Pod, new)
    if after is None:
        return queue_if(is_placed(before))
    if same_pod(pod, after):
        return QueueingHint.QUEUE
    if not after.spec.node_name:
        return QueueingHint.SKIP
    requested = pod_requested(pod, NODE_REQUESTS)
    had, has = pod_requested(before, NODE_REQUESTS), pod_requested(after, NODE_REQUESTS)
    names = (CPU, MEMORY, EPHEMERAL_STORAGE, *requested.scalar)
    return queue_if(
        any(requested.amount(name) and had.amount(name) > has.amount(name) for name in names)
    )


def after_node_change(demand: Demand, old: Any, new: Any) -> QueueingHint:
    """Return QUEUE if a node was added, or grew a resource that the pod requests.

    `demand` ignores no resources: the hint does not apply the plugin's `ignoredResources`.
    """
    before, after = expect_or_none(Node, old), expect(Node, new)
    has = Resources.from_resource_list(after.status.allocatable)
    allowed_pods = Resources.allowed_pods(after.status.allocatable)
    if not fit_status(demand, has, allowed_pods, _NOTHING, 0).is_success:
        return QueueingHint.SKIP
    if before is None or allowed_pods > Resources.allowed_pods(before.status.allocatable):
        return QueueingHint.QUEUE
    had = Resources.from_resource_list(before.status.allocatable)
    return queue_if(
        any(
            has.amount(name) > had.amount(name) or demand.is_delegated(name, has.amount(name))
            for name, _ in demand.amounts
        )
    )


def after_device_class_change(pod: Pod, old: Any, new: Any) -> QueueingHint:
    """Return QUEUE if a class now serves a requested resource, even of amount 0."""
    before, after = expect_or_none(DeviceClass, old), expect(DeviceClass, new)
    name = after.spec.extended_resource_name or ""
    if before is not None and name == (before.spec.extended_resource_name or ""):
        return QueueingHint.SKIP
    requested = pod_requests(pod, FIT_REQUESTS)
    if before is None and DEVICE_CLASS_PREFIX + after.metadata.name in requested:
        return QueueingHint.QUEUE
    return queue_if(bool(name) and name in requested)
