"""Writes to claims: what PreBind, Unreserve and PostFilter have the API server do.

(docs/reference/08 §5.5, §5.8, §5.10, §7.3, §7.4)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from kubesched.api import (
    AllocationResult,
    ApiError,
    NodeAllocatableResourceClaimStatus,
    Pod,
    PodExtendedResourceClaimStatus,
    PodGroup,
    ResourceClaim,
    ResourceClaimConsumerReference,
    ResourceClaimStatus,
)
from kubesched.api.codec import to_builtins
from kubesched.api.time import format_time
from kubesched.errors import CacheError, KubeschedError
from kubesched.foundation.util.clock import MILLISECOND, SECOND
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Handle
from kubesched.framework.pod_status_writer import for_this_object
from kubesched.scheduler.plugins.dynamic_resources.device_state import DeviceState
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices, is_in_memory

__all__ = ["FINALIZER", "ClaimError", "ClaimWriter", "check_devices_stayed", "is_reserved_for"]

log = get_logger(__name__)

FINALIZER: Final = "resource.kubernetes.io/delete-protection"

_ATTEMPTS = 5
_PAUSE_NS = 10 * MILLISECOND
_JITTER = 0.1
_KNOWN_WITHIN_NS = 120 * SECOND
_LONGEST_PAUSE_NS = 30 * SECOND


class ClaimError(KubeschedError):
    """A claim cannot be bound to the pod."""

    # Whether the server may have done what it was asked to.
    is_outcome_unknown = False


def is_reserved_for(claim: ResourceClaim, pod: Pod, group: PodGroup | None = None) -> bool:
    """Whether the pod may use the claim, or its group if the claim is the group's."""
    uids = {pod.metadata.uid} if group is None else {pod.metadata.uid, group.metadata.uid}
    return any(each.uid in uids for each in claim.status.reserved_for)


def check_devices_stayed(known: ResourceClaim, current: ResourceClaim) -> None:
    """Raise ClaimError if a claim had devices when the pod was placed, and has them no more."""
    had, has = known.status.allocation, current.status.allocation
    if had is None or known is current:
        return
    if has is None:
        raise ClaimError(f"claim {_name(current)} got deallocated elsewhere in the meantime")
    if has.devices != had.devices or has.node_selector != had.node_selector:
        raise ClaimError(f"claim {_name(current)} got allocated elsewhere in the meantime")


def _consumer(pod: Pod, group: PodGroup | None) -> ResourceClaimConsumerReference:
    if group is None:
        return ResourceClaimConsumerReference(
            resource="pods", name=pod.metadata.name, uid=pod.metadata.uid
        )
    return ResourceClaimConsumerReference(
        api_group="scheduling.k8s.io",
        resource="podgroups",
        name=group.metadata.name,
        uid=group.metadata.uid,
    )


