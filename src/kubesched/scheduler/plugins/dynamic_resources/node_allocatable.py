"""Devices that consume the node's own cpu, memory and similar resources.

docs/reference/08 §10.2.

This module is used with the gate DRANodeAllocatableResources. A device declares how much of which
resource it consumes. The node must have that amount free in addition to the containers' requests,
and is charged for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec.structs import replace

from kubesched.api import (
    AllocationResult,
    DeviceRequestAllocationResult,
    NodeAllocatableResourceClaimStatus,
    NodeAllocatableResourceMapping,
    Pod,
    ResourceClaim,
)
from kubesched.api.base import ResourceList
from kubesched.api.pod_requests import PodRequestOptions, pod_requests
from kubesched.api.quantity import ZERO, Quantity, parse_quantity, quantity_from_json
from kubesched.api.resource_amounts import Resources
from kubesched.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, is_pod_level_resource_name
from kubesched.errors import KubeschedError
from kubesched.framework import SUCCESS, NodeInfo, Status
from kubesched.framework.causes import DeviceClaimUnusable, InsufficientResource
from kubesched.scheduler.plugins.dynamic_resources.device_inventory import DeviceInventory
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices
from kubesched.scheduler.plugins.dynamic_resources.used_claims import claim_names_of

__all__ = ["NodeAllocatable", "NodeAllocatableError", "with_claim_statuses"]

ClaimStatuses = tuple[NodeAllocatableResourceClaimStatus, ...]
Amounts = dict[str, Quantity]

_NANO = 10**9
_TOTAL = PodRequestOptions(node_allocatable_claims=True)
_WITHOUT_POD_LEVEL = PodRequestOptions(node_allocatable_claims=True, pod_level=False)


class NodeAllocatableError(KubeschedError):
    """The node resources that a device consumes cannot be computed."""


class NodeAllocatable:
    """Computes and checks the node resources that a pod's claims consume."""

    def __init__(self, inventory: DeviceInventory) -> None:
        self._inventory = inventory

    def check(
        self,
        data: PodDevices,
        pod: Pod,
        node: NodeInfo,
        allocations: Mapping[int, AllocationResult],
    ) -> Status:
        """Return the verdict on a node on which the pending claims get these allocations."""
        taken = self._taken(data, allocations)
        if not taken:
            return SUCCESS
        for claim, _ in taken:
            if (problem := _sharing_problem(claim, pod, node)) is not None:
                return problem
        try:
            statuses = _statuses(taken, pod)
        except NodeAllocatableError as exc:
            return Status.unresolvable(str(exc), causes=(DeviceClaimUnusable(),))
        return _fit(with_claim_statuses(pod, statuses), statuses, node)

    def statuses(
        self, data: PodDevices, pod: Pod, allocations: Mapping[int, AllocationResult]
    ) -> ClaimStatuses:
        """Return the pod's claim statuses: consumed resources, with the containers.

        Raises:
            NodeAllocatableError: no container uses the claim.
        """
        return _statuses(self._taken(data, allocations), pod)

    def _taken(
        self, data: PodDevices, allocations: Mapping[int, AllocationResult]
    ) -> list[tuple[ResourceClaim, Amounts]]:
        """Return the claims whose devices consume node resources, with the amounts."""
        taken = []
        for place, claim in enumerate(data.claims):
            allocation = allocations.get(place, claim.status.allocation)
            if allocation is None or place == data.special:
                continue
            amounts: Amounts = {}
            for result in allocation.devices.results:
                for resource, amount in self._amounts_of(result):
                    amounts[resource] = amounts.get(resource, ZERO) + amount
            if amounts:
                taken.append((claim, amounts))
        return taken

    def _amounts_of(self, result: DeviceRequestAllocationResult) -> Iterator[tuple[str, Quantity]]:
        content = self._inventory.content_of(result.driver, result.pool, result.device)
        mappings = content.device.node_allocatable_resource_mappings if content is not None else {}
        for resource, mapping in mappings.items():
            amount = _amount(mapping, result)
            if amount is not None:
                yield resource, amount


