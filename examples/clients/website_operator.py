"""An operator: each Website gets a Deployment with its number of replicas, and a status."""

from __future__ import annotations

import os
from typing import Any

import kopf
import kubernetes.client
import kubernetes.config


@kopf.on.startup()
def set_up(settings: kopf.OperatorSettings, **_: Any) -> None:
    kubernetes.config.load_kube_config(os.environ.get("KUBECONFIG"))
    settings.posting.enabled = False


@kopf.on.login()
def log_in(**about: Any) -> kopf.ConnectionInfo | None:
    return kopf.login_with_kubeconfig(**about)


@kopf.on.create("example.com", "v1", "websites")
@kopf.on.update("example.com", "v1", "websites", field="spec")
def deploy(name: str, namespace: str, body: kopf.Body, spec: kopf.Spec, **_: Any) -> None:
    labels = {"website": name}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": spec.get("replicas", 1),
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{"name": "web", "image": spec["image"]}]},
            },
        },
    }
    kopf.adopt(deployment, owner=body)
    apps = kubernetes.client.AppsV1Api()
    try:
        apps.create_namespaced_deployment(namespace, deployment)
    except kubernetes.client.ApiException as error:
        if error.status != 409:
            raise
        apps.patch_namespaced_deployment(name, namespace, deployment)


@kopf.on.event("apps", "v1", "deployments", labels={"website": kopf.PRESENT})
def report(name: str, namespace: str, status: kopf.Status, **_: Any) -> None:
    ready = {"status": {"ready": status.get("readyReplicas", 0)}}
    objects = kubernetes.client.CustomObjectsApi()
    try:
        objects.patch_namespaced_custom_object_status(
            "example.com", "v1", namespace, "websites", name, ready
        )
    except kubernetes.client.ApiException as error:
        if error.status != 404:  # it is being deleted, and the Deployment with it
            raise
