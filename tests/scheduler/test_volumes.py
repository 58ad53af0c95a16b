"""Pods with claims, on virtual time: conflicts, timeouts, failures, restarts in PreBind.

Under all faults every pod is bound at the end, no volume has two claims, and nothing stays assumed.
A failure repeats from its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import PersistentVolume, PersistentVolumeClaim, Pod
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import Clock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import (
    make_node,
    make_node_selector,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
)
from tests.scheduler.test_faults import RandomFaults, watch_bindings
from tests.scheduler.volume_controller import VolumeController

NODES, VOLUMES_PER_NODE, PODS = 4, 24, 24
PROFILE = {
    "schedulerName": "default-scheduler",
    "pluginConfig": [{"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 20}}],
}


async def create(api: LocalApi, new: Any) -> Any:
    return await api.create(
        replace(new, metadata=replace(new.metadata, resource_version="", uid=""))
    )


async def make_cluster(api: LocalApi) -> None:
    """Create nodes with local volumes, a class for these and one with a provisioner."""
    await create(api, make_storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    await create(api, make_storage_class("made"))
    for number in range(NODES):
        name = f"n{number}"
        await create(api, make_node(name, cpu="8", labels={"kubernetes.io/hostname": name}))
        for place in range(VOLUMES_PER_NODE):
            selector = make_node_selector(("kubernetes.io/hostname", "In", name))
            volume = make_pv(
                f"{name}-{place}",
                storage_class="local",
                size=f"{1 + place % 4}Gi",
                node_selector=selector,
                phase="Available",
            )
            stored = await create(api, volume)
            await api.update(replace(stored, status=volume.status), subresource="status")


async def churn(api: LocalApi, clock: Clock, rng: random.Random) -> None:
    """Create pods with one or two claims, while another client updates volumes and claims."""
    for number in range(PODS):
        names = [f"p{number}-{place}" for place in range(rng.randint(1, 2))]
        for name in names:
            claim = make_pvc(
                name, storage_class=rng.choice(("local", "made")), size=f"{rng.randint(1, 3)}Gi"
            )
            await create(api, claim)
        image = ["registry.example/app:v1"]
        await create(api, make_pod(f"p{number}", pvcs=names, images=image))
        await asyncio.sleep(rng.random())
        if rng.random() < 0.5:
            await touch(api, rng)


async def touch(api: LocalApi, rng: random.Random) -> None:
    """An update by another client, which makes the scheduler's own update a conflict."""
    kind: type[Any] = rng.choice((PersistentVolume, PersistentVolumeClaim))
    present = list((await api.list(kind)).items)
    for found in rng.sample(present, k=min(3, len(present))):
        labels = {**found.metadata.labels, "touched": str(rng.randrange(1000))}
        with contextlib.suppress(ApiError):
            await api.update(replace(found, metadata=replace(found.metadata, labels=labels)))


async def check(api: LocalApi, scheduler: Scheduler, bindings: Counter[str]) -> None:
    pods = (await api.list(Pod)).items
    assert [pod.metadata.name for pod in pods if not pod.spec.node_name] == []
    assert [uid for uid, times in bindings.items() if times > 1] == []
    claims = {each.metadata.uid: each for each in (await api.list(PersistentVolumeClaim)).items}
    volumes = {each.metadata.name: each for each in (await api.list(PersistentVolume)).items}
    users = Counter(claim.spec.volume_name for claim in claims.values())
    assert "" not in users, "every claim of a bound pod has a volume"
    assert set(users.values()) == {1}, "no volume has two claims"
    for claim in claims.values():
        reference = volumes[claim.spec.volume_name].spec.claim_ref
        assert reference is not None
        assert reference.uid == claim.metadata.uid
    for pod in pods:
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                check_reach(pod, volume.persistent_volume_claim.claim_name, claims, volumes)
    plugin: Any = scheduler.profiles["default-scheduler"].plugins.by_name["VolumeBinding"]
    assert (len(plugin._volumes), len(plugin._claims)) == (0, 0), "something is still assumed"
    scheduler.cache.check_invariants()
    assert scheduler.cache.assumed_count == 0


def check_reach(
    pod: Pod,
    claim_name: str,
    claims: dict[str, PersistentVolumeClaim],
    volumes: dict[str, PersistentVolume],
) -> None:
    (claim,) = [each for each in claims.values() if each.metadata.name == claim_name]
    if claim.spec.storage_class_name == "local":
        assert claim.spec.volume_name.startswith(f"{pod.spec.node_name}-")
    assert claim.spec.volume_name in volumes


async def run_seed(seed: int, *, with_restarts: bool) -> None:
    rng = derive(seed, "volumes")
    clock = current_clock()
    store = Store(derive(seed, "store"), now_ns=clock.now_ns())
    calm = LocalApi(store, clock)
    faults = RandomFaults(rng)
    await make_cluster(calm)
    bindings: Counter[str] = Counter()
    watcher = asyncio.create_task(watch_bindings(calm, bindings))
    controller = VolumeController(calm, clock, rng, failure_share=0.3)
    async with running(FakeKubelet(calm, clock), controller):
        troubled = LocalApi(store, clock, faults=faults)
        scheduler = Scheduler(troubled, clock, seed=seed, profiles=[PROFILE])
        work = asyncio.create_task(churn(calm, clock, rng))
        runs = asyncio.create_task(scheduler.run())
        for life in range(4 if with_restarts else 1):
            await asyncio.sleep(3 + rng.random() * 10)
            if with_restarts and life < 3:
                # Killed wherever it is: within PreBind, as often as not.
                runs.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await runs
                scheduler = Scheduler(troubled, clock, seed=seed + life, profiles=[PROFILE])
                runs = asyncio.create_task(scheduler.run())
        await work
        await asyncio.sleep(30)
        faults.is_on = False
        controller.failure_share = 0.0
        await asyncio.sleep(900)
        await check(calm, scheduler, bindings)
        scheduler.stop()
        await runs
    watcher.cancel()


@pytest.mark.parametrize("seed", range(4))
def test_every_pod_gets_its_volumes(seed: int) -> None:
    virtual_loop.run(lambda: run_seed(seed, with_restarts=False), seed=seed)


@pytest.mark.parametrize("seed", range(4))
def test_a_scheduler_that_is_killed_in_pre_bind_loses_nothing(seed: int) -> None:
    virtual_loop.run(lambda: run_seed(seed, with_restarts=True), seed=seed)


def test_a_scheduler_that_waits_for_volumes_stops_at_once() -> None:
    async def work() -> float:
        clock = current_clock()
        api = LocalApi(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
        await make_cluster(api)
        scheduler = Scheduler(api, clock)
        runs = asyncio.create_task(scheduler.run())
        await create(api, make_pvc("c", storage_class="made"))
        await create(api, make_pod("p", pvcs=["c"], images=["registry.example/app:v1"]))
        await asyncio.sleep(5)
        claim = await api.get(PersistentVolumeClaim, "c", "default")
        assert claim.metadata.annotations.get("volume.kubernetes.io/selected-node")
        before = asyncio.get_running_loop().time()
        scheduler.stop()
        await runs
        pod = await api.get(Pod, "p", "default")
        assert not pod.spec.node_name
        return asyncio.get_running_loop().time() - before

    assert virtual_loop.run(work()) < 1
