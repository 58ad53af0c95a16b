"""Small questions about a pod that several parts ask."""

from __future__ import annotations

from kubesched.api.meta import OwnerReference
from kubesched.api.pod import Pod
from kubesched.api.time import parse_time

__all__ = ["controller_of", "is_terminating", "pod_key", "pod_priority", "start_time_ns"]


def pod_key(pod: Pod) -> str:
    """`namespace/name`, as logs and messages name a pod."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def pod_priority(pod: Pod) -> int:
    priority = pod.spec.priority
    return 0 if priority is None else priority


def is_terminating(pod: Pod) -> bool:
    """Whether the pod's deletion has been asked for."""
    return pod.metadata.deletion_timestamp is not None


def start_time_ns(pod: Pod, now_ns: int) -> int:
    """When the pod started; one that has not counts as starting now (docs/reference/05 §4.6)."""
    started = pod.status.start_time
    return now_ns if started is None else parse_time(started)


def controller_of(pod: Pod) -> OwnerReference | None:
    """The owner that manages the pod, if one does."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)
