"""Nodes without heartbeats: conditions, taints, evictions, and pods without an owner."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api import Deployment, Lease, Node, Pod
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.controllers.workloads import Workloads, workload, workloads

UNREACHABLE = "node.kubernetes.io/unreachable"


def run_on_cluster(
    test: Callable[[Workloads], Awaitable[None]], nodes: int = 2, *, heartbeats: bool = False
) -> None:
    async def main() -> None:
        async with workloads(nodes, heartbeats=heartbeats) as harness:
            await test(harness)

    run(main)


async def stop_node(harness: Workloads, name: str, stopped: str | None = "true") -> None:
    patch = {"metadata": {"annotations": {STOPPED: stopped}}}
    await harness.api.patch(Node, name, None, patch, patch_type="merge")


async def taint(harness: Workloads, name: str, *taints: dict[str, Any]) -> None:
    patch = {"spec": {"taints": list(taints) or None}}
    await harness.api.patch(Node, name, None, patch, patch_type="merge")


def taints(node: Node) -> set[tuple[str, str]]:
    return {(each.key, each.effect) for each in node.spec.taints}


def ready(node: Node) -> str:
    return next(each.status for each in node.status.conditions if each.type == "Ready")


async def make_pod(harness: Workloads, name: str, node: str, **spec: Any) -> None:
    spec.setdefault("containers", [{"name": "c", "image": "pause"}])
    document = {"metadata": {"name": name}, "spec": {**spec, "nodeName": node}}
    await harness.create(Pod, document)


@pytest.mark.parametrize("heartbeats", [True, False])
def test_a_node_without_heartbeats_is_unreachable_and_ready_after_the_next_heartbeat(
    heartbeats: bool,
) -> None:
    async def test(harness: Workloads) -> None:
        await make_pod(harness, "p", "n0")
        await harness.settle(30)
        await stop_node(harness, "n0")
        await harness.settle(39)  # less than the 50 s that a node may be silent, and a heartbeat
        assert ready(await harness.api.get(Node, "n0")) == "True"
        await harness.settle(20)
        node = await harness.api.get(Node, "n0")
        assert {each.status for each in node.status.conditions} == {"Unknown"}
        assert taints(node) == {(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")}
        assert taints(await harness.api.get(Node, "n1")) == set()
        (pod,) = await harness.pods()
        conditions = {each.type: each.status for each in pod.status.conditions}
        assert (pod.status.phase, conditions["Ready"]) == ("Running", "False")
        await stop_node(harness, "n0", None)
        await harness.settle(5)
        node = await harness.api.get(Node, "n0")
        assert (ready(node), taints(node)) == ("True", set())
        (pod,) = await harness.pods()
        assert {each.type: each.status for each in pod.status.conditions}["Ready"] == "True"

    run_on_cluster(test, heartbeats=heartbeats)


def test_heartbeats_renew_a_lease_that_is_deleted_with_its_node() -> None:
    async def test(harness: Workloads) -> None:
        await harness.settle(100)
        first = await harness.api.get(Lease, "n0", "kube-node-lease")
        await harness.settle(11)
        later = await harness.api.get(Lease, "n0", "kube-node-lease")
        assert (first.spec.holder_identity, first.spec.lease_duration_seconds) == ("n0", 40)
        assert (later.spec.renew_time or "") > (first.spec.renew_time or "")
        assert ready(await harness.api.get(Node, "n0")) == "True"
        await harness.api.delete(Node, "n0")
        await harness.settle(11)
        assert [lease.metadata.name for lease in await harness.all(Lease)] == ["n1"]

    run_on_cluster(test, heartbeats=True)


def test_pods_of_a_stopped_node_do_nothing() -> None:
    async def test(harness: Workloads) -> None:
        await make_pod(harness, "p", "n0", containers=[{"name": "c", "image": "pause"}])
        annotations = {"kubesched.io/run-duration": "10s"}
        await harness.create(
            Pod,
            {
                "metadata": {"name": "q", "annotations": annotations},
                "spec": {"containers": [{"name": "c", "image": "i"}], "nodeName": "n0"},
            },
        )
        await harness.settle(5)
        await stop_node(harness, "n0")
        await harness.settle(1)
        await harness.api.delete(Pod, "p", "default")
        await make_pod(harness, "r", "n0")
        await harness.settle(40)
        phases = {pod.metadata.name: pod.status.phase for pod in await harness.pods()}
        assert phases == {"p": "Running", "q": "Running", "r": "Pending"}
        await stop_node(harness, "n0", None)
        await harness.settle(5)
        phases = {pod.metadata.name: pod.status.phase for pod in await harness.pods()}
        assert phases == {"q": "Succeeded", "r": "Running"}

    run_on_cluster(test)


def test_pods_of_a_silent_node_are_evicted_and_replaced_when_they_no_longer_tolerate_it() -> None:
    async def test(harness: Workloads) -> None:
        await harness.create(Deployment, workload("web", {"replicas": 2}))
        await harness.settle()
        await stop_node(harness, "n0")
        harness.binder.node = "n1"
        await harness.settle(50 + 290)
        assert {pod.spec.node_name for pod in await harness.pods()} == {"n0"}
        await harness.settle(20)
        pods = await harness.pods()
        gone = [pod for pod in pods if pod.metadata.deletion_timestamp is not None]
        left = [pod for pod in pods if pod.metadata.deletion_timestamp is None]
        assert {pod.spec.node_name for pod in gone} == {"n0"}
        assert [(pod.spec.node_name, pod.status.phase) for pod in left] == [("n1", "Running")] * 2
        (target,) = [each for each in gone[0].status.conditions if each.type == "DisruptionTarget"]
        assert (target.status, target.reason) == ("True", "DeletionByTaintManager")
        await stop_node(harness, "n0", None)
        await harness.settle()
        assert {pod.spec.node_name for pod in await harness.pods()} == {"n1"}

    run_on_cluster(test)


def test_no_execute_taints_evict_by_the_shortest_toleration() -> None:
    async def test(harness: Workloads) -> None:
        def tolerates(key: str, seconds: int | None) -> dict[str, Any]:
            toleration: dict[str, Any] = {"key": key, "operator": "Exists", "effect": "NoExecute"}
            return toleration if seconds is None else {**toleration, "tolerationSeconds": seconds}

        await make_pod(harness, "none", "n0")
        await make_pod(harness, "elsewhere", "n1")
        await make_pod(harness, "ever", "n0", tolerations=[tolerates("a", None)])
        await make_pod(harness, "short", "n0", tolerations=[tolerates("a", 30)])
        both = [tolerates("a", 60), tolerates("b", 20)]
        await make_pod(harness, "both", "n0", tolerations=both)
        await harness.settle(5)
        await taint(harness, "n0", {"key": "a", "effect": "NoExecute"})
        await harness.settle(3)

        async def names() -> set[str]:
            return {pod.metadata.name for pod in await harness.pods()}

        assert await names() == {"elsewhere", "ever", "short", "both"}
        await harness.settle(20)
        assert await names() == {"elsewhere", "ever", "short", "both"}
        await harness.settle(10)
        assert await names() == {"elsewhere", "ever", "both"}
        await harness.settle(30)
        assert await names() == {"elsewhere", "ever"}

    run_on_cluster(test)


def test_removing_a_taint_cancels_an_eviction() -> None:
    async def test(harness: Workloads) -> None:
        patience = {"key": "a", "operator": "Exists", "tolerationSeconds": 30}
        await make_pod(harness, "p", "n0", tolerations=[{**patience, "effect": "NoExecute"}])
        await harness.settle(5)
        await taint(harness, "n0", {"key": "a", "effect": "NoExecute"})
        await harness.settle(20)
        await taint(harness, "n0")
        await harness.settle(100)
        assert [pod.metadata.name for pod in await harness.pods()] == ["p"]
        await taint(harness, "n0", {"key": "a", "effect": "NoExecute"})
        await harness.settle(25)  # the timeout starts again
        assert [pod.metadata.name for pod in await harness.pods()] == ["p"]
        await harness.settle(10)
        assert await harness.pods() == []

    run_on_cluster(test)


def test_conditions_and_cordons_have_their_taints() -> None:
    async def test(harness: Workloads) -> None:
        await taint(harness, "n0", {"key": "mine", "value": "x", "effect": "NoSchedule"})
        await harness.settle(1)
        conditions = [
            {"type": "Ready", "status": "False"},
            {"type": "DiskPressure", "status": "True"},
        ]
        patch: dict[str, Any] = {"status": {"conditions": conditions}}
        await harness.api.patch(Node, "n0", None, patch, subresource="status")
        await harness.api.patch(Node, "n0", None, {"spec": {"unschedulable": True}})
        await harness.settle(1)
        assert taints(await harness.api.get(Node, "n0")) == {
            ("mine", "NoSchedule"),
            ("node.kubernetes.io/not-ready", "NoSchedule"),
            ("node.kubernetes.io/not-ready", "NoExecute"),
            ("node.kubernetes.io/disk-pressure", "NoSchedule"),
            ("node.kubernetes.io/unschedulable", "NoSchedule"),
        }
        conditions[0]["status"], conditions[1]["status"] = "True", "False"
        await harness.api.patch(Node, "n0", None, patch, subresource="status")
        await harness.api.patch(Node, "n0", None, {"spec": {"unschedulable": False}})
        await harness.settle(1)
        assert taints(await harness.api.get(Node, "n0")) == {("mine", "NoSchedule")}

    run_on_cluster(test)


def test_pods_of_a_deleted_node_are_deleted_after_a_quarantine() -> None:
    async def test(harness: Workloads) -> None:
        await make_pod(harness, "p", "n0")
        await make_pod(harness, "q", "n1")
        await harness.settle(5)
        await harness.api.delete(Node, "n0")
        await harness.settle(38)
        assert len(await harness.pods()) == 2
        seen = harness.api.watch(Pod, resource_version=str(harness.api.store.revision))
        await harness.settle(5)
        assert [pod.metadata.name for pod in await harness.pods()] == ["q"]
        failed = (await anext(seen)).object
        assert failed is not None
        (target,) = [each for each in failed.status.conditions if each.type == "DisruptionTarget"]
        assert (failed.status.phase, target.reason) == ("Failed", "DeletionByPodGC")

    run_on_cluster(test)


def test_terminating_pods_on_a_node_out_of_service_are_deleted() -> None:
    async def test(harness: Workloads) -> None:
        await make_pod(harness, "p", "n0")
        await harness.settle(5)
        await stop_node(harness, "n0")
        await harness.settle(60)
        await harness.api.delete(Pod, "p", "default")
        await harness.settle(60)
        assert len(await harness.pods()) == 1
        node = await harness.api.get(Node, "n0")
        known = [{"key": each.key, "effect": each.effect} for each in node.spec.taints]
        out = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        await taint(harness, "n0", *known, out)
        await harness.settle(5)
        assert await harness.pods() == []

    run_on_cluster(test)
