"""Move all pods off a node, as `kubectl drain` does; pods of DaemonSets stay."""

from __future__ import annotations

from kubernetes import client


def drain(core: client.CoreV1Api, node: str) -> list[str]:
    """Cordon a node and evict its pods; the names of those evicted."""
    core.patch_node(node, {"spec": {"unschedulable": True}})
    pods = core.list_pod_for_all_namespaces(field_selector=f"spec.nodeName={node}").items
    evicted = []
    for pod in pods:
        owners = pod.metadata.owner_references or []
        if any(owner.kind == "DaemonSet" for owner in owners):
            continue
        name, namespace = pod.metadata.name, pod.metadata.namespace
        meta = client.V1ObjectMeta(name=name, namespace=namespace)
        core.create_namespaced_pod_eviction(name, namespace, client.V1Eviction(metadata=meta))
        evicted.append(name)
    return evicted
