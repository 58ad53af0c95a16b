"""Claims and volumes: binding, provisioning, protection while in use, reclaim."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import (
    ApiError,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    StatefulSet,
    StorageClass,
)
from kubesched.cluster.controllers.volume_provisioning import PROVISIONER
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.scheduler import Scheduler
from tests.cluster.controllers.workloads import Workloads

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"


def run_on_cluster(test: Callable[[Workloads], Awaitable[None]]) -> None:
    """A whole cluster, with its scheduler."""

    async def main() -> None:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False)
        scheduler = Scheduler(cluster.api, clock, seed=0)
        harness = Workloads(cluster.api, clock)
        async with cluster, running(*cluster.parts, scheduler):
            for number, zone in enumerate("ab"):
                resources = {"cpu": "4", "memory": "8Gi", "pods": "10"}
                status = {"capacity": resources, "allocatable": resources}
                metadata = {"name": f"n{number}", "labels": {ZONE: zone}}
                await cluster.api.create_document(
                    Node, None, {"metadata": metadata, "status": status}
                )
            await test(harness)
        cluster.store.check_invariants()

    run(main)


def claim(name: str = "data", size: str = "1Gi", **spec: Any) -> Json:
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}
    return {"metadata": {"name": name}, "spec": body}


def volume(name: str, size: str = "1Gi", **spec: Any) -> Json:
    body = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
        **spec,
    }
    return {"metadata": {"name": name}, "spec": body}


def pod(name: str, claim_name: str, **spec: Any) -> Json:
    source = {"claimName": claim_name}
    volumes = [{"name": "v", "persistentVolumeClaim": source}]
    containers = [{"name": "c", "image": "pause"}]
    return {
        "metadata": {"name": name},
        "spec": {"containers": containers, "volumes": volumes, **spec},
    }


async def phases(harness: Workloads) -> dict[str, str]:
    claims = {
        each.metadata.name: each.status.phase for each in await harness.all(PersistentVolumeClaim)
    }
    volumes = {
        each.metadata.name: each.status.phase for each in await harness.all(PersistentVolume)
    }
    return {**claims, **volumes}


def test_a_claim_takes_the_smallest_volume_that_will_do() -> None:
    async def test(harness: Workloads) -> None:
        for name, size in (("large", "9Gi"), ("fits", "2Gi"), ("small", "500Mi")):
            document = volume(name, size)
            await harness.api.create_document(PersistentVolume, None, document)
        await harness.create(PersistentVolumeClaim, claim(storageClassName=""))
        await harness.settle(1)
        expected = {"data": "Bound", "fits": "Bound", "large": "Available", "small": "Available"}
        assert await phases(harness) == expected
        bound = await harness.get(PersistentVolumeClaim, "data")
        assert bound.spec.volume_name == "fits"
        assert bound.status.capacity == {"storage": "2Gi"}
        assert bound.metadata.annotations["pv.kubernetes.io/bind-completed"] == "yes"
        reference = (await harness.api.get(PersistentVolume, "fits")).spec.claim_ref
        assert reference is not None
        assert (reference.name, reference.uid) == ("data", bound.metadata.uid)

    run_on_cluster(test)


def test_a_volume_reserved_for_a_claim_is_bound_to_no_other() -> None:
    async def test(harness: Workloads) -> None:
        reference = {"namespace": "default", "name": "mine"}
        await harness.api.create_document(
            PersistentVolume, None, volume("reserved", claimRef=reference)
        )
        await harness.create(PersistentVolumeClaim, claim("other", storageClassName=""))
        await harness.create(
            PersistentVolumeClaim, claim("named", storageClassName="", volumeName="reserved")
        )
        await harness.settle(1)
        assert await phases(harness) == {
            "other": "Pending",
            "named": "Pending",
            "reserved": "Available",
        }
        await harness.create(PersistentVolumeClaim, claim("mine", storageClassName=""))
        await harness.settle(1)
        assert (await phases(harness))["mine"] == "Bound"

    run_on_cluster(test)


@pytest.mark.parametrize(
    "given",
    [
        {"capacity": {"storage": "512Mi"}},
        {"storageClassName": "other"},
        {"volumeMode": "Block"},
        {"accessModes": ["ReadOnlyMany"]},
    ],
    ids=str,
)
def test_a_claim_is_not_bound_to_a_volume_that_it_names_and_that_does_not_suit_it(
    given: Json,
) -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(PersistentVolume, volume("named", **given))
        await harness.create(PersistentVolumeClaim, claim(storageClassName="", volumeName="named"))
        await harness.settle(1)
        assert await phases(harness) == {"data": "Pending", "named": "Available"}

    run_on_cluster(test)


def test_an_immediate_class_provisions_and_reclaims_at_once() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(PersistentVolumeClaim, claim(storageClassName="immediate"))
        await harness.settle(1)
        held = await harness.get(PersistentVolumeClaim, "data")
        assert held.status.phase == "Bound"
        made = await harness.api.get(PersistentVolume, held.spec.volume_name)
        assert made.metadata.name == f"pvc-{held.metadata.uid}"
        assert made.metadata.annotations["pv.kubernetes.io/provisioned-by"] == PROVISIONER
        await harness.api.delete(PersistentVolumeClaim, "data", "default")
        await harness.settle(1)
        assert await phases(harness) == {}

    run_on_cluster(test)


def test_the_default_class_waits_for_a_pod_and_a_node() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(PersistentVolumeClaim, claim())
        await harness.settle(5)
        assert await phases(harness) == {"data": "Pending"}
        await harness.create(Pod, pod("p", "data"))
        await harness.settle(5)
        assert (await harness.get(Pod, "p")).status.phase == "Running"
        held = await harness.get(PersistentVolumeClaim, "data")
        assert held.spec.storage_class_name == "standard"
        assert held.status.phase == "Bound"

    run_on_cluster(test)


def test_pods_return_to_the_topology_of_their_volumes() -> None:
    async def test(harness: Workloads) -> None:
        body = {
            "metadata": {"name": "zonal"},
            "provisioner": PROVISIONER,
            "volumeBindingMode": "WaitForFirstConsumer",
            "parameters": {"topologyKey": ZONE},
        }
        await harness.api.create_document(StorageClass, None, body)
        await harness.create(PersistentVolumeClaim, claim(storageClassName="zonal"))
        await harness.create(Pod, pod("first", "data", nodeSelector={ZONE: "b"}))
        await harness.settle(5)
        await harness.create(Pod, pod("second", "data"))
        await harness.create(Pod, pod("third", "data", nodeSelector={ZONE: "a"}))
        await harness.settle(5)
        nodes = {each.metadata.name: each.spec.node_name for each in await harness.pods()}
        assert nodes == {"first": "n1", "second": "n1", "third": ""}

    run_on_cluster(test)


def test_a_claim_whose_provisioning_fails_gets_no_volume() -> None:
    async def test(harness: Workloads) -> None:
        document = claim()
        document["metadata"]["annotations"] = {"kubesched.io/provision": "fail"}
        await harness.create(PersistentVolumeClaim, document)
        await harness.create(Pod, pod("p", "data"))
        await harness.settle(60)
        assert (await harness.get(Pod, "p")).spec.node_name == ""
        assert await phases(harness) == {"data": "Pending"}

    run_on_cluster(test)


def test_volumes_and_claims_in_use_are_deleted_after_their_last_use() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(PersistentVolumeClaim, claim(storageClassName="immediate"))
        await harness.create(Pod, pod("p", "data"))
        await harness.settle(5)
        name = (await harness.get(PersistentVolumeClaim, "data")).spec.volume_name
        await harness.api.delete(PersistentVolumeClaim, "data", "default")
        await harness.api.delete(PersistentVolume, name)
        await harness.settle(5)
        assert len(await phases(harness)) == 2
        await harness.api.delete(Pod, "p", "default")
        await harness.settle(5)
        assert await phases(harness) == {}

    run_on_cluster(test)


def test_a_pending_pod_does_not_protect_its_claim() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(PersistentVolumeClaim, claim())
        await harness.create(Pod, pod("p", "data", nodeSelector={"disk": "none"}))
        await harness.settle(5)
        assert not (await harness.get(Pod, "p")).spec.node_name
        await harness.api.delete(PersistentVolumeClaim, "data", "default")
        await harness.settle(1)
        with pytest.raises(ApiError, match="not found"):
            await harness.get(PersistentVolumeClaim, "data")

    run_on_cluster(test)


def test_a_retained_volume_is_released_and_a_lost_one_is_missed() -> None:
    async def test(harness: Workloads) -> None:
        await harness.api.create_document(PersistentVolume, None, volume("kept"))
        await harness.create(PersistentVolumeClaim, claim(storageClassName=""))
        await harness.settle(1)
        await harness.api.delete(PersistentVolumeClaim, "data", "default")
        await harness.settle(1)
        assert await phases(harness) == {"kept": "Released"}
        await harness.create(PersistentVolumeClaim, claim("again", storageClassName=""))
        await harness.settle(1)
        assert (await phases(harness))["again"] == "Pending"

    run_on_cluster(test)


def test_ephemeral_claims_come_and_go_with_their_pod() -> None:
    async def test(harness: Workloads) -> None:
        template = {"spec": claim()["spec"]}
        volumes = [{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}]
        containers = [{"name": "c", "image": "pause"}]
        body = {"metadata": {"name": "p"}, "spec": {"containers": containers, "volumes": volumes}}
        await harness.create(Pod, body)
        await harness.settle(5)
        assert (await harness.get(Pod, "p")).status.phase == "Running"
        assert (await harness.get(PersistentVolumeClaim, "p-scratch")).status.phase == "Bound"
        await harness.api.delete(Pod, "p", "default")
        await harness.settle(5)
        with pytest.raises(ApiError):
            await harness.get(PersistentVolumeClaim, "p-scratch")
        assert await phases(harness) == {}

    run_on_cluster(test)


def test_stateful_sets_run_on_claims_that_outlive_their_pods() -> None:
    async def test(harness: Workloads) -> None:
        labels = {"app": "db"}
        containers = [{"name": "c", "image": "pause"}]
        spec = {
            "replicas": 3,
            "serviceName": "db",
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": containers}},
            "volumeClaimTemplates": [claim("data"), claim("log")],
        }
        await harness.create(StatefulSet, {"metadata": {"name": "db"}, "spec": spec})
        await harness.clock.sleep(30 * SECOND)
        assert [each.status.phase for each in await harness.pods()] == ["Running"] * 3
        claims = await harness.all(PersistentVolumeClaim)
        bound = {each.metadata.name: each.spec.volume_name for each in claims}
        assert len(set(bound.values())) == 6
        await harness.api.delete(Pod, "db-1", "default")
        await harness.clock.sleep(30 * SECOND)
        assert [each.status.phase for each in await harness.pods()] == ["Running"] * 3
        claims = await harness.all(PersistentVolumeClaim)
        assert {each.metadata.name: each.spec.volume_name for each in claims} == bound

    run_on_cluster(test)
