"""StatefulSets: stable names, ordered pods, claims, revisions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from kubesched.api import PersistentVolumeClaim, Pod, StatefulSet
from kubesched.api.apps import ControllerRevision
from kubesched.api.core import ResourceQuota
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads

Json = dict[str, Any]


def run_on_cluster(test: Callable[[Workloads], Awaitable[None]]) -> None:
    async def main() -> None:
        async with workloads() as harness:
            await test(harness)

    run(main)


def stateful_set(name: str = "db", image: str = "nginx", **spec: Any) -> Json:
    return workload(name, {"serviceName": "svc", **spec}, image=image)


async def names(harness: Workloads) -> list[str]:
    return sorted(pod.metadata.name for pod in await harness.pods())


def test_stateful_pods_are_created_in_order_with_stable_names() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(StatefulSet, stateful_set(replicas=3))
        seen: list[list[str]] = []
        for _ in range(100):
            await harness.clock.sleep(10_000_000)
            there = await names(harness)
            if not seen or seen[-1] != there:
                seen.append(there)
        everyone = ["db-0", "db-1", "db-2"]
        assert seen == [everyone[:1], everyone[:2], everyone]
        pod = harness.document(Pod, "db-1")
        assert pod["spec"]["hostname"] == "db-1"
        assert pod["spec"]["subdomain"] == "svc"
        labels = pod["metadata"]["labels"]
        assert labels["statefulset.kubernetes.io/pod-name"] == "db-1"
        assert labels["apps.kubernetes.io/pod-index"] == "1"
        status = harness.document(StatefulSet, "db")["status"]
        assert (status["replicas"], status["readyReplicas"], status["availableReplicas"]) == (
            3,
            3,
            3,
        )
        assert status["currentRevision"] == status["updateRevision"]
        (revision,) = await harness.all(ControllerRevision)
        assert revision.metadata.name == status["currentRevision"]
        await harness.api.delete(Pod, "db-1", "default")
        await harness.settle(5)
        again = harness.document(Pod, "db-1")
        assert await names(harness) == everyone
        assert again["metadata"]["uid"] != pod["metadata"]["uid"]

    run_on_cluster(test)


def test_a_smaller_set_loses_its_last_pods_and_a_parallel_one_is_there_at_once() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(StatefulSet, stateful_set(replicas=3))
        spec = {"replicas": 3, "podManagementPolicy": "Parallel", "ordinals": {"start": 5}}
        await harness.create(StatefulSet, stateful_set("fast", **spec))
        await harness.clock.sleep(50_000_000)
        assert await names(harness) == ["db-0", "fast-5", "fast-6", "fast-7"]
        await harness.settle(10)
        await harness.patch(StatefulSet, "db", {"spec": {"replicas": 1}})
        await harness.settle(10)
        await harness.patch(StatefulSet, "fast", {"spec": {"replicas": 0}})
        await harness.settle(10)
        assert await names(harness) == ["db-0"]

    run_on_cluster(test)


def test_a_huge_number_of_pods_is_not_planned_at_once() -> None:
    async def test(harness: Workloads) -> None:
        quota = {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "5"}}}
        await harness.create(ResourceQuota, quota)
        await harness.settle(5)
        spec = {"replicas": 2**31 - 1, "podManagementPolicy": "Parallel"}
        await harness.create(StatefulSet, stateful_set(**spec))
        await harness.settle(10)
        assert await names(harness) == [f"db-{number}" for number in range(5)]

    run_on_cluster(test)


def test_an_unready_pod_holds_up_those_after_it() -> None:
    async def test(harness: Workloads) -> None:
        document = stateful_set(replicas=2)
        annotations = {"kubesched.io/ready-delay": "never"}
        document["spec"]["template"]["metadata"]["annotations"] = annotations
        await harness.create(StatefulSet, document)
        await harness.settle(60)
        assert await names(harness) == ["db-0"]

    run_on_cluster(test)


def test_a_new_version_takes_over_from_the_last_pod_down_to_the_partition() -> None:
    async def test(harness: Workloads) -> None:
        rolling = {"type": "RollingUpdate", "rollingUpdate": {"partition": 1}}
        await harness.create(StatefulSet, stateful_set(replicas=3, updateStrategy=rolling))
        await harness.settle(10)
        new = stateful_set(image="nginx:2")["spec"]["template"]
        await harness.patch(StatefulSet, "db", {"spec": {"template": new}})
        await harness.settle(20)

        async def images() -> dict[str, str]:
            return {pod.metadata.name: pod.spec.containers[0].image for pod in await harness.pods()}

        assert await images() == {"db-0": "nginx", "db-1": "nginx:2", "db-2": "nginx:2"}
        status = harness.document(StatefulSet, "db")["status"]
        assert status["currentRevision"] != status["updateRevision"]
        assert status["updatedReplicas"] == 2
        # A lost pod before the partition is recreated in the old version.
        await harness.api.delete(Pod, "db-0", "default")
        await harness.settle(10)
        assert (await images())["db-0"] == "nginx"
        patch = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}}
        await harness.patch(StatefulSet, "db", patch)
        await harness.settle(20)
        assert set((await images()).values()) == {"nginx:2"}
        status = harness.document(StatefulSet, "db")["status"]
        assert status["currentRevision"] == status["updateRevision"]
        assert status["currentReplicas"] == 3

    run_on_cluster(test)


def test_on_delete_replaces_pods_only_after_their_deletion() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(
            StatefulSet, stateful_set(replicas=2, updateStrategy={"type": "OnDelete"})
        )
        await harness.settle(10)
        new = stateful_set(image="nginx:2")["spec"]["template"]
        await harness.patch(StatefulSet, "db", {"spec": {"template": new}})
        await harness.settle(10)
        await harness.api.delete(Pod, "db-0", "default")
        await harness.settle(10)
        images = {pod.metadata.name: pod.spec.containers[0].image for pod in await harness.pods()}
        assert images == {"db-0": "nginx:2", "db-1": "nginx"}

    run_on_cluster(test)


def test_every_pod_has_its_claims_which_outlive_it() -> None:
    async def test(harness: Workloads) -> None:
        claim = {
            "metadata": {"name": "data"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
        }
        await harness.create(StatefulSet, stateful_set(replicas=2, volumeClaimTemplates=[claim]))
        await harness.settle(10)
        claims = [each.metadata.name for each in await harness.all(PersistentVolumeClaim)]
        assert claims == ["data-db-0", "data-db-1"]
        volumes = harness.document(Pod, "db-1")["spec"]["volumes"]
        named = [each for each in volumes if each["name"] == "data"]
        assert named[0]["persistentVolumeClaim"]["claimName"] == "data-db-1"
        await harness.patch(StatefulSet, "db", {"spec": {"replicas": 1}})
        await harness.settle(10)
        assert len(await harness.all(PersistentVolumeClaim)) == 2

    run_on_cluster(test)


def test_claims_are_deleted_with_pods_or_the_set_by_policy() -> None:
    async def test(harness: Workloads) -> None:
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
                 "resources": {"requests": {"storage": "1Gi"}}}}  # fmt: skip
        policy = {"whenDeleted": "Delete", "whenScaled": "Delete"}
        spec = {"volumeClaimTemplates": [claim], "persistentVolumeClaimRetentionPolicy": policy}
        await harness.create(StatefulSet, stateful_set(replicas=2, **spec))
        await harness.settle(10)
        await harness.patch(StatefulSet, "db", {"spec": {"replicas": 1}})
        await harness.settle(10)
        claims = [each.metadata.name for each in await harness.all(PersistentVolumeClaim)]
        assert claims == ["data-db-0"]
        await harness.api.delete(StatefulSet, "db", "default")
        await harness.settle(10)
        assert await harness.all(PersistentVolumeClaim) == []
        assert await harness.pods() == []

    run_on_cluster(test)
