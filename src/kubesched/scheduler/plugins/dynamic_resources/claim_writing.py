"""Writes to claims for PreBind, Unreserve and PostFilter.

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
_CACHE_TIMEOUT_NS = 120 * SECOND  # for a created claim to arrive over the watch
_MAX_PAUSE_NS = 30 * SECOND


class ClaimError(KubeschedError):
    """A claim cannot be bound to the pod."""

    # Whether the server may have made the change in spite of the error.
    is_outcome_unknown = False


def is_reserved_for(claim: ResourceClaim, pod: Pod, group: PodGroup | None = None) -> bool:
    """Whether the claim is reserved for the pod, or for the group that it belongs to."""
    uids = {pod.metadata.uid} if group is None else {pod.metadata.uid, group.metadata.uid}
    return any(each.uid in uids for each in claim.status.reserved_for)


def check_devices_stayed(known: ResourceClaim, current: ResourceClaim) -> None:
    """Raise ClaimError if the claim's devices changed since the pod was placed."""
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
    """Writes claims to the API server, and assumes the result in the claim cache."""

    def __init__(self, handle: Handle, devices: DeviceState) -> None:
        self._handle = handle
        self._devices = devices

    async def bind(self, data: PodDevices, place: int, pod: Pod, node_name: str) -> None:
        """Write the new allocation of a claim, and reserve it for the pod.

        Raises:
            ClaimError: the write failed.
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
                # It is unknown whether the server made the change. Until that is known, the
                # devices count as allocated.
                self._devices.unsettled.add(uid)
                self._handle.spawn(self._resolve_outcome(claim, uid), "look up a claim")
        data.claims[place] = written
        if is_special:
            await self._write_pod_status(data, pod, written)

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
                is_written = is_in_group and _has_allocation(claim, allocation)
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
        """Assume a written claim, and remove it from those in flight."""
        is_assumed = False
        if written is not None:
            try:
                if is_special:
                    await self._devices.wait_until_cached(
                        written, self._handle.clock, _CACHE_TIMEOUT_NS
                    )
                self._devices.claims.assume(written)
                is_assumed = True
            except CacheError as exc:
                log.error("A written claim is not in the cache", exc=exc, claim=_name(written))
        if allocation is not None:
            self._devices.remove_in_flight(uid, for_all=is_assumed)

    async def _resolve_outcome(self, claim: ResourceClaim, uid: str) -> None:
        """Hold the devices in flight until the server reports the state of their claim."""
        await self._fetch_and_assume(claim, lambda: uid in self._devices.in_flight)
        if uid in self._devices.in_flight:
            # A later attempt of the pod may wait for this.
            self._devices.remove_in_flight(uid, for_all=True)
        self._devices.unsettled.discard(uid)

    async def _fetch_and_assume(self, claim: ResourceClaim, is_needed: Callable[[], bool]) -> None:
        """Get a claim and assume its state.

        Retry until the server responds or the claim is no longer needed.
        """
        metadata, pause_ns = claim.metadata, SECOND
        while is_needed():
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
            pause_ns = min(2 * pause_ns, _MAX_PAUSE_NS)

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

    async def _write_pod_status(self, data: PodDevices, pod: Pod, claim: ResourceClaim) -> None:
        """Write to the pod's status which container uses which request of the claim."""
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

    async def write_node_allocatable(
        self, pod: Pod, statuses: tuple[NodeAllocatableResourceClaimStatus, ...]
    ) -> None:
        """Write to the pod's status the node resources of its claims; raise ClaimError."""
        name = f"{pod.metadata.namespace}/{pod.metadata.name}"
        encoded = [to_builtins(each) for each in statuses]
        patch = for_this_object(
            pod, {"status": {"nodeAllocatableResourceClaimStatuses": encoded or None}}
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
        """Delete a claim for extended resources, after removing its finalizer.

        Raises:
            ApiError: the deletion failed.
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
        """Whether the pod is bound: the response to its binding may have been lost.

        A bound pod keeps its claims. Retries until the server responds.
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
            pause_ns = min(2 * pause_ns, _MAX_PAUSE_NS)

    async def release(self, claim: ResourceClaim, user: Pod | PodGroup) -> None:
        """Remove the user's reservation; the claim keeps its devices.

        Raises:
            ApiError: the write failed.
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
                # A later attempt must not rely on a reservation that may be gone.
                await self._fetch_and_assume(claim, lambda: True)
            raise
        self._assume_quietly(written)

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Deallocate a claim that no other pod uses; raises ApiError."""
        cleared = replace(claim, status=ResourceClaimStatus())
        await self._handle.api.update(cleared, subresource="status")

    def _assume_quietly(self, written: ResourceClaim) -> None:
        try:
            self._devices.claims.assume(written)
        except CacheError as exc:
            log.detail(4, "The cache has a newer version of the claim", err=exc)


def _has_allocation(claim: ResourceClaim, allocation: AllocationResult | None) -> bool:
    """Whether the claim has the allocation.

    Another member of a group may have written it.
    """
    there = claim.status.allocation
    if there is None or allocation is None:
        return False
    return replace(there, allocation_timestamp=allocation.allocation_timestamp) == allocation


class _ConflictError(ClaimError):
    """Another client changed the claim."""


def _failed(what: str, exc: ApiError) -> ClaimError:
    text = f"{what}: {exc}"
    if exc.reason == "Conflict":
        return _ConflictError(text)
    error = ClaimError(text)
    error.is_outcome_unknown = _is_outcome_unknown(exc)
    return error


def _is_outcome_unknown(exc: ApiError) -> bool:
    """Whether the server may have made the change in spite of the error."""
    return exc.code == 0 or exc.code >= 500


def _name(claim: ResourceClaim) -> str:
    return f"{claim.metadata.namespace}/{claim.metadata.name}"
