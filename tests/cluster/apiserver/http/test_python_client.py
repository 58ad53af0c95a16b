"""The official Python client reads new objects, and writes back the objects that it read."""

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


LEASE = {"holderIdentity": "a", "renewTime": "2026-01-01T00:00:00.123456Z"}
READ_AND_REPLACED: dict[str, tuple[str, dict[str, Any]]] = {
    "ConfigMap": ("/api/v1/namespaces/default/configmaps", {"data": {"a": "b"}}),
    "Pod": ("/api/v1/namespaces/default/pods", {"spec": TEMPLATE["spec"]}),
    "Node": ("/api/v1/nodes", {"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
    "Namespace": ("/api/v1/namespaces", {}),
    "Lease": ("/apis/coordination.k8s.io/v1/namespaces/default/leases", {"spec": LEASE}),
    "Deployment": ("/apis/apps/v1/namespaces/default/deployments", {"spec": SELECTED}),
    "StatefulSet": ("/apis/apps/v1/namespaces/default/statefulsets", {"spec": SELECTED}),
    "DaemonSet": ("/apis/apps/v1/namespaces/default/daemonsets", {"spec": SELECTED}),
    "Job": (
        "/apis/batch/v1/namespaces/default/jobs",
        {"spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}},
    ),
    "CronJob": (
        "/apis/batch/v1/namespaces/default/cronjobs",
        {
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {
                    "spec": {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
                },
            }
        },
    ),
    "PersistentVolumeClaim": (
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}},
    ),
    "Service": ("/api/v1/namespaces/default/services", {"spec": {"ports": [{"port": 80}]}}),
}


def as_the_client_sends_it(body: Any, kind: str) -> Any:
    """Decode an object with the client, and encode it again: times become `+00:00`."""
    client = kubernetes.client.ApiClient()
    read = client.deserialize(json.dumps(body), f"V1{kind}", "application/json")
    return client.sanitize_for_serialization(read)


@pytest.mark.parametrize("kind", READ_AND_REPLACED)
def test_an_object_that_was_read_is_replaced(kind: str) -> None:
    path, parts = READ_AND_REPLACED[kind]
    client = Client()
    client.create(path, {"metadata": {"name": "web"}, **parts})
    stored = client.get(f"{path}/web")
    sent = as_the_client_sends_it(stored, kind)
    assert sent["metadata"]["creationTimestamp"].endswith("+00:00")
    sent["metadata"]["labels"] = {**stored["metadata"].get("labels", {}), "changed": "yes"}
    status, replaced = client.send("PUT", f"{path}/web", sent)
    assert status == 200, replaced
    assert replaced["metadata"]["labels"]["changed"] == "yes"
    assert replaced["metadata"]["creationTimestamp"] == stored["metadata"]["creationTimestamp"]
    assert replaced.get("spec") == stored.get("spec")


@pytest.mark.parametrize("kind", READ_AND_REPLACED)
@pytest.mark.parametrize("patch_type", ["strategic-merge-patch", "merge-patch"])
def test_an_object_that_was_read_is_patched_as_a_whole(kind: str, patch_type: str) -> None:
    path, parts = READ_AND_REPLACED[kind]
    client = Client()
    client.create(path, {"metadata": {"name": "web"}, **parts})
    stored = client.get(f"{path}/web")
    sent = as_the_client_sends_it(stored, kind)
    content_type = f"application/{patch_type}+json"
    status, patched = client.send("PATCH", f"{path}/web", sent, content_type=content_type)
    assert (status, patched) == (200, stored)


CONDITION = {
    "type": "Ready",
    "status": "True",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}
STATUSES: dict[str, dict[str, Any]] = {
    "Pod": {"phase": "Running", "startTime": "2026-01-01T00:00:00Z", "conditions": [CONDITION]},
    "Node": {"conditions": [{**CONDITION, "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]},
    "Deployment": {"conditions": [{**CONDITION, "lastUpdateTime": "2026-01-01T00:00:00Z"}]},
    "Job": {"startTime": "2026-01-01T00:00:00Z"},
    "CronJob": {"lastScheduleTime": "2026-01-01T00:00:00Z"},
}


@pytest.mark.parametrize("kind", STATUSES)
def test_a_status_that_was_read_is_replaced(kind: str) -> None:
    path, parts = READ_AND_REPLACED[kind]
    client = Client()
    created = client.create(path, {"metadata": {"name": "web"}, **parts})
    before = {**created.get("status", {}), **STATUSES[kind]}
    status, stored = client.send("PUT", f"{path}/web/status", {**created, "status": before})
    assert status == 200, stored
    sent = as_the_client_sends_it(stored, kind)
    status, replaced = client.send("PUT", f"{path}/web/status", sent)
    assert status == 200, replaced
    assert replaced == stored
