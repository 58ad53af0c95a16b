"""Pods whose service account does not exist are refused; files bring the accounts they name."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kubesched.api import Deployment, Pod
from kubesched.api.core import ServiceAccount
from kubesched.testing import cluster_in_thread
from tests.cluster.apiserver.http.client import Client

PODS = "/api/v1/namespaces/default/pods"
CONTAINERS = [{"name": "c", "image": "i"}]


def deployment(account: str) -> dict[str, Any]:
    labels = {"app": "web"}
    spec = {"containers": CONTAINERS, "serviceAccountName": account}
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def test_a_pod_of_a_missing_account_is_refused() -> None:
    client = Client()
    body: dict[str, Any] = {
        "metadata": {"name": "p"},
        "spec": {"containers": CONTAINERS, "serviceAccountName": "robot"},
    }
    code, answer = client.send("POST", PODS, body)
    assert (code, answer["message"]) == (
        403,
        'pods "p" is forbidden: error looking up service account default/robot: '
        'serviceaccount "robot" not found',
    )
    # A mirror pod shows what a kubelet runs already.
    mirror = {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}}
    client.create(PODS, {**body, "metadata": mirror})
    client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "robot"}})
    client.create(PODS, body)


def test_a_workload_waits_for_its_account() -> None:
    with cluster_in_thread(1) as cluster:
        cluster.run(cluster.api.create_document(Deployment, "default", deployment("robot")))

        cluster.wait(Deployment, "web", "ReplicaFailure")
        status = cluster.api.document(Deployment, "web", "default")["status"]
        (text,) = (
            each["message"] for each in status["conditions"] if each["type"] == "ReplicaFailure"
        )
        assert re.fullmatch(
            'pods "web-[a-z0-9]+-" is forbidden: error looking up service account default/robot: '
            'serviceaccount "robot" not found',
            text,
        )
        assert not cluster.run(cluster.api.list(Pod)).items
        account = {"metadata": {"name": "robot", "namespace": "default"}}
        cluster.run(cluster.api.create_document(ServiceAccount, "default", account))
        cluster.wait(
            Deployment, "web", lambda found: found.status.ready_replicas == 1, timeout_s=30
        )


def test_a_file_brings_the_accounts_that_it_names(tmp_path: Path) -> None:
    path = tmp_path / "web.json"
    document = {"apiVersion": "apps/v1", "kind": "Deployment", **deployment("robot")}
    path.write_text(json.dumps(document))
    with cluster_in_thread(1, files=[path]) as cluster:
        cluster.wait(
            Deployment, "web", lambda found: found.status.ready_replicas == 1, timeout_s=30
        )
        account = cluster.run(cluster.api.get(ServiceAccount, "robot", "default"))
        assert account.metadata.uid
