"""Devices that consume a node's own resources (docs/reference/08 §10.2)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import (
    NodeAllocatableResourceClaimStatus,
    Pod,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceRequirements,
)
from kubesched.api.pod import ResourceClaimUse
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import SUCCESS, PodInfo, Status
from kubesched.framework.causes import DeviceClaimUnusable, InsufficientResource
from kubesched.testing import make_node, make_pod
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    DRIVER,
    DeviceHarness,
    allocated,
    claim,
    device,
    device_class,
    exactly,
    pod_with,
    slice_of,
)

CLASS = device_class("k", f'device.driver == "{DRIVER}"')
GATES = {"DRANodeAllocatableResources": True}
NODE = make_node("n", allocatable={"cpu": "8", "memory": "16Gi", "pods": "110"})


def user(
    cpu: str = "1", *, uses: bool = True, pod_level: dict[str, str] | None = None, name: str = "pod"
) -> Pod:
    """Return a pod with claim c, which its container uses."""
    pod = pod_with("c", name=name)
    (container,) = pod.spec.containers
    resources = ResourceRequirements(
        requests={"cpu": cpu}, claims=(ResourceClaimUse(name="c0"),) if uses else ()
    )
    spec = replace(pod.spec, containers=(replace(container, resources=resources),))
    if pod_level is not None:
        spec = replace(spec, resources=ResourceRequirements(requests=dict(pod_level)))
    return replace(pod, spec=spec)


def consuming(**mappings: Any) -> dict[str, Any]:
    return device("a", nodeAllocatableResourceMappings=mappings)


def devices(*objects: Any, **options: Any) -> DeviceHarness:
    return DeviceHarness(CLASS, NODE, *objects, gates=GATES, **options)


@pytest.mark.parametrize(
    ("takes", "pod", "expected"),
    [
        ({"cpu": {"allocationMultiplier": "7"}}, user("1"), SUCCESS),
        ({"cpu": {"allocationMultiplier": "0"}}, user("8"), SUCCESS),
        (
            {"cpu": {"allocationMultiplier": "8"}},
            user("1"),
            Status.unresolvable("Insufficient cpu", causes=(InsufficientResource("cpu"),)),
        ),
        (
            {"cpu": {"allocationMultiplier": "9"}, "memory": {"allocationMultiplier": "17Gi"}},
            user("1"),
            Status.unresolvable(
                "Insufficient cpu",
                "Insufficient memory",
                causes=(InsufficientResource("cpu"), InsufficientResource("memory")),
            ),
        ),
        (
            {"cpu": {"allocationMultiplier": "1"}},
            user("1", uses=False),
            Status.unresolvable(
                "claim c: node-allocatable resource claim not referenced by any container within "
                "the pod",
                causes=(DeviceClaimUnusable(),),
            ),
        ),
        (
            {"cpu": {"allocationMultiplier": "2"}},
            user("1", pod_level={"cpu": "2"}),
            Status.unresolvable(
                "pod level request for cpu is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests",
                causes=(DeviceClaimUnusable(),),
            ),
        ),
        ({"cpu": {"allocationMultiplier": "2"}}, user("1", pod_level={"cpu": "3"}), SUCCESS),
    ],
)
def test_the_consumed_amount_must_be_free(takes: Any, pod: Pod, expected: Status) -> None:
    assert devices(slice_of(consuming(**takes)), claim("c", exactly())).filter(pod) == expected


def test_pods_on_the_node_make_the_rejection_resolvable() -> None:
    plugin = devices(slice_of(consuming(cpu={"allocationMultiplier": "4"})), claim("c", exactly()))
    plugin.cache.add_pod(make_pod("other", node_name="n", requests={"cpu": "4"}))
    plugin.cache.update_snapshot()
    lacking = Status.unschedulable("Insufficient cpu", causes=(InsufficientResource("cpu"),))
    assert plugin.filter(user("1")) == lacking


def test_consumed_capacity_counts_by_its_amount() -> None:
    shared = device(
        "a",
        capacity={"memory": "8Gi"},
        allowMultipleAllocations=True,
        nodeAllocatableResourceMappings={
            "memory": {"capacityKey": "memory", "allocationMultiplier": "2"}
        },
    )
    wanted = exactly(1, capacity={"requests": {"memory": "3Gi"}})
    plugin = devices(slice_of(shared), claim("c", wanted))
    assert plugin.filter(user()) == SUCCESS
    assert plugin.state.adjust_assumed is not None
    charged = plugin.state.adjust_assumed(user(), "n")
    (status,) = charged.status.node_allocatable_resource_claim_statuses
    # Without a request policy, a share consumes all of a capacity that the request does not
    # name. Here the request names an amount, so that amount is consumed, twice.
    assert status == NodeAllocatableResourceClaimStatus(
        resource_claim_name="c", containers=("c0",), resources={"memory": "6Gi"}
    )
    assert PodInfo(charged).requested.memory == 6 << 30


@pytest.mark.parametrize(
    ("reserved", "other", "expected"),
    [
        ((), "c", "node allocatable resource claim c is already used by another pod"),
        (("else",), "", "node allocatable resource claim c is shared by multiple pods"),
    ],
)
def test_a_claim_that_consumes_node_resources_is_for_one_pod(
    reserved: tuple[str, ...], other: str, expected: str
) -> None:
    given = allocated(claim("c", exactly()), {"device": "a"}, node="n")
    consumers = tuple(
        ResourceClaimConsumerReference(resource="pods", name=name, uid=f"uid-{name}")
        for name in reserved
    )
    given = replace(given, status=replace(given.status, reserved_for=consumers))
    plugin = devices(slice_of(consuming(cpu={"allocationMultiplier": "1"})), given)
    if other:
        neighbour = make_pod("other", node_name="n")
        status = NodeAllocatableResourceClaimStatus(
            resource_claim_name=other, containers=("c",), resources={"cpu": "1"}
        )
        plugin.cache.add_pod(
            replace(
                neighbour,
                status=replace(
                    neighbour.status, node_allocatable_resource_claim_statuses=(status,)
                ),
            )
        )
        plugin.cache.update_snapshot()
    rejected = Status.unresolvable(expected, causes=(DeviceClaimUnusable(),))
    assert plugin.filter(user()) == rejected


def test_the_status_is_written_in_pre_bind_and_cleared_in_unreserve() -> None:
    async def case() -> None:
        pod = user()
        plugin = devices(
            slice_of(consuming(cpu={"allocationMultiplier": "2"})), claim("c", exactly()), pod
        )
        assert plugin.filter(pod) == SUCCESS
        assert plugin.state.adjust_assumed is not None
        assumed = plugin.state.adjust_assumed(pod, "n")
        assert PodInfo(assumed).requested.milli_cpu == 3000
        assert plugin.plugin.reserve(plugin.state, assumed, "n") == SUCCESS
        assert await plugin.plugin.pre_bind(plugin.state, assumed, "n") == SUCCESS

        def stored() -> tuple[NodeAllocatableResourceClaimStatus, ...]:
            found = plugin.handle.objects.get(Pod, "pod", "default")
            assert found is not None
            return found.status.node_allocatable_resource_claim_statuses

        assert [each.resources for each in stored()] == [{"cpu": "2"}]
        plugin.plugin.unreserve(plugin.state, assumed, "n")
        await plugin.handle.finish_work()
        assert stored() == ()
        kept = plugin.handle.objects.get(ResourceClaim, "c", "default")
        assert kept is not None
        assert kept.status.reserved_for == ()

    run(case())


def test_without_the_gate_no_node_resources_are_consumed() -> None:
    plugin = DeviceHarness(
        CLASS, NODE, slice_of(consuming(cpu={"allocationMultiplier": "9"})), claim("c", exactly())
    )
    assert plugin.filter(user()) == SUCCESS
    assert plugin.state.adjust_assumed is None