class ClaimWriter:
    """Writes claims, and tells the claim cache of it."""

    def __init__(self, handle: Handle, devices: DeviceState) -> None:
        self._handle = handle
        self._devices = devices

    async def bind(self, data: PodDevices, place: int, pod: Pod, node_name: str) -> None:
        """Write the allocation of a claim, if it is to get one, and reserve it for the pod.

        Raises:
            ClaimError: that could not be done.
        """
        claim, allocation = data.claims[place], data.allocations.get(place)
        is_special = place == data.special
        if is_special and allocation is None and not claim.spec.devices.requests:
            return
        if is_special and is_in_memory(claim):
            claim = data.claims[place] = await self._create(data, place, pod, node_name)
        uid = data.in_flight_uids.get(place, claim.metadata.uid)
        written: ResourceClaim | None = None
        is_settled = False
        try:
            consumer = _consumer(pod, data.groups.get(place))
            written = await self._write(claim, allocation, consumer, is_in_group=data.in_group)
            is_settled = True
        except ClaimError as exc:
            is_settled = not exc.is_outcome_unknown
            raise
        finally:
            if is_settled:
                data.held.discard(place)
                await self._settle(written, uid, allocation, is_special=is_special)
            elif allocation is not None:
                # The server may have taken the write or not: until that is known, the devices
                # count as given.
                self._devices.unsettled.add(uid)
                self._handle.spawn(self._find_out(claim, uid), "find out about a claim")
        data.claims[place] = written
        if is_special:
            await self._tell_pod(data, pod, written)

    async def _write(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        consumer: ResourceClaimConsumerReference,
        *,
        is_in_group: bool,
    ) -> ResourceClaim:
        name = _name(claim)
        for attempt in range(_ATTEMPTS):
            if attempt:
                chance = self._handle.random.random()
                await self._handle.clock.sleep(int(_PAUSE_NS * (1 + _JITTER * chance)))
                try:
                    current = await self._handle.api.get(
                        ResourceClaim, claim.metadata.name, claim.metadata.namespace
                    )
                except ApiError as exc:
                    raise ClaimError(f"get updated claim {name} after conflict: {exc}") from exc
                check_devices_stayed(claim, current)
                claim = current
            try:
                is_written = is_in_group and _has(claim, allocation)
                return await self._write_once(claim, None if is_written else allocation, consumer)
            except _ConflictError as exc:
                conflict = exc
        raise ClaimError(str(conflict)) from conflict

    async def _write_once(
        self,
        claim: ResourceClaim,
        allocation: AllocationResult | None,
        consumer: ResourceClaimConsumerReference,
    ) -> ResourceClaim:
        name, api = _name(claim), self._handle.api
        if claim.metadata.deletion_timestamp is not None:
            raise ClaimError(f"claim {name} got deleted in the meantime")
        status = claim.status
        if allocation is not None:
            if status.allocation is not None:
                raise ClaimError(f"claim {name} got allocated elsewhere in the meantime")
            if FINALIZER not in claim.metadata.finalizers:
                finalizers = (*claim.metadata.finalizers, FINALIZER)
                protected = replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))
                try:
                    claim = await api.update(protected)
                except ApiError as exc:
                    raise _failed(f"add finalizer to claim {name}", exc) from exc
                status = claim.status
            status = replace(status, allocation=allocation)
        # Another member may have reserved it for the group.
        is_reserved = consumer.api_group and consumer in status.reserved_for
        if not is_reserved:
            status = replace(status, reserved_for=(*status.reserved_for, consumer))
        if self._devices.features.binding_conditions:
            status = self._with_timestamp(status, name)
        what = "allocation and reservation" if allocation is not None else "reservation"
        try:
            return await api.update(replace(claim, status=status), subresource="status")
        except ApiError as exc:
            raise _failed(f"add {what} to claim {name}", exc) from exc

    def _with_timestamp(self, status: ResourceClaimStatus, name: str) -> ResourceClaimStatus:
        if status.allocation is None:
            raise ClaimError(f"claim {name} got deallocated elsewhere in the meantime")
        if status.allocation.allocation_timestamp:
            return status
        now = format_time(self._handle.clock.now_ns())
        return replace(status, allocation=replace(status.allocation, allocation_timestamp=now))

    async def _settle(
        self,
        written: ResourceClaim | None,
        uid: str,
        allocation: AllocationResult | None,
        *,
        is_special: bool,
    ) -> None:
        """Take a write for the truth, and what was in flight for landed."""
        is_assumed = False
        if written is not None:
            try:
                if is_special:
                    await self._devices.until_known(written, self._handle.clock, _KNOWN_WITHIN_NS)
                self._devices.claims.assume(written)
                is_assumed = True
            except CacheError as exc:
                log.error("A claim that was written is not known", exc=exc, claim=_name(written))
        if allocation is not None:
            self._devices.land(uid, for_all=is_assumed)

    async def _find_out(self, claim: ResourceClaim, uid: str) -> None:
        """Have devices in flight until the server says what became of a write to their claim."""
        await self._look_up(claim, lambda: uid in self._devices.in_flight)
        if uid in self._devices.in_flight:
            # Its pod may have been tried again meanwhile, and told to wait for this.
            self._devices.land(uid, for_all=True)
        self._devices.unsettled.discard(uid)

    async def _look_up(self, claim: ResourceClaim, is_wanted: Callable[[], bool]) -> None:
        """Ask for a claim until the server says how it is, as long as somebody wants to know."""
        metadata, pause_ns = claim.metadata, SECOND
        while is_wanted():
            try:
                current = await self._handle.api.get(
                    ResourceClaim, metadata.name, metadata.namespace
                )
            except ApiError as exc:
                if exc.reason == "NotFound":
                    return
            else:
                if current.metadata.uid == metadata.uid:
                    self._assume_quietly(current)
                return
            await self._handle.clock.sleep(pause_ns)
            pause_ns = min(2 * pause_ns, _LONGEST_PAUSE_NS)

    async def _create(
        self, data: PodDevices, place: int, pod: Pod, node_name: str
    ) -> ResourceClaim:
        metrics = self._handle.metrics
        variant = data.special_on_node
        if variant is None:
            raise ClaimError(f"extended resource claim not found for node {node_name}")
        new = replace(
            variant,
            metadata=replace(variant.metadata, name="", uid="", finalizers=()),
            status=ResourceClaimStatus(),
        )
        data.in_flight_uids[place] = variant.metadata.uid
        try:
            created = await self._handle.api.create(new)
        except ApiError as exc:
            metrics.count_created_claim("failure")
            raise ClaimError(
                f"create claim for extended resources {_name(variant)}: {exc}"
            ) from exc
        metrics.count_created_claim("success")
        return created

    async def _tell_pod(self, data: PodDevices, pod: Pod, claim: ResourceClaim) -> None:
        """Write to the pod which containers get what of the claim."""
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        if not data.mappings:
            raise ClaimError(
                f"nil or empty request mappings, no update of pod {name} "
                "ExtendedResourceClaimStatus"
            )
        status = PodExtendedResourceClaimStatus(
            request_mappings=data.mappings, resource_claim_name=claim.metadata.name
        )
        patch = for_this_object(
            pod, {"status": {"extendedResourceClaimStatus": to_builtins(status)}}
        )
        try:
            await self._handle.api.patch(
                Pod, pod.metadata.name, pod.metadata.namespace, patch, subresource="status"
            )
        except ApiError as exc:
            raise ClaimError(f"update pod {name} ExtendedResourceClaimStatus: {exc}") from exc

    async def tell_node_allocatable(
        self, pod: Pod, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]
    ) -> None:
        """Write to the pod what its claims take of the node; raises ClaimError."""
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        told = [to_builtins(each) for each in statuses]
        patch = for_this_object(
            pod, {"status": {"nodeAllocatableResourceClaimStatuses": told or None}}
        )
        try:
            await self._handle.api.patch(
                Pod, pod.metadata.name, pod.metadata.namespace, patch, subresource="status"
            )
        except ApiError as exc:
            raise ClaimError(
                f"update pod {name} NodeAllocatableResourceClaimStatuses: {exc}"
            ) from exc

    async def delete_special(self, claim: ResourceClaim) -> None:
        """Remove a claim for extended resources, with its protection.

        Raises:
            ApiError: it could not be done.
        """
        metadata, api = claim.metadata, self._handle.api
        for attempt in range(_ATTEMPTS):
            if attempt:
                await self._handle.clock.sleep(_PAUSE_NS)
                try:
                    claim = await api.get(ResourceClaim, metadata.name, metadata.namespace)
                except ApiError as exc:
                    if exc.reason == "NotFound":
                        return
                    raise
            if FINALIZER not in claim.metadata.finalizers:
                break
            left = tuple(each for each in claim.metadata.finalizers if each != FINALIZER)
            try:
                await api.update(replace(claim, metadata=replace(claim.metadata, finalizers=left)))
                break
            except ApiError as exc:
                if exc.reason == "NotFound":
                    return
                if exc.reason != "Conflict" or attempt == _ATTEMPTS - 1:
                    raise
        try:
            await api.delete(ResourceClaim, metadata.name, metadata.namespace, uid=metadata.uid)
        except ApiError as exc:
            if exc.reason != "NotFound":
                raise

    async def is_bound(self, pod: Pod) -> bool:
        """Whether the pod runs after all: the answer to its binding may have been lost.

        Then it keeps what was written for it. Asks until the server has an answer.
        """
        metadata, pause_ns = pod.metadata, SECOND
        while True:
            try:
                current = await self._handle.api.get(Pod, metadata.name, metadata.namespace)
                return current.metadata.uid == metadata.uid and bool(current.spec.node_name)
            except ApiError as exc:
                if exc.reason == "NotFound":
                    return False
            await self._handle.clock.sleep(pause_ns)
            pause_ns = min(2 * pause_ns, _LONGEST_PAUSE_NS)

    async def release(self, claim: ResourceClaim, user: Pod | PodGroup) -> None:
        """Take the reservation for the user back; the devices stay with the claim.

        Raises:
            ApiError: it could not be done.
        """
        metadata = claim.metadata
        patch = {
            "metadata": {"uid": metadata.uid},
            "status": {"reservedFor": [{"$patch": "delete", "uid": user.metadata.uid}]},
        }
        try:
            written = await self._handle.api.patch(
                ResourceClaim, metadata.name, metadata.namespace, patch, subresource="status"
            )
        except ApiError as exc:
            if _is_outcome_unknown(exc):
                # A later attempt must not take the claim for reserved if it is not any more.
                await self._look_up(claim, lambda: True)
            raise
        self._assume_quietly(written)

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Take its devices from a claim that nobody else uses; raises ApiError."""
        cleared = replace(claim, status=ResourceClaimStatus())
        await self._handle.api.update(cleared, subresource="status")

    def _assume_quietly(self, written: ResourceClaim) -> None:
        try:
            self._devices.claims.assume(written)
        except CacheError as exc:
            log.detail(4, "A newer state of the claim is known", err=exc)


def _has(claim: ResourceClaim, allocation: AllocationResult | None) -> bool:
    """Whether the allocation was written to the claim, by another member of a group."""
    there = claim.status.allocation
    if there is None or allocation is None:
        return False
    return replace(there, allocation_timestamp=allocation.allocation_timestamp) == allocation


class _ConflictError(ClaimError):
    """Someone else changed the claim."""


def _failed(what: str, exc: ApiError) -> ClaimError:
    text = f"{what}: {exc}"
    if exc.reason == "Conflict":
        return _ConflictError(text)
    error = ClaimError(text)
    error.is_outcome_unknown = _is_outcome_unknown(exc)
    return error


def _is_outcome_unknown(exc: ApiError) -> bool:
    """Whether the server may have done what it was asked to all the same."""
    return exc.code == 0 or exc.code >= 500


def _name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
