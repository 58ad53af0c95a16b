"""Properties of a pod that several parts read."""

from __future__ import annotations

from kubesched.api.meta import OwnerReference
from kubesched.api.pod import Pod
from kubesched.api.time import parse_time

__all__ = ["controller_of", "is_terminating", "pod_key", "pod_priority", "start_time_ns"]


def pod_key(pod: Pod) -> str:
    """Return `namespace/name`, the form for logs and messages."""
    return f"{pod.metadata.namespace}/{pod.metadata.name}"


def pod_priority(pod: Pod) -> int:
    priority = pod.spec.priority
    return 0 if priority is None else priority


def is_terminating(pod: Pod) -> bool:
    """Whether the deletion of the pod was requested."""
    return pod.metadata.deletion_timestamp is not None


def start_time_ns(pod: Pod, now_ns: int) -> int:
    """Return when the pod started; not started counts as now.

    docs/reference/05 §4.6.
    """
    started = pod.status.start_time
    return now_ns if started is None else parse_time(started)


def controller_of(pod: Pod) -> OwnerReference | None:
    """Return the owner that manages the pod, or None."""
    return next((owner for owner in pod.metadata.owner_references if owner.controller), None)
