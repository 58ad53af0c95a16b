"""Reserve, Unreserve and PreBind of claims (docs/reference/08 §5.7–5.10)."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Coroutine
from typing import Any

from msgspec.structs import replace

from kubesched.api import ApiError, Pod, ResourceClaim
from kubesched.api.node_selector import NodeMatcher
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import SUCCESS, Handle, NodeInfo, Status
from kubesched.framework.pod_groups import GroupCycle
from kubesched.scheduler.plugins.dynamic_resources.allocation_results import allocation_of
from kubesched.scheduler.plugins.dynamic_resources.claim_writing import (
    FINALIZER,
    ClaimError,
    ClaimWriter,
    check_devices_stayed,
    is_reserved_for,
)
from kubesched.scheduler.plugins.dynamic_resources.condition_wait import ConditionWait
from kubesched.scheduler.plugins.dynamic_resources.device_search_results import DeviceVerdict
from kubesched.scheduler.plugins.dynamic_resources.device_state import DeviceState
from kubesched.scheduler.plugins.dynamic_resources.filtering import DeviceFilter, special_claim_on
from kubesched.scheduler.plugins.dynamic_resources.node_allocatable import (
    NodeAllocatableError,
    with_claim_statuses,
)
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices, is_in_memory

__all__ = ["ClaimReservation"]

log = get_logger(__name__)

_NOT_FOUND = "claim allocation not found for node"
_ClaimWrite = Callable[[ResourceClaim, Pod], Coroutine[Any, Any, None]]


class ClaimReservation:
    """Allocates devices in memory, and writes allocations to the API server."""

    def __init__(
        self,
        handle: Handle,
        devices: DeviceState,
        filtering: DeviceFilter,
        writer: ClaimWriter,
        binding_timeout_ns: int,
    ) -> None:
        self._handle = handle
        self._devices = devices
        self._filtering = filtering
        self._writer = writer
        self._conditions = ConditionWait(handle, devices, binding_timeout_ns)

    def with_charged_resources(self, data: PodDevices, pod: Pod, node: NodeInfo) -> Pod:
        """Return the pod with the node resources of its claims (docs/reference/08 §10.2)."""
        rule = self._filtering.node_allocatable
        assert rule is not None, "called only with the feature gate on"
        allocations = self._filtering.allocations_on(data, pod, node)
        try:
            data.node_allocatable = rule.statuses(data, pod, allocations)
        except NodeAllocatableError as exc:  # unexpected: Filter computed the same without error
            log.error("Cannot compute the node resources of claims", exc=exc, pod=pod)
        return with_claim_statuses(pod, data.node_allocatable) if data.node_allocatable else pod

    def reserve(
        self, data: PodDevices, pod: Pod, node: NodeInfo | None, cycle: GroupCycle | None = None
    ) -> Status:
        """Allocate the devices that the search found on the node to the pod's claims.

        Within the cycle of a pod group, other members may share the claims from then on.
        """
        if not data.pending and not data.shared:
            return SUCCESS
        if node is None:
            return Status.failure(_NOT_FOUND)
        for place in data.shared:
            if not self._share_in_flight(data, place, node):
                return Status.failure(_NOT_FOUND)
        return self._allocate(data, pod, node, cycle) if data.pending else SUCCESS

    def _share_in_flight(self, data: PodDevices, place: int, node: NodeInfo) -> bool:
        """Share a claim that is in flight for another member.

        The result is False if it is not in flight, or not usable on the node.
        """
        in_flight = self._devices.in_flight.get(data.claims[place].metadata.uid)
        if in_flight is None or in_flight.status.allocation is None or node.node is None:
            return False
        allocation = in_flight.status.allocation
        if allocation.node_selector is not None:
            matcher = NodeMatcher.parse_strictly(allocation.node_selector)
            if not matcher.matches(node.node.metadata.labels, node.name):
                return False
        data.allocations[place] = allocation
        data.held.add(place)
        self._devices.in_flight.add(in_flight)
        return True

    def _allocate(
        self, data: PodDevices, pod: Pod, node: NodeInfo, cycle: GroupCycle | None
    ) -> Status:
        found = self._filtering.search_node(data, pod, node)
        if found is None:
            # A device plugin serves the extended resources here.
            return SUCCESS
        variant, result = found
        if result.verdict is not DeviceVerdict.FITS or result.solution is None:
            return Status.failure(_NOT_FOUND)
        assert node.node is not None
        views = self._devices.inventory.of_node(node.node).views
        for number, place in enumerate(data.pending):
            claim = data.claims[place]
            if place == data.special and variant.extended is not None:
                claim = data.special_on_node = special_claim_on(claim, variant.extended)
                data.mappings = variant.extended.mappings
            allocation = allocation_of(
                result.solution, number, variant.requests[number], views, node.name, self._share_id
            )
            data.allocations[place] = allocation
            finalizers = claim.metadata.finalizers
            if FINALIZER not in finalizers:
                finalizers = (*finalizers, FINALIZER)
            data.held.add(place)
            if cycle is not None and place != data.special:
                cycle.claims.add(claim.metadata.uid)
            self._devices.in_flight.add(
                replace(
                    claim,
                    metadata=replace(claim.metadata, finalizers=finalizers),
                    status=replace(claim.status, allocation=allocation),
                )
            )
        return SUCCESS

    def _share_id(self) -> str:
        return str(uuid.UUID(int=self._handle.random.getrandbits(128), version=4))

    def unreserve(self, data: PodDevices, pod: Pod, cycle: GroupCycle | None = None) -> None:
        """Revert the allocation in memory and, if it was written, on the API server.

        Within the cycle of a pod group nothing was written, and no pod is notified.
        """
        for place, claim in enumerate(data.claims):
            is_special = place == data.special
            uid = data.in_flight_uids.get(place, claim.metadata.uid)
            if place in data.held and uid not in self._devices.unsettled:
                data.held.discard(place)
                if self._devices.remove_in_flight(uid, notify=cycle is None):
                    self._devices.claims.restore(claim.metadata.name, claim.metadata.namespace)
                    if cycle is not None:
                        cycle.claims.discard(uid)
            if cycle is not None:
                continue
            if is_special:
                if not is_in_memory(claim):
                    self._spawn(claim, pod, self._delete)
            elif claim.status.allocation is not None and is_reserved_for(claim, pod):
                self._spawn(claim, pod, self._release)
        if data.is_node_allocatable_written:
            self._handle.spawn(self._clear_node_allocatable(pod), "clear a pod's node resources")
        data.node_allocatable, data.is_node_allocatable_written = (), False

    async def _clear_node_allocatable(self, pod: Pod) -> None:
        if await self._writer.is_bound(pod):
            return
        try:
            await self._writer.write_node_allocatable(pod, ())
        except ClaimError as exc:
            log.error("Cannot clear the node resources in a pod's status", exc=exc, pod=pod)

    async def _release(self, claim: ResourceClaim, pod: Pod) -> None:
        if await self._writer.is_bound(pod):
            return
        try:
            await self._writer.release(claim, pod)
        except ApiError as exc:
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            log.error("Cannot release a claim", exc=exc, claim=name, pod=pod)

    async def _delete(self, claim: ResourceClaim, pod: Pod) -> None:
        if await self._writer.is_bound(pod):
            return
        try:
            await self._writer.delete_special(claim)
        except ApiError as exc:
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            log.error("Cannot delete a claim for extended resources", exc=exc, claim=name)

    def _spawn(self, claim: ResourceClaim, pod: Pod, write: _ClaimWrite) -> None:
        """Write in the background; PreBind of a later attempt waits for the write.

        The coroutine is created by the task: a task that is cancelled before its first step would
        never await it.
        """
        uid = claim.metadata.uid
        done = self._devices.pending_writes[uid] = asyncio.Event()

        async def written() -> None:
            try:
                await write(claim, pod)
            finally:
                done.set()
                if self._devices.pending_writes.get(uid) is done:
                    del self._devices.pending_writes[uid]

        self._handle.spawn(written(), "release a claim")

    async def pre_bind(self, data: PodDevices, pod: Pod, node_name: str) -> Status:
        """Write the claims, then wait until their devices are ready."""
        for place in range(len(data.claims)):
            try:
                await self._await_pending_write(data, place)
                if self._is_done(data, place, pod):
                    self._drop_in_flight(data, place)
                elif data.in_group:
                    await self._bind_exclusively(data, place, pod, node_name)
                else:
                    await self._writer.bind(data, place, pod, node_name)
            except ClaimError as exc:
                return Status.failure(exc)
        if data.node_allocatable:
            try:
                await self._writer.write_node_allocatable(pod, data.node_allocatable)
            except ClaimError as exc:
                return Status.failure(exc)
            data.is_node_allocatable_written = True
        if not self._devices.features.binding_conditions:
            return SUCCESS
        return await self._conditions.wait_until_ready(data, pod, node_name)

    async def _bind_exclusively(
        self, data: PodDevices, place: int, pod: Pod, node_name: str
    ) -> None:
        """Write a claim, one member of the group at a time.

        Raise ClaimError if that fails.
        """
        claim = data.claims[place]
        async with self._devices.write_lock(claim):
            self._refresh(data, place)
            if is_reserved_for(data.claims[place], pod, data.groups.get(place)):
                self._drop_in_flight(data, place)  # another member has written everything
                return
            await self._writer.bind(data, place, pod, node_name)

    def _is_done(self, data: PodDevices, place: int, pod: Pod) -> bool:
        """Whether the claim is reserved for the pod, with the devices chosen for the pod."""
        if place in data.allocations and not data.in_group:
            return False
        return is_reserved_for(data.claims[place], pod, data.groups.get(place))

    def _drop_in_flight(self, data: PodDevices, place: int) -> None:
        """Remove a claim that is written already from those in flight."""
        if place in data.held:
            data.held.discard(place)
            self._devices.remove_in_flight(data.claims[place].metadata.uid)

    async def _await_pending_write(self, data: PodDevices, place: int) -> None:
        """Wait until an earlier attempt has released the claim, then refresh the claim.

        Raises:
            ClaimError: the devices of the claim have changed since the pod was placed.
        """
        pending = self._devices.pending_writes.get(data.claims[place].metadata.uid)
        if pending is not None:
            await pending.wait()
        self._refresh(data, place)

    def _refresh(self, data: PodDevices, place: int) -> None:
        claim = data.claims[place]
        current = self._devices.claims.get(claim.metadata.name, claim.metadata.namespace)
        if current is not None and current.metadata.uid == claim.metadata.uid:
            check_devices_stayed(claim, current)
            data.claims[place] = current
