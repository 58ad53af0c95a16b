"""Which devices are in use: those of allocated claims, and those about to be.

(docs/reference/08 §3.4, §3.5)

Two layers: what claims say that are allocated, and what was given to pods whose claims have not
been written yet. A device is in use if either layer has it. Usage is kept by pool, and whoever
listens hears of a pool whose usage changed, and of no other.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from typing import TypeVar

from kubesched.api import AllocationResult, DeviceRequestAllocationResult, ResourceClaim
from kubesched.api.quantity import Quantity, quantity_from_json
from kubesched.errors import QuantityError

__all__ = ["AllocatedDevices", "InFlightClaims", "PoolId", "PoolUsage"]

K = TypeVar("K", bound=Hashable)

PoolId = tuple[str, str]  # driver, pool

_NOTHING: Mapping[str, Quantity] = {}
_versions = itertools.count(1)


class PoolUsage:
    """What is in use of one pool, by the name of the device."""

    __slots__ = (
        "_allocated",
        "_capacity",
        "_flying",
        "_flying_capacity",
        "_flying_shares",
        "_shares",
        "version",
    )

    def __init__(self) -> None:
        self.version = next(_versions)  # another with every change, and never one again
        # Counted: a watch that is behind may show who had a device before, after who has it now.
        self._allocated: Counter[str] = Counter()
        self._flying: Counter[str] = Counter()
        self._shares: set[tuple[str, str]] = set()  # device, share
        self._flying_shares: Counter[tuple[str, str]] = Counter()
        self._capacity: dict[str, dict[str, Quantity]] = {}
        self._flying_capacity: dict[str, dict[str, Quantity]] = {}

    def __bool__(self) -> bool:
        return bool(
            self._allocated
            or self._flying
            or self._shares
            or self._flying_shares
            or self._capacity
            or self._flying_capacity
        )

    def is_dedicated(self, device: str) -> bool:
        """Whether someone has the device for itself."""
        return device in self._allocated or device in self._flying

    @property
    def dedicated(self) -> Collection[str]:
        allocated = self._allocated.keys()
        return allocated | self._flying.keys() if self._flying else allocated

    @property
    def shared(self) -> Collection[str]:
        """Devices of which someone has a share."""
        return {device for device, _ in self._shares} | {
            device for device, _ in self._flying_shares
        }

    @property
    def with_capacity(self) -> Collection[str]:
        """Devices of whose capacity something is taken."""
        return self._capacity.keys() | self._flying_capacity.keys()

    def has_capacity_entry(self, device: str) -> bool:
        return device in self._capacity or device in self._flying_capacity

    def consumed_capacity(self, device: str) -> Mapping[str, Quantity]:
        committed = self._capacity.get(device)
        flying = self._flying_capacity.get(device)
        if flying is None:
            return _NOTHING if committed is None else committed
        return flying if committed is None else _sum(committed, flying)

    @property
    def consumers(self) -> Collection[str]:
        """Every device that is in use in some way."""
        return {*self.dedicated, *self.shared, *self.with_capacity}

    def take(self, result: DeviceRequestAllocationResult, *, shares: bool, flying: bool) -> None:
        self.version = next(_versions)
        device = result.device
        if shares and result.share_id is not None:
            share = (device, result.share_id)
            if flying:
                self._flying_shares[share] += 1
            else:
                self._shares.add(share)
            if result.consumed_capacity:
                layer = self._flying_capacity if flying else self._capacity
                layer[device] = _sum(layer.get(device, _NOTHING), _consumed(result))
        elif flying:
            self._flying[device] += 1
        else:
            self._allocated[device] += 1

    def give_back(
        self, result: DeviceRequestAllocationResult, *, shares: bool, flying: bool
    ) -> None:
        self.version = next(_versions)
        device = result.device
        if shares and result.share_id is not None:
            share = (device, result.share_id)
            if flying:
                _count_down(self._flying_shares, share)
            else:
                self._shares.discard(share)
            layer = self._flying_capacity if flying else self._capacity
            if result.consumed_capacity and device in layer:
                left = _difference(layer[device], _consumed(result))
                if any(left.values()):
                    layer[device] = left
                else:
                    del layer[device]
        elif flying:
            _count_down(self._flying, device)
        else:
            _count_down(self._allocated, device)


def _count_down(counter: Counter[K], key: K) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]


def _consumed(result: DeviceRequestAllocationResult) -> dict[str, Quantity]:
    consumed = {}
    for name, amount in (result.consumed_capacity or {}).items():
        # A server stores no other text than a quantity's, but nothing may break if one did.
        with contextlib.suppress(QuantityError):
            consumed[name] = quantity_from_json(amount)
    return consumed


def _sum(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> dict[str, Quantity]:
    total = dict(left)
    for name, amount in right.items():
        total[name] = total[name] + amount if name in total else amount
    return total


def _difference(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> dict[str, Quantity]:
    rest = dict(left)
    for name, amount in right.items():
        if name in rest:
            rest[name] = rest[name] - amount
    return rest


OnUsage = Callable[[PoolId], None]


class AllocatedDevices:
    """The usage of every pool, kept in step with claims."""

    def __init__(self, *, consumable_capacity: bool, on_change: OnUsage) -> None:
        """Without consumable capacity, a share counts as use of the whole device."""
        self._shares = consumable_capacity
        self._on_change = on_change
        self._by_pool: dict[PoolId, PoolUsage] = {}

    def usage(self, pool: PoolId) -> PoolUsage | None:
        """What is in use of a pool; None: nothing ever was."""
        return self._by_pool.get(pool)

    def pools(self) -> set[PoolId]:
        """Pools of which something is in use."""
        return set(self._by_pool)

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Follow a claim. It may have given devices back and got others while nobody watched."""
        before = None if old is None else old.status.allocation
        after = None if new is None else new.status.allocation
        if before is after or (before is not None and before == after):
            return
        if before is not None:
            self.give_back(before)
        if after is not None:
            self.take(after)

    def take(self, allocation: AllocationResult, *, flying: bool = False) -> None:
        for pool, result in self._counted(allocation):
            usage = self._by_pool.get(pool)
            if usage is None:
                usage = self._by_pool[pool] = PoolUsage()
            usage.take(result, shares=self._shares, flying=flying)
            self._on_change(pool)

    def give_back(self, allocation: AllocationResult, *, flying: bool = False) -> None:
        for pool, result in self._counted(allocation):
            usage = self._by_pool.get(pool)
            if usage is not None:
                usage.give_back(result, shares=self._shares, flying=flying)
                if not usage:
                    del self._by_pool[pool]
                self._on_change(pool)

    @staticmethod
    def _counted(
        allocation: AllocationResult,
    ) -> Iterator[tuple[PoolId, DeviceRequestAllocationResult]]:
        """The results that use a device: access for administration does not count."""
        for result in allocation.devices.results:
            if not result.admin_access:
                yield (result.driver, result.pool), result


