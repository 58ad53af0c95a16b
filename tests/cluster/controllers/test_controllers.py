"""Workloads create pods, and their deletion deletes the pods."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import (
    ApiError,
    DaemonSet,
    Deployment,
    Job,
    Node,
    Pod,
    PodDisruptionBudget,
    ReplicaSet,
    ResourceClaim,
    ResourceClaimTemplate,
)
from kubesched.api.meta import Status
from kubesched.cluster.apiserver.http import ApiService
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.foundation.http.http_messages import Request
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads


def on_virtual_time(test: Callable[[Workloads], Awaitable[None]], nodes: int = 1) -> None:
    async def main() -> None:
        async with workloads(nodes) as harness:
            await test(harness)

    run(main)


def image(pod: Pod) -> str:
    return pod.spec.containers[0].image


def test_a_deployment_makes_running_pods_with_all_of_their_template() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"replicas": 3}))
        await harness.settle()
        pods = await harness.pods()
        assert [pod.status.phase for pod in pods] == ["Running"] * 3
        (replica_set,) = await harness.all(ReplicaSet)
        mark = replica_set.metadata.labels["pod-template-hash"]
        assert replica_set.metadata.name == f"web-{mark}"
        for pod in pods:
            assert pod.metadata.name.startswith(f"web-{mark}-")
            assert pod.metadata.labels == {"app": "web", "pod-template-hash": mark}
            (owner,) = pod.metadata.owner_references
            assert (owner.kind, owner.name, owner.controller) == ("ReplicaSet", f"web-{mark}", True)
            document = harness.document(Pod, pod.metadata.name)
            assert document["spec"]["containers"][0]["env"] == [{"name": "A", "value": "b"}]
        status = harness.document(Deployment, "web")["status"]
        assert (status["replicas"], status["availableReplicas"]) == (3, 3)
        held = {each["type"]: (each["status"], each["reason"]) for each in status["conditions"]}
        assert held == {
            "Available": ("True", "MinimumReplicasAvailable"),
            "Progressing": ("True", "NewReplicaSetAvailable"),
        }

    on_virtual_time(test)


def test_a_new_template_takes_over_while_enough_pods_stay() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"replicas": 4}))
        await harness.settle()
        new = workload("web", {}, image="nginx:2")["spec"]["template"]
        await harness.patch(Deployment, "web", {"spec": {"template": new}})
        fewest, most = 4, 4
        for _ in range(200):
            await harness.clock.sleep(20_000_000)
            active = await harness.pods(lambda pod: pod.metadata.deletion_timestamp is None)
            ready = [pod for pod in active if pod.status.phase == "Running"]
            fewest, most = min(fewest, len(ready)), max(most, len(active))
        assert (fewest, most) == (3, 5)  # a quarter of four, each way
        assert {image(pod) for pod in await harness.pods()} == {"nginx:2"}
        revisions = sorted(
            (each.metadata.annotations["deployment.kubernetes.io/revision"], each.spec.replicas)
            for each in await harness.all(ReplicaSet)
        )
        assert revisions == [("1", 0), ("2", 4)]

    on_virtual_time(test)


def test_recreating_ends_the_old_before_the_new_begins() -> None:
    async def test(harness: Workloads) -> None:
        spec = {"replicas": 2, "strategy": {"type": "Recreate"}}
        await harness.create(Deployment, workload("web", spec))
        await harness.settle()
        new = workload("web", {}, image="nginx:2")["spec"]["template"]
        await harness.patch(Deployment, "web", {"spec": {"template": new}})
        for _ in range(100):
            await harness.clock.sleep(50_000_000)
            active = await harness.pods(lambda pod: pod.metadata.deletion_timestamp is None)
            assert len({image(pod) for pod in active}) <= 1
        assert {image(pod) for pod in await harness.pods()} == {"nginx:2"}

    on_virtual_time(test)


def test_a_deployment_retains_a_limited_number_of_old_replica_sets() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"revisionHistoryLimit": 1}))
        for version in range(3):
            template = workload("web", {}, image=f"nginx:{version}")["spec"]["template"]
            await harness.patch(Deployment, "web", {"spec": {"template": template}})
            await harness.settle()
        images = {
            each.spec.template.spec.containers[0].image for each in await harness.all(ReplicaSet)
        }
        assert images == {"nginx:1", "nginx:2"}

    on_virtual_time(test)


def test_a_pod_that_is_deleted_is_replaced() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ReplicaSet, workload("rs", {"replicas": 2}))
        await harness.settle()
        before = {pod.metadata.uid for pod in await harness.pods()}
        victim = (await harness.pods())[0].metadata.name
        await harness.api.delete(Pod, victim, "default")
        await harness.settle()
        after = {pod.metadata.uid for pod in await harness.pods()}
        assert (len(after), len(after & before)) == (2, 1)

    on_virtual_time(test)


def test_fewer_replicas_cost_the_pods_that_are_missed_least() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ReplicaSet, workload("rs", {"replicas": 3}))
        await harness.settle()
        first, cheap, _ = await harness.pods()
        cost = {"controller.kubernetes.io/pod-deletion-cost": "-1"}
        await harness.patch(Pod, cheap.metadata.name, {"metadata": {"annotations": cost}})
        await harness.patch(ReplicaSet, "rs", {"spec": {"replicas": 2}})
        await harness.settle()
        assert cheap.metadata.uid not in {pod.metadata.uid for pod in await harness.pods()}
        assert len(await harness.pods()) == 2
        assert first.metadata.namespace == "default"

    on_virtual_time(test)


def test_a_daemon_is_on_every_node_that_takes_it() -> None:
    async def test(harness: Workloads) -> None:
        taint = {"key": "k", "effect": "NoSchedule"}
        await harness.node("tainted", taints=[taint])
        await harness.node("cordoned", unschedulable=True)
        await harness.create(DaemonSet, workload("d", {}))
        await harness.settle()
        assert sorted(pod.spec.node_name for pod in await harness.pods()) == [
            "cordoned",
            "n0",
            "n1",
        ]
        await harness.node("late")
        await harness.api.patch(
            Node, "tainted", None, {"spec": {"taints": None}}, patch_type="merge"
        )
        await harness.settle()
        status = (await harness.get(DaemonSet, "d")).status
        assert (status.desired_number_scheduled, status.number_ready) == (5, 5)
        await harness.api.delete(Node, "late")
        await harness.settle(60)  # pods of a deleted node are deleted after a while
        assert "late" not in {pod.spec.node_name for pod in await harness.pods()}

    on_virtual_time(test, nodes=2)


def test_daemons_are_renewed_one_after_another() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(DaemonSet, workload("d", {}))
        await harness.settle()
        template = workload("d", {}, image="nginx:2")["spec"]["template"]
        await harness.patch(DaemonSet, "d", {"spec": {"template": template}})
        fewest = 3
        for _ in range(200):
            await harness.clock.sleep(50_000_000)
            running = await harness.pods(
                lambda pod: (
                    pod.status.phase == "Running" and pod.metadata.deletion_timestamp is None
                )
            )
            fewest = min(fewest, len(running))
        assert fewest == 2
        assert {image(pod) for pod in await harness.pods()} == {"nginx:2"}

    on_virtual_time(test, nodes=3)


def job(name: str = "j", **spec: Any) -> dict[str, Any]:
    made = workload(name, spec, restartPolicy="Never")
    del made["spec"]["selector"]
    return made


def test_a_job_runs_to_its_end() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job(completions=5, parallelism=2))
        most = 0
        for _ in range(100):
            await harness.clock.sleep(500_000_000)
            active = await harness.pods(lambda pod: pod.status.phase in ("Pending", "Running"))
            most = max(most, len(active))
        assert most == 2
        done = await harness.get(Job, "j")
        assert (done.status.succeeded, done.status.active) == (5, 0)
        assert [each.type for each in done.status.conditions] == ["SuccessCriteriaMet", "Complete"]
        assert done.status.completion_time is not None
        assert len(await harness.pods()) == 5

    on_virtual_time(test)


def test_every_pod_of_an_indexed_job_has_an_index() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job(completions=3, parallelism=3, completionMode="Indexed"))
        await harness.settle(30)
        label = "batch.kubernetes.io/job-completion-index"
        assert sorted(pod.metadata.labels[label] for pod in await harness.pods()) == ["0", "1", "2"]
        assert (await harness.get(Job, "j")).status.succeeded == 3

    on_virtual_time(test)


def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job(suspend=True))
        await harness.settle()
        assert await harness.pods() == []
        await harness.patch(Job, "j", {"spec": {"suspend": False}})
        await harness.settle()
        assert (await harness.get(Job, "j")).status.succeeded == 1

    on_virtual_time(test)


def test_a_job_that_fails_too_often_has_failed() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job(backoffLimit=1))
        for wait in (1, 11):  # a failed pod is replaced after 10 s
            await harness.settle(wait)
            (pod,) = await harness.pods(lambda pod: pod.status.phase == "Running")
            await harness.api.patch(
                Pod,
                pod.metadata.name,
                "default",
                {"status": {"phase": "Failed"}},
                subresource="status",
            )
        await harness.settle()
        conditions = (await harness.get(Job, "j")).status.conditions
        held = [(each.type, each.reason) for each in conditions]
        reason = "BackoffLimitExceeded"
        assert held == [("FailureTarget", reason), ("Failed", reason)]
        assert len(await harness.pods()) == 2

    on_virtual_time(test)


def test_a_finished_job_is_deleted_after_its_time_to_live() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Job, job(ttlSecondsAfterFinished=10))
        await harness.settle(60)
        assert await harness.all(Job) == []
        assert await harness.pods() == []

    on_virtual_time(test)


BUDGETS = {
    "at least two of three": ({"minAvailable": 2}, (3, 2, 1)),
    "at least half of three, rounded up": ({"minAvailable": "50%"}, (3, 2, 1)),
    "one of three may be missing": ({"maxUnavailable": 1}, (3, 2, 1)),
    "none may be missing": ({"maxUnavailable": 0}, (3, 3, 0)),
}


@pytest.mark.parametrize(("spec", "want"), BUDGETS.values(), ids=BUDGETS)
def test_a_budget_limits_the_pods_that_may_be_evicted(
    spec: dict[str, Any], want: tuple[int, int, int]
) -> None:
    async def test(harness: Workloads) -> None:
        selector = {"matchLabels": {"app": "web"}}
        document = {"metadata": {"name": "b"}, "spec": {**spec, "selector": selector}}
        await harness.create(PodDisruptionBudget, document)
        await harness.create(Deployment, workload("web", {"replicas": 3}))
        await harness.create(Deployment, workload("other", {"replicas": 2}))
        await harness.settle()
        status = (await harness.get(PodDisruptionBudget, "b")).status
        assert (status.expected_pods, status.desired_healthy, status.disruptions_allowed) == want
        assert status.current_healthy == 3
        await harness.patch(Deployment, "web", {"spec": {"replicas": 0}})
        await harness.settle()
        assert (await harness.get(PodDisruptionBudget, "b")).status.disruptions_allowed == 0

    on_virtual_time(test)


def test_claims_of_templates_are_created_and_deleted_with_their_pod() -> None:
    async def test(harness: Workloads) -> None:
        request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
        inner = {"metadata": {"labels": {"a": "b"}}, "spec": {"devices": {"requests": [request]}}}
        spec = workload("p", {})["spec"]["template"]["spec"]
        spec["resourceClaims"] = [{"name": "dev", "resourceClaimTemplateName": "t"}]
        await harness.create(Pod, {"metadata": {"name": "p"}, "spec": spec})
        await harness.settle()
        assert await harness.all(ResourceClaim) == []
        await harness.create(ResourceClaimTemplate, {"metadata": {"name": "t"}, "spec": inner})
        await harness.settle()
        (claim,) = await harness.all(ResourceClaim)
        assert claim.metadata.name.startswith("p-dev-")
        assert claim.metadata.labels == {"a": "b"}
        pod = await harness.get(Pod, "p")
        (told,) = pod.status.resource_claim_statuses
        assert (told.name, told.resource_claim_name) == ("dev", claim.metadata.name)
        user = {"resource": "pods", "name": "p", "uid": pod.metadata.uid}
        shared = {"metadata": {"name": "shared"}, "spec": {"devices": {"requests": [request]}}}
        await harness.create(ResourceClaim, shared)
        reserved = {"status": {"allocation": {"devices": {}}, "reservedFor": [user]}}
        await harness.api.patch(
            ResourceClaim, "shared", "default", reserved, patch_type="merge", subresource="status"
        )
        await harness.settle()
        assert (await harness.get(ResourceClaim, "shared")).status.allocation is not None
        await harness.api.delete(Pod, "p", "default")
        await harness.settle()
        (left,) = await harness.all(ResourceClaim)
        assert (left.metadata.name, left.status.reserved_for) == ("shared", ())
        assert left.status.allocation is None

    on_virtual_time(test)


def test_dependents_are_deleted_with_their_owner() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"replicas": 3}))
        await harness.settle()
        await harness.api.delete(Deployment, "web", "default")
        await harness.settle()
        assert await harness.all(ReplicaSet) == []
        assert await harness.pods() == []

    on_virtual_time(test)


def test_pods_of_an_unknown_owner_kind_are_not_changed() -> None:
    async def test(harness: Workloads) -> None:
        owner = {"apiVersion": "example.com/v1", "kind": "Widget", "name": "w", "uid": "u"}
        spec = workload("p", {})["spec"]["template"]["spec"]
        metadata = {"name": "p", "ownerReferences": [owner]}
        await harness.create(Pod, {"metadata": metadata, "spec": spec})
        await harness.settle()
        assert [each.metadata.name for each in await harness.pods()] == ["p"]

    on_virtual_time(test)


@settings(max_examples=10, deadline=None)
@given(st.integers(0, 2**32), st.lists(st.integers(0, 6), min_size=1, max_size=5))
def test_the_number_of_pods_is_correct_after_random_faults(seed: int, sizes: list[int]) -> None:
    rng = random.Random(seed)

    def faults(verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
        if verb in ("watch", "list") or rng.random() > 0.3:
            return None
        refused = ApiError(Status(status="Failure", message="no", reason="Timeout", code=504))
        delay_ns = rng.choice((0, 1, 50_000_000))
        return Fault(delay_ns=delay_ns, error=refused, answer_lost=verb != "create")

    async def main() -> None:
        async with workloads(faults=faults) as harness:
            await harness.create(Deployment, workload("web", {}))
            for size in sizes:
                await harness.patch(Deployment, "web", {"spec": {"replicas": size}})
                await harness.clock.sleep(rng.randrange(10**9))
            await harness.settle(120)
            assert len(await harness.pods()) == sizes[-1]
            status = (await harness.get(Deployment, "web")).status
            assert (status.replicas, status.available_replicas) == (sizes[-1], sizes[-1])

    run(main)


@pytest.mark.parametrize("policy", ["Orphan", "Background"])
def test_dependents_survive_deletion_with_orphaning(policy: str) -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ReplicaSet, workload("rs", {"replicas": 2}))
        await harness.settle()
        service = ApiService(harness.api.store, harness.clock)
        path = "/apis/apps/v1/namespaces/default/replicasets/rs"
        service.answer(Request.of("DELETE", f"{path}?propagationPolicy={policy}"))
        await harness.settle()
        pods = await harness.pods()
        assert len(pods) == (2 if policy == "Orphan" else 0)
        assert not any(pod.metadata.owner_references for pod in pods)

    on_virtual_time(test)
