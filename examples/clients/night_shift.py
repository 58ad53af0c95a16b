"""Scale Deployments that are marked for it down for the night, and up again in the morning."""

from __future__ import annotations

from lightkube import Client
from lightkube.resources.apps_v1 import Deployment

MARK = "example.com/night-shift"
BY_DAY = "example.com/replicas-by-day"


def good_night(client: Client) -> list[str]:
    """Scale down the marked Deployments; return their names."""
    changed = []
    for deployment in client.list(Deployment, namespace="*", labels={MARK: "true"}):
        assert deployment.metadata is not None
        assert deployment.spec is not None
        name, namespace = deployment.metadata.name, deployment.metadata.namespace
        if name is None or not deployment.spec.replicas:
            continue
        mark = {"annotations": {BY_DAY: str(deployment.spec.replicas)}}
        patch = {"metadata": mark, "spec": {"replicas": 0}}
        client.patch(Deployment, name, patch, namespace=namespace)
        changed.append(name)
    return changed


def good_morning(client: Client) -> list[str]:
    """Restore the Deployments that were scaled down; return their names."""
    changed = []
    for deployment in client.list(Deployment, namespace="*", labels={MARK: "true"}):
        assert deployment.metadata is not None
        name, namespace = deployment.metadata.name, deployment.metadata.namespace
        replicas = (deployment.metadata.annotations or {}).get(BY_DAY)
        if name is None or replicas is None:
            continue
        patch = {"metadata": {"annotations": {BY_DAY: None}}, "spec": {"replicas": int(replicas)}}
        client.patch(Deployment, name, patch, namespace=namespace)
        changed.append(name)
    return changed