class InFlightClaims:
    """Claims that were given devices but are not written yet, by uid."""

    def __init__(self, devices: AllocatedDevices) -> None:
        self._devices = devices
        self._claims: dict[str, ResourceClaim] = {}
        self._sharers: dict[str, int] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._claims

    def __len__(self) -> int:
        return len(self._claims)

    def get(self, uid: str) -> ResourceClaim | None:
        return self._claims.get(uid)

    def claims(self) -> Collection[ResourceClaim]:
        return self._claims.values()

    def add(self, claim: ResourceClaim) -> None:
        """Note a claim with the allocation it will get, or that one more pod shares it."""
        uid = claim.metadata.uid
        if uid in self._claims:
            self._sharers[uid] += 1
            return
        self._claims[uid] = claim
        self._sharers[uid] = 1
        if claim.status.allocation is not None:
            self._devices.take(claim.status.allocation, flying=True)

    def remove(self, uid: str, *, for_all: bool = False) -> bool:
        """One pod less needs it in flight, or no pod at all; True if it is gone from here."""
        claim = self._claims.get(uid)
        if claim is None:
            return False
        if not for_all and self._sharers[uid] > 1:
            self._sharers[uid] -= 1
            return False
        del self._claims[uid], self._sharers[uid]
        if claim.status.allocation is not None:
            self._devices.give_back(claim.status.allocation, flying=True)
        return True
