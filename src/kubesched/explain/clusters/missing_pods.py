"""Notes about pods that a controller has not created; scheduling is not the reason."""

from __future__ import annotations

from typing import Any, Final

from kubesched.api import DaemonSet, Deployment, Job, Pod, ReplicaSet, StatefulSet
from kubesched.api.core import ResourceQuota
from kubesched.foundation.client.object_table import ObjectTable

__all__ = ["missing_pod_note"]

_WORKLOADS: Final[tuple[type[Any], ...]] = (Deployment, StatefulSet, ReplicaSet, DaemonSet, Job)


def missing_pod_note(objects: ObjectTable, namespace: str, name: str) -> str:
    """Return where to look if a workload with that name lacks the pod; empty if none does."""
    for kind in _WORKLOADS:
        for each in objects.list(kind, namespace):
            own = each.metadata.name
            if name != own and not name.startswith(f"{own}-"):
                continue
            found = objects.list(Pod, namespace)
            pods = sum(pod.metadata.name.startswith(f"{own}-") for pod in found)
            what = kind.__name__
            text = f"{what} {namespace}/{own} has {pods} pods; its events say why it has no more"
            quotas = ", ".join(
                each.metadata.name for each in objects.list(ResourceQuota, namespace)
            )
            if quotas:
                text += f", perhaps because of quota {quotas}"
            return f"{text}: kubectl describe {what.lower()} -n {namespace} {own}"
    return ""
