"""`up -f` and `kubectl apply` accept real manifests: an operator, a chart, a dump."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.api import Deployment, Node, Pod, StatefulSet
from kubesched.api.custom_kinds import custom_kind
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.manifests import apply_manifests, load_manifests
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import Cluster, cluster_in_thread, make_node

Json = dict[str, Any]

MANIFESTS = Path(__file__).parent / "manifests"
OPERATOR, CHART = MANIFESTS / "operator.yaml", MANIFESTS / "chart.yaml"
KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")


def documents(path: Path) -> list[Json]:
    return list(yaml.safe_load_all(path.read_text()))


def test_the_chart_has_many_kinds() -> None:
    assert len({(each["apiVersion"], each["kind"]) for each in documents(CHART)}) >= 30


def everything_works(cluster: Cluster, namespace: str, *workloads: tuple[type[Any], str]) -> None:
    for kind, name in workloads:
        cluster.wait(
            kind,
            name,
            lambda owner: owner.status.ready_replicas == owner.spec.replicas,
            namespace=namespace,
            timeout_s=30,
        )


@pytest.fixture(params=["up -f", "kubectl apply"])
def way(request: pytest.FixtureRequest) -> str:
    if request.param == "kubectl apply" and KUBECTL is None:
        pytest.skip("kubectl is not installed (Debian: apt-get install kubernetes-client)")
    return str(request.param)


def bring(cluster: Cluster, path: Path, way: str, home: Path) -> None:
    if way == "up -f":
        cluster.run(apply_manifests(cluster.api, load_manifests([path])))
        return
    assert KUBECTL is not None
    environment = {
        **os.environ,
        "KUBECONFIG": str(cluster.kubeconfig_path),
        "HOME": str(home),
    }
    # Definitions first, and all of it again, as people do.
    for want, unwanted in (("created", "deleted"), ("unchanged", "created")):
        for part in ("CustomResourceDefinition", ""):
            chosen = [each for each in documents(path) if not part or each["kind"] == part]
            done = subprocess.run(
                [KUBECTL, "apply", "-f", "-"],
                input=yaml.safe_dump_all(chosen),
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            assert done.returncode == 0, done.stderr
        assert want in done.stdout
        assert unwanted not in done.stdout


def test_an_operator_with_its_kinds_and_rights(way: str, tmp_path: Path) -> None:
    with cluster_in_thread(2, serve=way != "up -f") as cluster:
        bring(cluster, OPERATOR, way, tmp_path)
        everything_works(cluster, "baker-system", (Deployment, "baker"))
        ovens = custom_kind("ovens.v1.baker.example.com", "Oven")
        assert ovens is not None
        stone: Any = cluster.run(cluster.api.get(ovens.type, "stone", "baker-system"))
        assert (stone.spec["mode"], stone.spec["minimum"]) == ("Air", 50), "defaults of the schema"


def test_a_chart(way: str, tmp_path: Path) -> None:
    with cluster_in_thread([make_node("a"), make_node("b")], serve=way != "up -f") as cluster:
        bring(cluster, CHART, way, tmp_path)
        everything_works(cluster, "shop", (Deployment, "web"), (StatefulSet, "db"))
        for each in documents(CHART):
            resource = cluster.api.store.catalog.by_manifest(each["apiVersion"], each["kind"])
            assert resource is not None
            namespace = each["metadata"].get("namespace")
            stored = cluster.api.store.get(resource, namespace, each["metadata"]["name"])
            assert stored.data["metadata"]["uid"]


async def _dump() -> list[Json]:
    """A cluster of 200 nodes with workloads, as `kubectl get ... -A -o yaml` would show it."""
    clock = current_clock()
    cluster = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False)
    api = cluster.api
    async with cluster, running(*cluster.parts, Scheduler(api, clock, seed=0)):
        for number in range(200):
            zone = {"topology.kubernetes.io/zone": "abc"[number % 3]}
            node = make_node(f"node-{number}", labels=zone, uid="", resource_version="")
            await api.create(node)
        for name in ("web", "api", "cache"):
            labels = {"app": name}
            spec = {"containers": [{"name": "c", "image": "app"}]}
            template = {"metadata": {"labels": labels}, "spec": spec}
            selector = {"matchLabels": labels}
            document = {
                "metadata": {"name": name},
                "spec": {"replicas": 200, "selector": selector, "template": template},
            }
            await api.create_document(Deployment, "default", document)
        await clock.sleep(30 * SECOND)
    kinds = {"Node", "Pod", "Deployment", "ReplicaSet", "Namespace", "Service", "StorageClass"}
    return [
        {"apiVersion": resource.api_version, "kind": resource.kind, **record.data}
        for resource in api.store.catalog.all()
        if resource.kind in kinds
        for record in api.store.list(resource).records
    ]


def test_a_dump_of_200_nodes(tmp_path: Path) -> None:
    dumped = run(_dump())
    before = {
        each["metadata"]["name"]: each["spec"].get("nodeName")
        for each in dumped
        if each["kind"] == "Pod"
    }
    assert len(before) == 600
    # YAML, as people dump it; JSON is YAML, and quicker to write.
    path = tmp_path / "dump.yaml"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": dumped}))

    async def load() -> None:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, derive(1, "store"), heartbeats=False)
        await apply_manifests(cluster.api, load_manifests([path]))
        async with cluster, running(*cluster.parts, Scheduler(cluster.api, clock, seed=0)):
            await clock.sleep(30 * SECOND)
            assert len((await cluster.api.list(Node)).items) == 200
            pods = (await cluster.api.list(Pod)).items
            assert {pod.metadata.name: pod.spec.node_name for pod in pods} == before

    run(load())
