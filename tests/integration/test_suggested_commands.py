"""The commands beside suggestions, run as printed with the real kubectl: the pod is placed."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubesched.api import Pod
from kubesched.cli.main import cli
from kubesched.testing import make_node
from kubesched.testing.cluster import Cluster, cluster_in_thread

KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")

pytestmark = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed (Debian: apt-get install kubernetes-client)"
)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    taints = ["dedicated=search:NoSchedule"]
    nodes = [
        make_node("main", cpu="2", labels={"pool": "main"}),
        make_node("kept", cpu="2", labels={"pool": "kept"}, taints=taints),
    ]
    with cluster_in_thread(nodes) as running:
        yield running


def pod(**spec: object) -> dict[str, Any]:
    return {
        "containers": [
            {"name": "side", "image": "x"},
            {"name": "c", "image": "x", "resources": {"requests": spec.pop("requests", {})}},
        ],
        **spec,
    }


def deployment(spec: dict[str, Any]) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    return {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": template}


# Kind, spec, and how the suggestion begins.
CASES: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "a request of a pod": ("v1", "Pod", pod(requests={"memory": "64Gi"}), "request memory <="),
    "a request of a Deployment": (
        "apps/v1",
        "Deployment",
        deployment(pod(requests={"cpu": "8"})),
        "request cpu <= 2",
    ),
    "a toleration": ("v1", "Pod", pod(nodeSelector={"pool": "kept"}), "tolerate dedicated"),
    "a selector": ("v1", "Pod", pod(nodeSelector={"pool": "maine"}), "use nodeSelector pool=main"),
    "a selector of a Deployment": (
        "apps/v1",
        "Deployment",
        deployment(pod(nodeSelector={"pool": "maine"})),
        "use nodeSelector pool=main",
    ),
    "a scheduling gate": (
        "v1",
        "Pod",
        pod(schedulingGates=[{"name": "example.com/quota"}]),
        "remove the scheduling gate",
    ),
    "a claim": (
        "v1",
        "Pod",
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "dataa"}}]),
        "use claim data instead",
    ),
    "a claim that does not exist": (
        "v1",
        "Pod",
        pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "scratch"}}]),
        "create claim",
    ),
    "a label and a toleration": (
        "apps/v1",
        "Deployment",
        deployment(pod(nodeSelector={"disk": "ssd", "pool": "kept"})),
        "tolerate dedicated=search:NoSchedule, and label kept disk=ssd",
    ),
}
CLAIM = {
    "apiVersion": "v1",
    "kind": "PersistentVolumeClaim",
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_pod_is_placed(
    cluster: Cluster, tmp_path: Path, case: tuple[str, str, dict[str, Any], str]
) -> None:
    version, kind, spec, start = case
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig_path),
        "HOME": str(tmp_path),
        "PATH": f"{Path(str(KUBECTL)).parent}:{os.environ['PATH']}",
    }
    namespace = f"case-{list(CASES.values()).index(case)}"

    def shell(command: str, given: Any = None) -> str:
        done = subprocess.run(
            ["bash", "-c", command],
            env=environment,
            input=None if given is None else json.dumps(given),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    shell(f"kubectl create namespace {namespace}")
    web = {"apiVersion": version, "kind": kind, "metadata": {"name": "web"}, "spec": spec}
    for each in (CLAIM, web):
        shell(f"kubectl create -n {namespace} -f -", each)
    cluster.run(until(cluster, namespace, is_refused))
    target = [f"{kind.lower()}/web", "-n", namespace]
    if kind == "Pod":
        target = ["pod", f"{namespace}/web"]
    where = ["--kubeconfig", str(cluster.kubeconfig_path), "-o", "json"]
    explained = CliRunner().invoke(cli, ["explain", *target, *where], catch_exceptions=False)
    answer = json.loads(explained.stdout)
    suggestions = answer["suggestions"] if kind == "Pod" else answer["causes"][0]["suggestions"]
    chosen = next(each for each in suggestions if each["change"].startswith(start))
    shell(chosen["command"])
    cluster.run(until(cluster, namespace, lambda each: bool(each.spec.node_name)))


def is_refused(pod: Pod) -> bool:
    """Whether a scheduler has tried the pod, or may not try it."""
    return any(each.status == "False" for each in pod.status.conditions)


async def until(cluster: Cluster, namespace: str, holds: Callable[[Pod], bool]) -> None:
    """Follow the pods of a namespace until one fulfils the condition."""
    async with asyncio.timeout(60):
        async for event in cluster.api.watch(Pod, namespace, resource_version="0"):
            if event.object is not None and holds(event.object):
                return