def _amount(
    mapping: NodeAllocatableResourceMapping, result: DeviceRequestAllocationResult
) -> Quantity | None:
    times = None
    if mapping.allocation_multiplier is not None:
        times = quantity_from_json(mapping.allocation_multiplier)
    if mapping.capacity_key is None:
        return times
    if result.consumed_capacity is None:
        raise NodeAllocatableError(
            f"device {result.driver}/{result.pool}/{result.device} has no consumed capacity, "
            f"of which {mapping.capacity_key} takes node resources"
        )
    consumed = result.consumed_capacity.get(mapping.capacity_key)
    if consumed is None:
        return None
    amount = quantity_from_json(consumed)
    return amount if times is None else _product(amount, times)


def _product(amount: Quantity, times: Quantity) -> Quantity:
    nanos = -(-amount.nanos * times.nanos // _NANO)  # round up: never charge a node less
    if nanos % _NANO == 0:
        return Quantity.from_value(nanos // _NANO, amount.format)
    return parse_quantity(f"{nanos}n")


def _statuses(taken: list[tuple[ResourceClaim, Amounts]], pod: Pod) -> ClaimStatuses:
    found = []
    for claim, amounts in taken:
        name = claim.metadata.name
        uses = {own for own, real in claim_names_of(pod) if real == name}
        containers = tuple(
            container.name
            for container in (*pod.spec.init_containers, *pod.spec.containers)
            if any(use.name in uses for use in container.resources.claims)
        )
        if not containers:
            raise NodeAllocatableError(
                f"claim {name}: node-allocatable resource claim not referenced by any container "
                "within the pod"
            )
        resources: ResourceList = {each: str(amounts[each]) for each in sorted(amounts)}
        found.append(
            NodeAllocatableResourceClaimStatus(
                resource_claim_name=name, containers=containers, resources=resources
            )
        )
    return tuple(found)


def _sharing_problem(claim: ResourceClaim, pod: Pod, node: NodeInfo) -> Status | None:
    """Reject a claim that several pods share: the node would be charged twice."""
    name = claim.metadata.name
    for other in node.pods:
        if other.uid == pod.metadata.uid or other.pod.metadata.namespace != pod.metadata.namespace:
            continue
        if any(
            each.resource_claim_name == name
            for each in other.pod.status.node_allocatable_resource_claim_statuses
        ):
            return Status.unresolvable(
                f"node allocatable resource claim {name} is already used by another pod",
                causes=(DeviceClaimUnusable(),),
            )
    if any(each.uid != pod.metadata.uid for each in claim.status.reserved_for):
        return Status.unresolvable(
            f"node allocatable resource claim {name} is shared by multiple pods",
            causes=(DeviceClaimUnusable(),),
        )
    return None


def with_claim_statuses(pod: Pod, statuses: ClaimStatuses) -> Pod:
    """Return the pod as a node is charged for it."""
    status = replace(pod.status, node_allocatable_resource_claim_statuses=statuses)
    return replace(pod, status=status)


def _fit(charged: Pod, statuses: ClaimStatuses, node: NodeInfo) -> Status:
    """Check that the node has room for containers and claims together."""

    own = charged.spec.resources
    if own is not None:
        summed = pod_requests(charged, _WITHOUT_POD_LEVEL)
        for resource in sorted({name for each in statuses for name in each.resources}):
            raw = own.requests.get(resource)
            if raw is None or not is_pod_level_resource_name(resource):
                continue
            if summed.get(resource, ZERO) > quantity_from_json(raw):
                return Status.unresolvable(
                    f"pod level request for {resource} is insufficient to cover the aggregated "
                    "container and node-allocatable DRA requests",
                    causes=(DeviceClaimUnusable(),),
                )
    wanted = Resources.from_quantities(pod_requests(charged, _TOTAL))
    huge_pages = sorted(name for name in wanted.scalar if name.startswith("hugepages-"))
    lacking, unresolvable = [], False
    for name in (CPU, MEMORY, EPHEMERAL_STORAGE, *huge_pages):
        amount, there_is = wanted.amount(name), node.allocatable.amount(name)
        if amount > there_is - node.requested.amount(name):
            lacking.append(name)
            unresolvable |= amount > there_is
    if not lacking:
        return SUCCESS
    reasons = [f"Insufficient {name}" for name in lacking]
    causes = tuple(map(InsufficientResource, lacking))
    if unresolvable:
        return Status.unresolvable(*reasons, causes=causes)
    return Status.unschedulable(*reasons, causes=causes)
