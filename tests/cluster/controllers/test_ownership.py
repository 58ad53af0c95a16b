"""Adoption, release, and foreground deletion of dependents."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from unittest import mock

from kubesched.api import ApiError, ConfigMap, Deployment, Pod, ReplicaSet, ReplicationController
from kubesched.cluster.apiserver import LocalApi
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads

Json = dict[str, Any]


def run_on_cluster(test: Callable[[Workloads], Awaitable[None]]) -> None:
    async def main() -> None:
        async with workloads() as harness:
            await test(harness)

    run(main)


def pod(name: str, labels: dict[str, str], **metadata: Any) -> Json:
    containers = [{"name": "c", "image": "pause"}]
    return {
        "metadata": {"name": name, "labels": labels, **metadata},
        "spec": {"containers": containers},
    }


def owners(each: Any) -> list[str]:
    return [owner.name for owner in each.metadata.owner_references]


async def remove(harness: Workloads, kind: Any, name: str, propagation: str) -> None:
    each = await harness.get(kind, name)
    await harness.api.remove(
        kind,
        name,
        "default",
        uid=each.metadata.uid,
        grace_period_seconds=None,
        propagation=propagation,
    )


def test_a_replica_set_adopts_pods_that_it_selects_and_releases_others() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Pod, pod("orphan", {"app": "web"}))
        await harness.create(ReplicaSet, workload("web", {"replicas": 2}))
        await harness.settle(5)
        assert owners(await harness.get(Pod, "orphan")) == ["web"]
        assert len(await harness.pods()) == 2
        await harness.patch(Pod, "orphan", {"metadata": {"labels": {"app": "other"}}})
        await harness.settle(5)
        assert owners(await harness.get(Pod, "orphan")) == []
        assert len(await harness.pods()) == 3
        await harness.create(Pod, pod("late", {"app": "web"}))
        await harness.settle(5)
        assert (
            len(await harness.pods(lambda each: owners(each) == ["web"])) == 2
        )  # one pod more than desired

    run_on_cluster(test)


def test_a_replication_controller_makes_and_adopts_pods() -> None:
    async def test(harness: Workloads) -> None:
        document = workload("old", {"replicas": 2})
        document["spec"]["selector"] = {"app": "old"}
        await harness.create(Pod, pod("orphan", {"app": "old"}))
        await harness.create(ReplicationController, document)
        await harness.settle(5)
        status = (await harness.get(ReplicationController, "old")).status
        assert (status.replicas, status.ready_replicas, status.observed_generation) == (2, 2, 1)
        assert owners(await harness.get(Pod, "orphan")) == ["old"]

    run_on_cluster(test)


def test_a_deployment_adopts_the_replica_sets_of_one_that_was_orphaned() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"replicas": 2}))
        await harness.settle(5)
        (replica_set,) = await harness.all(ReplicaSet)
        patch: Json = {"metadata": {"ownerReferences": None}}
        await harness.api.delete(Deployment, "web", "default")
        await harness.patch(ReplicaSet, replica_set.metadata.name, patch)
        await harness.settle(5)
        document = workload("web", {"replicas": 2})
        document["metadata"]["name"] = "heir"
        await harness.create(Deployment, document)
        await harness.settle(5)
        (adopted,) = await harness.all(ReplicaSet)
        assert (adopted.metadata.uid, owners(adopted)) == (replica_set.metadata.uid, ["heir"])
        assert len(await harness.pods()) == 2

    run_on_cluster(test)


def test_an_owner_deleted_in_the_foreground_waits_for_what_it_owns() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"replicas": 2}))
        await harness.settle(5)
        await remove(harness, Deployment, "web", "Foreground")
        await harness.clock.sleep(500_000_000)  # pods take a second to go
        assert (await harness.get(Deployment, "web")).metadata.finalizers == ("foregroundDeletion",)
        assert len(await harness.all(ReplicaSet)) == 1
        assert len(await harness.pods()) == 2
        await harness.settle(5)
        assert await harness.pods() == []
        assert await harness.all(ReplicaSet) == []
        assert await harness.all(Deployment) == []

    run_on_cluster(test)


def test_an_object_with_another_owner_survives_and_loses_the_reference() -> None:
    async def test(harness: Workloads) -> None:
        for name in ("a", "b"):
            await harness.create(ConfigMap, {"metadata": {"name": name}})
        first, second = [await harness.get(ConfigMap, name) for name in ("a", "b")]
        references = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": each.metadata.name,
                "uid": each.metadata.uid,
                "blockOwnerDeletion": True,
            }
            for each in (first, second)
        ]
        document = {"metadata": {"name": "shared", "ownerReferences": references}}
        await harness.create(ConfigMap, document)
        await harness.settle(1)
        await remove(harness, ConfigMap, "a", "Foreground")
        await harness.settle(1)
        assert owners(await harness.get(ConfigMap, "shared")) == ["b"]
        names = {each.metadata.name for each in await harness.all(ConfigMap)}
        assert "a" not in names
        await harness.api.delete(ConfigMap, "b", "default")
        await harness.settle(1)
        assert "shared" not in {each.metadata.name for each in await harness.all(ConfigMap)}

    run_on_cluster(test)


def test_a_circle_of_owners_does_not_last() -> None:
    async def test(harness: Workloads) -> None:
        made = {}
        for name in ("a", "b", "c"):
            made[name] = await harness.create(ConfigMap, {"metadata": {"name": name}})
        for name, owner in (("a", "c"), ("b", "a"), ("c", "b")):
            reference = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner,
                "uid": made[owner].metadata.uid,
                "blockOwnerDeletion": True,
            }
            await harness.patch(ConfigMap, name, {"metadata": {"ownerReferences": [reference]}})
        await harness.settle(1)
        await remove(harness, ConfigMap, "a", "Foreground")
        await harness.settle(5)
        names = {each.metadata.name for each in await harness.all(ConfigMap)}
        assert not names & {"a", "b", "c"}

    run_on_cluster(test)


def test_rejected_creations_are_shown_in_the_status() -> None:
    async def test(harness: Workloads) -> None:
        document = workload("web", {"replicas": 1}, priorityClassName="missing")
        await harness.create(ReplicaSet, document)
        await harness.settle(5)
        (condition,) = harness.document(ReplicaSet, "web")["status"]["conditions"]
        assert (condition["type"], condition["reason"]) == ("ReplicaFailure", "FailedCreate")
        assert "no PriorityClass with name missing was found" in condition["message"]
        resource = harness.api.store.catalog.by_manifest("scheduling.k8s.io/v1", "PriorityClass")
        assert resource is not None
        body = {"metadata": {"name": "missing"}, "value": 1}
        harness.api.store.create(resource, None, body, harness.clock.now_ns())
        await harness.settle(20)
        assert len(await harness.pods()) == 1
        assert "conditions" not in harness.document(ReplicaSet, "web")["status"]

    run_on_cluster(test)


def test_rejected_creations_are_retried_with_backoff() -> None:
    """Found by fuzzing: each refusal contains the pod's name, which is different every time."""

    async def test(harness: Workloads) -> None:
        said: list[str] = []
        create = LocalApi.create_document

        async def told(self: LocalApi, kind: type[Any], *what: Any) -> Any:
            try:
                return await create(self, kind, *what)
            except ApiError as error:
                said.append(str(error))
                raise

        # The server accepts both in a template, and refuses a pod with both.
        both = {"nodeName": "a", "schedulingGates": [{"name": "example.com/gate"}]}
        document = workload("web", {"replicas": 1}, **both)
        await harness.create(ReplicaSet, document)
        with mock.patch.object(LocalApi, "create_document", told):
            await harness.settle(60)
        assert len(set(said)) == len(said)
        assert 5 < len(said) < 30

    run_on_cluster(test)


def test_a_namespace_gets_its_service_account_and_root_certificates() -> None:
    async def test(harness: Workloads) -> None:
        await harness.settle(1)
        config = await harness.get(ConfigMap, "kube-root-ca.crt")
        await harness.api.delete(ConfigMap, "kube-root-ca.crt", "default")
        await harness.settle(1)
        again = await harness.get(ConfigMap, "kube-root-ca.crt")
        assert again.metadata.uid != config.metadata.uid
        await harness.patch(ConfigMap, "kube-root-ca.crt", {"data": {"ca.crt": "mine", "x": "y"}})
        await harness.settle(1)
        assert (await harness.get(ConfigMap, "kube-root-ca.crt")).data == config.data
        try:
            harness.api.store.get(
                harness.api.store.catalog.by_url("", "v1", "serviceaccounts"), "default", "default"
            )
        except ApiError as error:
            raise AssertionError("no default account") from error

    run_on_cluster(test)
