"""A dump of a cluster, loaded into another: objects are unchanged, controllers go on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kubesched.api import DaemonSet, Deployment, Node, Pod, StatefulSet
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.manifests import apply_manifests, load_manifests
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.scheduler import Scheduler

Json = dict[str, Any]


def workload(name: str, **spec: Any) -> Json:
    labels = {"app": name}
    containers = [{"name": "c", "image": "nginx", "env": [{"name": "A", "value": "b"}]}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers}}
    selector = {"matchLabels": labels}
    return {
        "metadata": {"name": name},
        "spec": {"selector": selector, "template": template, **spec},
    }


def dump(api: LocalApi, kinds: set[str]) -> list[Json]:
    """What `kubectl get ... -A -o yaml` shows."""
    found = []
    for resource in api.store.catalog.all():
        if resource.kind in kinds:
            for record in api.store.list(resource).records:
                head = {"apiVersion": resource.api_version, "kind": resource.kind}
                found.append({**head, **record.data})
    return found


async def state(api: LocalApi) -> dict[str, tuple[str, str, str]]:
    return {
        f"{pod.metadata.namespace}/{pod.metadata.name}": (
            pod.metadata.uid,
            pod.spec.node_name,
            pod.status.phase,
        )
        for pod in (await api.list(Pod)).items
    }


async def original() -> tuple[LocalApi, dict[str, tuple[str, str, str]]]:
    clock = current_clock()
    cluster = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False)
    api = cluster.api
    async with cluster, running(*cluster.parts, Scheduler(api, clock, seed=0)):
        for number in range(3):
            resources = {"cpu": "4", "memory": "8Gi", "pods": "20"}
            status = {"capacity": resources, "allocatable": resources}
            await api.create_document(
                Node, None, {"metadata": {"name": f"n{number}"}, "status": status}
            )
        namespaces = api.store.catalog.by_url("", "v1", "namespaces")
        api.store.create(namespaces, None, {"metadata": {"name": "shop"}}, clock.now_ns())
        await api.create_document(Deployment, "shop", workload("web", replicas=4))
        await api.create_document(StatefulSet, "shop", workload("db", replicas=2, serviceName="db"))
        await api.create_document(DaemonSet, "default", workload("agent"))
        await clock.sleep(20 * SECOND)
        before = await state(api)
    return api, before


async def revived(file: Path) -> tuple[LocalApi, dict[str, tuple[str, str, str]]]:
    clock = current_clock()
    cluster = EmbeddedCluster(clock, derive(1, "store"), heartbeats=False)
    api = cluster.api
    await apply_manifests(api, load_manifests([file]))
    async with cluster, running(*cluster.parts, Scheduler(api, clock, seed=0)):
        await clock.sleep(60 * SECOND)
        after = await state(api)
    return api, after


def play(file: Path, kinds: set[str], change: Any = lambda objects: objects) -> Any:
    async def main() -> Any:
        api, before = await original()
        objects = change(dump(api, kinds))
        written = json.dumps({"apiVersion": "v1", "kind": "List", "items": objects})
        file.write_text(written)  # noqa: ASYNC240  nothing else runs
        return before, (await revived(file))[1]

    return run(main)


ALL = {
    "Namespace",
    "Node",
    "Pod",
    "ReplicaSet",
    "Deployment",
    "StatefulSet",
    "DaemonSet",
    "ControllerRevision",
    "StorageClass",
    "PriorityClass",
    "Service",
    "ServiceAccount",
    "ConfigMap",
}


def test_a_complete_dump_continues_in_the_same_state(tmp_path: Path) -> None:
    before, after = play(tmp_path / "dump.json", ALL)
    assert len(before) == 4 + 2 + 3
    assert after == before


def test_pods_stay_without_the_owners_that_were_left_behind(tmp_path: Path) -> None:
    before, after = play(tmp_path / "dump.json", {"Node", "Pod"})
    assert after == before


def test_owners_without_their_revisions_retain_their_pods(tmp_path: Path) -> None:
    before, after = play(tmp_path / "dump.json", ALL - {"ControllerRevision", "Namespace"})
    assert after == before


def test_resource_versions_of_another_server_are_recognized(tmp_path: Path) -> None:
    def renamed(objects: list[Json]) -> list[Json]:
        text = json.dumps(objects)
        for each in objects:
            if each["kind"] == "ReplicaSet":
                text = text.replace(each["metadata"]["labels"]["pod-template-hash"], "5d59d67564")
        return list(json.loads(text))

    before, after = play(tmp_path / "dump.json", ALL, renamed)
    assert sorted(uid for uid, _, _ in after.values()) == sorted(
        uid for uid, _, _ in before.values()
    )


def test_unsupported_kinds_in_a_dump_are_skipped(tmp_path: Path) -> None:
    def with_more(objects: list[Json]) -> list[Json]:
        return [
            *objects,
            {
                "apiVersion": "example.com/v1",
                "kind": "Widget",
                "metadata": {"name": "w", "namespace": "shop", "uid": "u"},
            },
        ]

    before, after = play(tmp_path / "dump.json", ALL, with_more)
    assert after == before
