"""The owners of a StatefulSet's claims, and claims that other owners have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from kubesched.api import PersistentVolumeClaim, Pod, StatefulSet
from kubesched.api.core import ConfigMap
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads

Json = dict[str, Any]

KEEP = {"whenDeleted": "Retain", "whenScaled": "Retain"}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}
SET = ("StatefulSet", "db", True, True)
OTHER = ("ConfigMap", "other", None, None)
CONTROLLER = ("ConfigMap", "other", True, True)
PLAIN_SET = ("StatefulSet", "db", None, None)
FORMER_SET = ("StatefulSet", "db", True, True, "11111111-1111-1111-1111-111111111111")


def run_on_cluster(test: Callable[[Workloads], Awaitable[None]]) -> None:
    async def main() -> None:
        async with workloads() as harness:
            await test(harness)

    run(main)


async def create_set(harness: Workloads, replicas: int, **policy: str) -> None:
    spec = {
        "serviceName": "svc",
        "replicas": replicas,
        "podManagementPolicy": "Parallel",
        "volumeClaimTemplates": [CLAIM],
        "persistentVolumeClaimRetentionPolicy": {**KEEP, **policy},
    }
    await harness.create(StatefulSet, workload("db", spec))
    await harness.settle(5)


async def claims(harness: Workloads) -> list[str]:
    return sorted(each.metadata.name for each in await harness.all(PersistentVolumeClaim))


async def reference(harness: Workloads, owner: tuple[Any, ...]) -> Json:
    kind, name, controller, block = owner[:4]
    types: Any = {"StatefulSet": StatefulSet, "ConfigMap": ConfigMap, "Pod": Pod}
    uid = owner[4] if len(owner) > 4 else (await harness.get(types[kind], name)).metadata.uid
    written: Json = {"apiVersion": types[kind].api_version, "kind": kind, "name": name, "uid": uid}
    if controller is not None:
        written |= {"controller": controller, "blockOwnerDeletion": block}
    return written


def owners(harness: Workloads, name: str) -> list[tuple[Any, ...]]:
    metadata = harness.document(PersistentVolumeClaim, name)["metadata"]
    return [
        (each["kind"], each["name"], each.get("controller"), each.get("blockOwnerDeletion"))
        for each in metadata.get("ownerReferences", ())
    ]


class Case(NamedTuple):
    before: list[tuple[Any, ...]]
    policy: dict[str, str]
    after: list[tuple[Any, ...]]


DELETED, SCALED = {"whenDeleted": "Delete"}, {"whenScaled": "Delete"}
CASES = {
    "the set becomes the controller of a claim": Case([], DELETED, [SET]),
    "an owner that is no controller stays beside the set": Case([OTHER], DELETED, [OTHER, SET]),
    "a claim of another controller gets no owner": Case([CONTROLLER], DELETED, [CONTROLLER]),
    "a plain reference to the set becomes that of a controller": Case([PLAIN_SET], DELETED, [SET]),
    "a set that shares a claim with another controller lets go of it": Case(
        [CONTROLLER, PLAIN_SET], DELETED, [CONTROLLER]
    ),
    "a claim of a former set of this name is left alone": Case(
        [FORMER_SET], DELETED, [FORMER_SET[:4]]
    ),
    "a claim that is to be kept loses its reference to the set": Case([OTHER, SET], KEEP, [OTHER]),
    "a claim of a pod that stays has no owner": Case([], SCALED, []),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_owners_of_a_claim_follow_the_policy_beside_those_of_others(case: Case) -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ConfigMap, {"metadata": {"name": "other"}})
        await create_set(harness, 2)
        references = [await reference(harness, each) for each in case.before]
        patch = {"metadata": {"ownerReferences": references}}
        policy = {"persistentVolumeClaimRetentionPolicy": {**KEEP, **case.policy}}
        # Both changes at once: a former set's reference would let the collector delete the claim.
        await harness.patch(StatefulSet, "db", {"spec": policy})
        await harness.patch(PersistentVolumeClaim, "data-db-1", patch)
        await harness.clock.sleep(50_000_000)
        assert owners(harness, "data-db-1") == case.after

    run_on_cluster(test)


def test_scaling_down_retains_claims_of_other_controllers() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ConfigMap, {"metadata": {"name": "other"}})
        await create_set(harness, 3, whenScaled="Delete")
        foreign = {"metadata": {"ownerReferences": [await reference(harness, CONTROLLER)]}}
        await harness.patch(PersistentVolumeClaim, "data-db-1", foreign)
        await harness.patch(StatefulSet, "db", {"spec": {"replicas": 0}})
        await harness.settle(10)
        assert await harness.pods() == []
        assert await claims(harness) == ["data-db-1"]
        assert owners(harness, "data-db-1") == [CONTROLLER]

    run_on_cluster(test)


def test_a_pod_waits_until_the_claim_of_its_predecessor_is_deleted() -> None:
    async def test(harness: Workloads) -> None:
        await create_set(harness, 2, whenScaled="Delete")
        hold = {"metadata": {"finalizers": ["example.com/hold"]}}
        await harness.patch(PersistentVolumeClaim, "data-db-1", hold)
        await harness.patch(StatefulSet, "db", {"spec": {"replicas": 1}})
        await harness.settle(10)
        await harness.patch(StatefulSet, "db", {"spec": {"replicas": 2}})
        await harness.settle(10)
        assert sorted(pod.metadata.name for pod in await harness.pods()) == ["db-0"]
        old = (await harness.get(PersistentVolumeClaim, "data-db-1")).metadata
        assert old.deletion_timestamp is not None
        free = {"metadata": {"finalizers": None}}
        await harness.patch(PersistentVolumeClaim, "data-db-1", free)
        await harness.settle(10)
        assert sorted(pod.metadata.name for pod in await harness.pods()) == ["db-0", "db-1"]
        assert (await harness.get(PersistentVolumeClaim, "data-db-1")).metadata.uid != old.uid

    run_on_cluster(test)


def test_a_set_adopts_only_pods_that_have_one_of_its_names() -> None:
    async def test(harness: Workloads) -> None:
        metadata = {"name": "stranger", "labels": {"app": "db"}}
        container = {"name": "c", "image": "nginx"}
        await harness.create(Pod, {"metadata": metadata, "spec": {"containers": [container]}})
        await create_set(harness, 1)
        assert sorted(pod.metadata.name for pod in await harness.pods()) == ["db-0", "stranger"]
        assert "ownerReferences" not in harness.document(Pod, "stranger")["metadata"]
        assert harness.document(StatefulSet, "db")["status"]["replicas"] == 1

    run_on_cluster(test)
