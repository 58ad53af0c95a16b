"""How the queue names a pod: by namespace and name, whatever its uid."""

from __future__ import annotations

from kubesched.api.pod_facts import pod_key
from kubesched.framework import QueuedPodInfo

__all__ = ["key_of", "queued_key"]


def key_of(name: str, namespace: str) -> str:
    """Return what `pod_key` returns for a pod with this name."""
    return f"{namespace}/{name}"


def queued_key(queued: QueuedPodInfo) -> str:
    return pod_key(queued.pod_info.pod)
