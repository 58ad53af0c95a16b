"""What a scheduler knows of devices, claims and classes: once, for all of its profiles."""

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
from kubesched.scheduler.plugins.dynamic_resources.group_claims import NO_GROUP_CLAIMS, GroupClaims
from kubesched.scheduler.plugins.dynamic_resources.inventory_device_counter import (
    InventoryDeviceCounter,
)
from kubesched.scheduler.plugins.dynamic_resources.slice_source import follow_slices
from kubesched.scheduler.plugins.helpers.device_counts import DEVICE_COUNTS

__all__ = ["EXTENDED_CLAIM", "DeviceState"]

# The annotation of a claim that stands for extended resources of a pod.
EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"

_SHARED_NAME = "DynamicResources"
_SPECS_KEPT = 1024


class DeviceState:
    """Kept up to date by what is watched; plugins of all profiles share one."""

    def __init__(self, handle: Handle, features: DeviceFeatures) -> None:
        self.features = features
        self.claims: ClaimCache = handle.claims
        self.groups = GroupClaims.of(handle) if features.group_claims else NO_GROUP_CLAIMS
        self.classes: Lister[DeviceClass] = handle.lister(DeviceClass)
        self.inventory = DeviceInventory(features)
        self.in_flight = InFlightClaims(self.inventory.allocated)
        # Writes that are under way and that a later attempt must wait for, by uid of the claim.
        self.pending_writes: dict[str, asyncio.Event] = {}
        # Claims in flight of which only the server knows whether they were written, by uid.
        self.unsettled: set[str] = set()
        # By uid of the claim; gone when nobody has or awaits it.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._awaited: dict[tuple[str, str], asyncio.Event] = {}  # namespace, name
        # Claims that were made for extended resources, by uid of the pod that owns them.
        self._special: dict[str, dict[str, ResourceClaim]] = {}
        self._rows: DeviceRows | None = None
        self._requests: dict[bytes, ClaimRequests] = {}
        self.claims.follow(self.inventory.allocated.claim_changed)
        self.claims.follow(self._note_special)
        self.claims.follow(self._note_appeared)
        follow_slices(handle, features, self.inventory.slice_changed)
        handle.shared.get(
            DEVICE_COUNTS,
            lambda: InventoryDeviceCounter(
                self.inventory, list_attributes=features.list_attributes
            ),
        )

    @classmethod
    def of(cls, handle: Handle, features: DeviceFeatures) -> DeviceState:
        """The one that the plugins of this scheduler share."""
        return handle.shared.get(_SHARED_NAME, lambda: cls(handle, features))

    async def until_known(self, claim: ResourceClaim, clock: Clock, timeout_ns: int) -> bool:
        """Wait until the watch has brought a claim that was just created."""
        key = (claim.metadata.namespace, claim.metadata.name)
        if self.claims.get(claim.metadata.name, claim.metadata.namespace) is not None:
            return True
        appeared = self._awaited.setdefault(key, asyncio.Event())
        try:
            return await clock.wait(appeared, timeout_ns)
        finally:
            if self._awaited.get(key) is appeared and not appeared.is_set():
                del self._awaited[key]

    def turn_at(self, claim: ResourceClaim) -> asyncio.Lock:
        """Whoever writes to a claim that several pods of a group share has it meanwhile."""
        turn = self._turns.get(claim.metadata.uid)
        if turn is None:
            turn = self._turns[claim.metadata.uid] = asyncio.Lock()
        return turn

    def land(self, uid: str, *, for_all: bool = False, is_news: bool = True) -> bool:
        """A claim is in flight for one pod less, or for none at all; True if it is no more.

        Should its devices be free by that, pods that wait for some hear of it: no change of a
        claim tells them. It is no news if nobody could have known that they were taken.
        """
        flying = self.in_flight.get(uid)
        if flying is None or not self.in_flight.remove(uid, for_all=for_all):
            return False
        known = self.claims.get(flying.metadata.name, flying.metadata.namespace)
        if not is_news:
            return True
        if flying.status.allocation is not None and (
            known is None or known.status.allocation is None
        ):
            self.claims.gave_back(flying, replace(flying, status=ResourceClaimStatus()))
        return True

    def _note_appeared(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if new is not None and old is None and self._awaited:
            appeared = self._awaited.pop((new.metadata.namespace, new.metadata.name), None)
            if appeared is not None:
                appeared.set()

    def special_claim_of(self, pod: Pod) -> ResourceClaim | None:
        """The claim that was made before for extended resources of the pod."""
        for claim in self._special.get(pod.metadata.uid, {}).values():
            for owner in claim.metadata.owner_references:
                if (
                    owner.controller
                    and owner.uid == pod.metadata.uid
                    and owner.name == pod.metadata.name
                ):
                    return claim
        return None

    def _note_special(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        for claim in (old, new):
            if claim is None or claim.metadata.annotations.get(EXTENDED_CLAIM) != "true":
                continue
            for owner in claim.metadata.owner_references:
                known = self._special.setdefault(owner.uid, {})
                if claim is new:
                    known[claim.metadata.uid] = claim
                else:
                    known.pop(claim.metadata.uid, None)
                if not known:
                    del self._special[owner.uid]

    def rows(self, nodes: NodeView) -> DeviceRows:
        """The devices by row of the table that these nodes are in, up to date."""
        if self._rows is None or self._rows.table is not nodes.table:
            if self._rows is not None:
                self._rows.close()
            self._rows = DeviceRows(self.inventory, nodes)
        self._rows.refresh(nodes)
        return self._rows

    def requests_of(self, spec: DeviceClaim) -> tuple[bytes, ClaimRequests]:
        """What a claim asks for, with its spec in bytes; read once for all claims of that spec."""
        key = encode_spec(spec)
        known = self._requests.get(key)
        if known is None or not known.has_current_classes(self.classes):
            if len(self._requests) >= _SPECS_KEPT:
                self._requests.clear()
            known = ClaimRequests.read(spec, self.classes, self.features)
            self._requests[key] = known
        return key, known
