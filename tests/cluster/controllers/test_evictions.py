"""Evictions: what a budget allows, notes, and gets back."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import ApiError, Pod, PodDisruptionBudget, ReplicaSet
from kubesched.cluster.apiserver.store.pod_eviction import admit_eviction
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads


def story(test: Callable[[Workloads], Awaitable[None]]) -> None:
    async def main() -> None:
        async with workloads() as world:
            await test(world)

    run(main)


async def budget(world: Workloads, name: str = "b", **spec: Any) -> None:
    selector = {"matchLabels": {"app": "web"}}
    body = {"metadata": {"name": name}, "spec": {"selector": selector, **spec}}
    await world.create(PodDisruptionBudget, body)
    await world.settle(1)


def evict(world: Workloads, pod: Pod) -> None:
    admit_eviction(world.api.store, "default", pod.metadata.name, world.clock.now_ns())


def test_a_budget_is_used_up_at_once_and_refilled_when_the_pod_is_replaced() -> None:
    async def test(world: Workloads) -> None:
        await world.create(ReplicaSet, workload("web", {"replicas": 3}))
        await world.settle(5)
        await budget(world, minAvailable=2)
        first, second, _ = await world.pods()
        evict(world, first)
        with pytest.raises(ApiError) as caught:
            evict(world, second)
        assert caught.value.code == 429
        details = caught.value.status.details
        assert details is not None
        assert not details.retry_after_seconds, "nobody knows when it will be refilled"
        (cause,) = details.causes
        assert cause.message == "The disruption budget b needs 2 healthy pods and has 3 currently"
        marked = await world.get(Pod, first.metadata.name)
        assert any(each.reason == "EvictionByEvictionAPI" for each in marked.status.conditions)
        await world.api.delete(Pod, first.metadata.name, "default")
        await world.settle(5)
        evict(world, second)  # another pod has taken the place of the first

    story(test)


def test_an_eviction_that_never_becomes_a_deletion_is_given_back() -> None:
    async def test(world: Workloads) -> None:
        await world.create(ReplicaSet, workload("web", {"replicas": 2}))
        await world.settle(5)
        await budget(world, maxUnavailable="50%")
        first, _ = await world.pods()
        evict(world, first)
        await world.settle(60)
        assert world.document(PodDisruptionBudget, "b")["status"]["disruptionsAllowed"] == 0
        await world.settle(70)
        status = world.document(PodDisruptionBudget, "b")["status"]
        assert (status["disruptionsAllowed"], status.get("disruptedPods", {})) == (1, {})

    story(test)


@pytest.mark.parametrize(
    ("policy", "least", "allowed"),
    [
        ("AlwaysAllow", 2, True),
        ("IfHealthyBudget", 2, False),
        ("IfHealthyBudget", 1, True),
        (None, 2, False),
    ],
)
def test_pods_that_are_not_ready_go_as_the_budget_says(
    policy: str | None, least: int, allowed: bool
) -> None:
    async def test(world: Workloads) -> None:
        # One of its own that is ready, and one that never is.
        await world.create(ReplicaSet, workload("web", {"replicas": 1}))
        document = workload("web", {"replicas": 1})
        document["metadata"]["name"] = "sick"
        document["spec"]["selector"] = {"matchLabels": {"app": "web", "is": "sick"}}
        template = document["spec"]["template"]["metadata"]
        template["labels"] = {"app": "web", "is": "sick"}
        template["annotations"] = {"kubesched.io/ready-delay": "never"}
        await world.create(ReplicaSet, document)
        await world.settle(5)
        (unready,) = await world.pods(lambda pod: pod.metadata.labels.get("is") == "sick")
        spec: dict[str, Any] = {"minAvailable": least}
        if policy is not None:
            spec["unhealthyPodEvictionPolicy"] = policy
        await budget(world, **spec)
        assert world.document(PodDisruptionBudget, "b")["status"]["currentHealthy"] == 1
        if allowed:
            evict(world, unready)
        else:
            with pytest.raises(ApiError):
                evict(world, unready)

    story(test)


def test_a_pod_of_two_budgets_is_not_evicted() -> None:
    async def test(world: Workloads) -> None:
        await world.create(ReplicaSet, workload("web", {"replicas": 1}))
        await world.settle(5)
        await budget(world, "a", minAvailable=0)
        await budget(world, "b", minAvailable=0)
        (pod,) = await world.pods()
        with pytest.raises(ApiError, match="more than one PodDisruptionBudget"):
            evict(world, pod)

    story(test)
