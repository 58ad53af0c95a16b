"""A node is drained: its pods run elsewhere in the end."""

from __future__ import annotations

import kubernetes
import pytest
from drain import drain

from kubesched.api import Deployment
from kubesched.testing import Cluster, make_node

DEPLOYMENT = {
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 4,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "web"}]},
        },
    },
}


@pytest.mark.kubesched(nodes=[make_node("old"), make_node("new")])
def test_pods_leave_a_node_that_is_drained(kubesched_cluster: Cluster) -> None:
    client = kubernetes.config.new_client_from_config(str(kubesched_cluster.kubeconfig_path))
    core = kubernetes.client.CoreV1Api(client)
    kubernetes.client.AppsV1Api(client).create_namespaced_deployment("default", DEPLOYMENT)
    kubesched_cluster.wait(Deployment, "web", lambda web: web.status.ready_replicas == 4)
    assert len(drain(core, "old")) == 2, "they were spread evenly"
    moved: set[str] = set()
    changes = kubernetes.watch.Watch().stream(
        core.list_namespaced_pod, "default", timeout_seconds=20
    )
    for change in changes:
        pod = change["object"]
        if pod.spec.node_name == "new" and pod.status.phase == "Running":
            moved.add(pod.metadata.name)
        if len(moved) == 4:
            break
    assert len(moved) == 4
    client.close()
