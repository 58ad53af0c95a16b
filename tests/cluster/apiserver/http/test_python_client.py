"""The official Python client can decode new objects. It requires counts in their status."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cluster.apiserver.http.client import Client

kubernetes = pytest.importorskip("kubernetes")

LABELS = {"app": "web"}
TEMPLATE = {
    "metadata": {"labels": LABELS},
    "spec": {"containers": [{"name": "c", "image": "nginx"}]},
}
SELECTED = {"selector": {"matchLabels": LABELS}, "template": TEMPLATE}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "V1StatefulSet": ("/apis/apps/v1/namespaces/default/statefulsets", SELECTED),
    "V1DaemonSet": ("/apis/apps/v1/namespaces/default/daemonsets", SELECTED),
    "V1ReplicaSet": ("/apis/apps/v1/namespaces/default/replicasets", SELECTED),
    "V1Deployment": ("/apis/apps/v1/namespaces/default/deployments", SELECTED),
    "V1ReplicationController": (
        "/api/v1/namespaces/default/replicationcontrollers",
        {"selector": LABELS, "template": TEMPLATE},
    ),
    "V1PodDisruptionBudget": (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"selector": {"matchLabels": LABELS}, "minAvailable": 1},
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_a_new_object_is_read(kind: str) -> None:
    path, spec = CASES[kind]
    client = Client()
    client.create(path, {"metadata": {"name": "web"}, "spec": spec})
    answer = json.dumps(client.get(f"{path}/web"))
    read = kubernetes.client.ApiClient().deserialize(answer, kind, "application/json")
    assert read.metadata.name == "web"
    assert read.status is not None
