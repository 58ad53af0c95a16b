"""StatefulSets with claims on the embedded cluster, and a scheduler that is killed in PreBind."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import PersistentVolume, PersistentVolumeClaim, Pod, StatefulSet
from kubesched.api.codec import from_builtins
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_node_selector, make_pod, make_pv, make_storage_class

NODES, PER_NODE = 10, 40
HOSTNAME = "kubernetes.io/hostname"


async def create(api: LocalApi, new: Any) -> Any:
    return await api.create(
        replace(new, metadata=replace(new.metadata, resource_version="", uid=""))
    )


async def make_nodes(api: LocalApi) -> None:
    """Nodes with local volumes of a class without a provisioner."""
    await create(api, make_storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    for number in range(NODES):
        name = f"n{number}"
        await create(api, make_node(name, cpu="16", labels={HOSTNAME: name}))
        for place in range(PER_NODE):
            selector = make_node_selector((HOSTNAME, "In", name))
            volume = make_pv(f"{name}-{place}", storage_class="local", node_selector=selector)
            await create(api, volume)


def stateful_set(name: str, classes: tuple[str, str]) -> StatefulSet:
    """Three pods at once, each with two claims."""
    labels = {"app": name}
    templates = [
        {
            "metadata": {"name": f"v{place}"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": class_name,
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        for place, class_name in enumerate(classes)
    ]
    container = {"name": "c", "image": "registry.example/app:v1"}
    spec = {
        "replicas": 3,
        "serviceName": name,
        "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        "volumeClaimTemplates": templates,
    }
    metadata = {"name": name, "namespace": "default"}
    return from_builtins(
        {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata, "spec": spec},
        StatefulSet,
    )


async def check(api: LocalApi, pods_wanted: int) -> None:
    pods = (await api.list(Pod)).items
    assert len(pods) == pods_wanted
    waiting = [pod for pod in pods if not pod.spec.node_name]
    assert waiting == []
    claims = (await api.list(PersistentVolumeClaim)).items
    volumes = {each.metadata.name: each for each in (await api.list(PersistentVolume)).items}
    users = Counter(claim.spec.volume_name for claim in claims)
    assert len(claims) == 2 * pods_wanted
    assert "" not in users
    assert set(users.values()) == {1}, "a volume has two claims"
    homes = {pod.metadata.name: pod.spec.node_name for pod in pods}
    for claim in claims:
        assert claim.status.phase == "Bound"
        volume = volumes[claim.spec.volume_name]
        assert volume.spec.claim_ref is not None
        assert volume.spec.claim_ref.uid == claim.metadata.uid
        if claim.spec.storage_class_name == "local":
            # A claim is named after its pod: v0-app-3-2 belongs to app-3-2.
            home = homes[claim.metadata.name.partition("-")[2]]
            assert volume.metadata.name.startswith(f"{home}-")


async def run_seed(seed: int, sets: int, kills: int) -> None:
    rng, clock = derive(seed, "stateful"), current_clock()
    cluster = EmbeddedCluster(clock, derive(seed, "cluster"))
    api = cluster.api
    await make_nodes(api)
    async with running(*cluster.parts):
        scheduler = Scheduler(api, clock, seed=seed)
        runs = asyncio.create_task(scheduler.run())
        for number in range(sets):
            classes = ("local", "local" if number % 2 else "standard")
            await create(api, stateful_set(f"app-{number}", classes))
        for life in range(kills):
            await asyncio.sleep(0.2 + rng.random())
            runs.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await runs
            scheduler = Scheduler(api, clock, seed=seed + life + 1)
            runs = asyncio.create_task(scheduler.run())
        await asyncio.sleep(600)
        await check(api, 3 * sets)
        scheduler.stop()
        await runs


@pytest.mark.parametrize("seed", range(3))
def test_every_pod_of_every_set_has_its_volumes(seed: int) -> None:
    virtual_loop.run(lambda: run_seed(seed, sets=10, kills=4), seed=seed)


def test_a_pod_waits_for_a_claim_without_a_provisioner() -> None:
    async def work() -> Pod:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, derive(0, "cluster"))
        await make_nodes(cluster.api)
        scheduler = Scheduler(cluster.api, clock)
        async with running(*cluster.parts, scheduler):
            await create(
                cluster.api, make_pod("p", pvcs=["nobody"], images=["registry.example/app:v1"])
            )
            await asyncio.sleep(5)
            return await cluster.api.get(Pod, "p", "default")

    pod = virtual_loop.run(work())
    (condition,) = [each for each in pod.status.conditions if each.type == "PodScheduled"]
    assert condition.status == "False"
    assert 'persistentvolumeclaim "nobody" not found' in condition.message
