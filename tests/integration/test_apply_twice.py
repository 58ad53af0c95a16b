"""A second `kubectl apply` of the same objects changes none of them, whatever their kind."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.testing.cluster import Cluster, cluster_in_thread
from tests.integration.certificates import Authority

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")

pytestmark = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed (Debian: apt-get install kubernetes-client)"
)

MANIFESTS = Path(__file__).parent / "manifests" / "every_kind.yaml"
# Only the server or a kubelet creates these.
NOT_CREATED = {"ComponentStatus", "PodCertificateRequest"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    gates = {"GenericWorkload": True, "GangScheduling": True}
    with cluster_in_thread(1, feature_gates=gates) as running:
        yield running


@pytest.fixture
def kubectl(cluster: Cluster, tmp_path: Path) -> Any:
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig_path),
        "HOME": str(tmp_path),
    }

    def run(*arguments: str, given: Any = None) -> str:
        ran = subprocess.run(
            [str(KUBECTL), *arguments],
            env=environment,
            input=None if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    return run


def manifests(namespace: str, folder: Path) -> list[dict[str, Any]]:
    """The objects of the file, with what only this run has: a namespace and certificates."""
    text = MANIFESTS.read_text().replace("NAMESPACE", namespace)
    authority = Authority(folder)
    authority.issue("client")
    request = base64.b64encode((folder / "client.csr").read_bytes()).decode()
    items = yaml.safe_load(text.replace("REQUEST", request))["items"]
    for item in items:
        if item["kind"] == "ClusterTrustBundle":
            item["spec"]["trustBundle"] = authority.certificate.read_text()
    return list(items)


def written(shown: dict[str, Any]) -> Any:
    """The part of an object that clients write: no controller changes it."""
    metadata = {**shown["metadata"], "resourceVersion": "", "managedFields": []}
    metadata.pop("annotations", None)
    return {**shown, "metadata": metadata, "status": None}


def test_every_kind_is_in_the_file(kubectl: Any) -> None:
    served = kubectl("api-resources", "--verbs=create,patch", "--no-headers").splitlines()
    kinds = {line.split()[-1] for line in served}
    named = {item["kind"] for item in yaml.safe_load(MANIFESTS.read_text())["items"]}
    assert kinds - NOT_CREATED <= named


@pytest.mark.parametrize("way", [[], ["--server-side"]], ids=["by the client", "by the server"])
def test_a_second_apply_changes_nothing(way: list[str], kubectl: Any, tmp_path: Path) -> None:
    namespace = "server" if way else "client"
    kubectl("create", "namespace", namespace)
    items = manifests(namespace, tmp_path)
    given = {"apiVersion": "v1", "kind": "List", "items": items}
    command = ["--namespace", namespace, "apply", *way, "-f", "-"]
    show = ["--namespace", namespace, "get", "-o", "json", "--ignore-not-found", "-f", "-"]
    kubectl(*command, given=given)
    before = json.loads(kubectl(*show, given=given))["items"]
    assert len(before) == len(items)
    kubectl(*command, given=given)
    after = json.loads(kubectl(*show, given=given))["items"]
    for old, new in zip(before, after, strict=True):
        assert written(new) == written(old), old["kind"]
    kubectl("--namespace", namespace, "delete", "--wait=false", "-f", "-", given=given)
