"""The state of devices and claims, shared by a scheduler's profiles."""

from __future__ import annotations

import asyncio
from weakref import WeakValueDictionary

from msgspec.structs import replace

from kubesched.api import DeviceClaim, DeviceClass, Pod, ResourceClaim, ResourceClaimStatus
from kubesched.foundation.util.clock import Clock
from kubesched.framework import ClaimCache, Handle, Lister, NodeView
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import InFlightClaims
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures
from kubesched.scheduler.plugins.dynamic_resources.device_inventory import DeviceInventory
from kubesched.scheduler.plugins.dynamic_resources.device_requests import ClaimRequests
from kubesched.scheduler.plugins.dynamic_resources.device_rows import DeviceRows
from kubesched.scheduler.plugins.dynamic_resources.device_search_results import encode_spec
from kubesched.scheduler.plugins.dynamic_resources.device_search_steps import SearchBudget
from kubesched.scheduler.plugins.dynamic_resources.group_claims import NO_GROUP_CLAIMS, GroupClaims
from kubesched.scheduler.plugins.dynamic_resources.inventory_device_counter import (
    InventoryDeviceCounter,
)
from kubesched.scheduler.plugins.dynamic_resources.slice_source import follow_slices
from kubesched.scheduler.plugins.helpers.device_counts import DEVICE_COUNTS

__all__ = ["EXTENDED_CLAIM", "DeviceState"]

# The annotation of a claim for the extended resources of a pod.
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"

_SHARED_NAME = "DynamicResources"
_MAX_SPECS = 1024


class DeviceState:
    """Devices, claims and their usage, updated by watches.

    The plugins of all profiles share it.
    """

    def __init__(self, handle: Handle, features: DeviceFeatures) -> None:
        self.features = features
        self.claims: ClaimCache = handle.claims
        self.groups = GroupClaims.of(handle) if features.group_claims else NO_GROUP_CLAIMS
        self.classes: Lister[DeviceClass] = handle.lister(DeviceClass)
        self.inventory = DeviceInventory(features)
        self.in_flight = InFlightClaims(self.inventory.allocated)
        # Writes in the background that a later attempt must wait for, by uid of the claim.
        self.pending_writes: dict[str, asyncio.Event] = {}
        # Uids of claims in flight of which it is unknown whether the server has written them.
        self.unsettled: set[str] = set()
        # By uid of the claim; an entry is dropped when no task holds or awaits the lock.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._awaited: dict[tuple[str, str], asyncio.Event] = {}  # (namespace, name) ->
        # Claims that were created for extended resources, by uid of the owning pod.
        self._special: dict[str, dict[str, ResourceClaim]] = {}
        self._rows: DeviceRows | None = None
        self._requests: dict[bytes, ClaimRequests] = {}
        self.claims.follow(self.inventory.allocated.claim_changed)
        self.claims.follow(self._update_special)
        self.claims.follow(self._notify_appeared)
        follow_slices(handle, features, self.inventory.slice_changed)
        handle.shared.get(
            DEVICE_COUNTS,
            lambda: InventoryDeviceCounter(
                self.inventory, list_attributes=features.list_attributes
            ),
        )

    @classmethod
    def of(cls, handle: Handle, features: DeviceFeatures) -> DeviceState:
        """Return the state that the plugins of this scheduler share."""
        return handle.shared.get(_SHARED_NAME, lambda: cls(handle, features))

    async def wait_until_cached(self, claim: ResourceClaim, clock: Clock, timeout_ns: int) -> bool:
        """Wait until the watch has delivered a claim that was just created."""
        key = (claim.metadata.namespace, claim.metadata.name)
        if self.claims.get(claim.metadata.name, claim.metadata.namespace) is not None:
            return True
        appeared = self._awaited.setdefault(key, asyncio.Event())
        try:
            return await clock.wait(appeared, timeout_ns)
        finally:
            if self._awaited.get(key) is appeared and not appeared.is_set():
                del self._awaited[key]

    def write_lock(self, claim: ResourceClaim) -> asyncio.Lock:
        """Return the lock for writes to a claim that several pods of a group share."""
        lock = self._locks.get(claim.metadata.uid)
        if lock is None:
            lock = self._locks[claim.metadata.uid] = asyncio.Lock()
        return lock

    def remove_in_flight(self, uid: str, *, for_all: bool = False, notify: bool = True) -> bool:
        """Remove a claim in flight for one pod or `for_all`.

        The result is True if it is in flight no longer.

        If its devices become free, pods that wait for devices are notified, since no change of a
        claim notifies them. Pass `notify=False` if the allocation was not visible to other pods.
        """
        in_flight = self.in_flight.get(uid)
        if in_flight is None or not self.in_flight.remove(uid, for_all=for_all):
            return False
        cached = self.claims.get(in_flight.metadata.name, in_flight.metadata.namespace)
        if not notify:
            return True
        if in_flight.status.allocation is not None and (
            cached is None or cached.status.allocation is None
        ):
            self.claims.gave_back(in_flight, replace(in_flight, status=ResourceClaimStatus()))
        return True

    def _notify_appeared(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None and old is None and self._awaited:
            appeared = self._awaited.pop((new.metadata.namespace, new.metadata.name), None)
            if appeared is not None:
                appeared.set()

    def special_claim_of(self, pod: Pod) -> ResourceClaim | None:
        """Return the claim that was created earlier for extended resources of the pod."""
        for claim in self._special.get(pod.metadata.uid, {}).values():
            for owner in claim.metadata.owner_references:
                if (
                    owner.controller
                    and owner.uid == pod.metadata.uid
                    and owner.name == pod.metadata.name
                ):
                    return claim
        return None

    def _update_special(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim in (old, new):
            if claim is None or claim.metadata.annotations.get(EXTENDED_CLAIM) != "true":
                continue
            for owner in claim.metadata.owner_references:
                claims = self._special.setdefault(owner.uid, {})
                if claim is new:
                    claims[claim.metadata.uid] = claim
                else:
                    claims.pop(claim.metadata.uid, None)
                if not claims:
                    del self._special[owner.uid]

    def rows(self, nodes: NodeView, budget: SearchBudget | None = None) -> DeviceRows:
        """Return the devices by row of the table of these nodes, after an update.

        Raises:
            SearchPausedError: the budget is used up; the next call continues.
        """
        if self._rows is None or self._rows.table is not nodes.table:
            if self._rows is not None:
                self._rows.close()
            self._rows = DeviceRows(self.inventory, nodes)
        self._rows.refresh(nodes, budget)
        return self._rows

    def requests_of(self, spec: DeviceClaim) -> tuple[bytes, ClaimRequests]:
        """Return the requests of a claim spec, with the spec in bytes; cached by spec."""
        key = encode_spec(spec)
        requests = self._requests.get(key)
        if requests is None or not requests.has_current_classes(self.classes):
            if len(self._requests) >= _MAX_SPECS:
                self._requests.clear()
            requests = ClaimRequests.read(spec, self.classes, self.features)
            self._requests[key] = requests
        return key, requests
