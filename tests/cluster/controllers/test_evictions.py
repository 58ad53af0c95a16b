"""Evictions: disruptions that a budget allows, records and regains."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import ApiError, Pod, PodDisruptionBudget, ReplicaSet
from kubesched.cluster.apiserver.store.pod_eviction import admit_eviction
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads


def run_on_cluster(test: Callable[[Workloads], Awaitable[None]]) -> None:
    async def main() -> None:
        async with workloads() as harness:
            await test(harness)

    run(main)


async def budget(harness: Workloads, name: str = "b", **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    body = {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}
    await harness.create(PodDisruptionBudget, body)
    await harness.settle(1)


def evict(harness: Workloads, pod: Pod) -> None:
    admit_eviction(harness.api.store, "default", pod.metadata.name, harness.clock.now_ns())


def test_a_budget_is_used_up_at_once_and_refilled_when_the_pod_is_replaced() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ReplicaSet, workload("web", {"replicas": 3}))
        await harness.settle(5)
        await budget(harness, minAvailable=2)
        first, second, _ = await harness.pods()
        evict(harness, first)
        with pytest.raises(ApiError) as caught:
            evict(harness, second)
        assert caught.value.code == 429
        details = caught.value.status.details
        assert details is not None
        assert not details.retry_after_seconds, "the time of the next allowance is unknown"
        (cause,) = details.causes
        assert cause.message == "The disruption budget b needs 2 healthy pods and has 3 currently"
        marked = await harness.get(Pod, first.metadata.name)
        assert any(each.reason == "EvictionByEvictionAPI" for each in marked.status.conditions)
        await harness.api.delete(Pod, first.metadata.name, "default")
        await harness.settle(5)
        evict(harness, second)  # another pod has taken the place of the first

    run_on_cluster(test)


def test_an_eviction_without_a_deletion_is_returned_to_the_budget() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ReplicaSet, workload("web", {"replicas": 2}))
        await harness.settle(5)
        await budget(harness, maxUnavailable="50%")
        first, _ = await harness.pods()
        evict(harness, first)
        await harness.settle(60)
        assert harness.document(PodDisruptionBudget, "b")["status"]["disruptionsAllowed"] == 0
        await harness.settle(70)
        status = harness.document(PodDisruptionBudget, "b")["status"]
        assert (status["disruptionsAllowed"], status.get("disruptedPods", {})) == (1, {})

    run_on_cluster(test)


@pytest.mark.parametrize(
    ("policy", "least", "allowed"),
    [
        ("AlwaysAllow", 2, True),
        ("IfHealthyBudget", 2, False),
        ("IfHealthyBudget", 1, True),
        (None, 2, False),
    ],
)
def test_unready_pods_are_evicted_by_the_policy_of_the_budget(
    policy: str | None, least: int, allowed: bool
) -> None:
    async def test(harness: Workloads) -> None:
        # One container that becomes ready, and one that never does.
        await harness.create(ReplicaSet, workload("web", {"replicas": 1}))
        document = workload("web", {"replicas": 1})
        document["metadata"]["name"] = "sick"
        document["spec"]["selector"] = {"matchLabels": {"app": "web", "is": "sick"}}
        template = document["spec"]["template"]["metadata"]
        template["labels"] = {"app": "web", "is": "sick"}
        template["annotations"] = {"kubesched.io/ready-delay": "never"}
        await harness.create(ReplicaSet, document)
        await harness.settle(5)
        (unready,) = await harness.pods(lambda pod: pod.metadata.labels.get("is") == "sick")
        spec: dict[str, Any] = {"minAvailable": least}
        if policy is not None:
            spec["unhealthyPodEvictionPolicy"] = policy
        await budget(harness, **spec)
        assert harness.document(PodDisruptionBudget, "b")["status"]["currentHealthy"] == 1
        if allowed:
            evict(harness, unready)
        else:
            with pytest.raises(ApiError):
                evict(harness, unready)

    run_on_cluster(test)


def test_a_pod_of_two_budgets_is_not_evicted() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(ReplicaSet, workload("web", {"replicas": 1}))
        await harness.settle(5)
        await budget(harness, "a", minAvailable=0)
        await budget(harness, "b", minAvailable=0)
        (pod,) = await harness.pods()
        with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
            evict(harness, pod)

    run_on_cluster(test)
