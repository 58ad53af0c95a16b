"""The devices in use, by allocated claims and by allocations in flight.

(docs/reference/08 §3.4, §3.5)

There are two layers: allocations in the status of claims, and allocations that are not written
yet. A device is in use if either layer has it. Usage is stored by pool, and the listener is
notified of each pool whose usage changes.
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
    """The devices of one pool that are in use, by name."""

    __slots__ = (
        "_allocated",
        "_capacity",
        "_in_flight",
        "_in_flight_capacity",
        "_in_flight_shares",
        "_shares",
        "version",
    )

    def __init__(self) -> None:
        self.version = next(_versions)  # changes with every change, and never repeats
        # Counters: a stale watch may report the previous user after the next one.
        self._allocated: Counter[str] = Counter()
        self._in_flight: Counter[str] = Counter()
        self._shares: set[tuple[str, str]] = set()  # device, share
        self._in_flight_shares: Counter[tuple[str, str]] = Counter()
        self._capacity: dict[str, dict[str, Quantity]] = {}
        self._in_flight_capacity: dict[str, dict[str, Quantity]] = {}

    def __bool__(self) -> bool:
        return bool(self._allocated or self._in_flight or self.has_parts)

    @property
    def has_parts(self) -> bool:
        """Whether a share or some capacity of a device is allocated."""
        return bool(
            self._shares or self._in_flight_shares or self._capacity or self._in_flight_capacity
        )

    def is_dedicated(self, device: str) -> bool:
        """Whether the device is allocated as a whole."""
        return device in self._allocated or device in self._in_flight

    @property
    def dedicated(self) -> Collection[str]:
        allocated = self._allocated.keys()
        return allocated | self._in_flight.keys() if self._in_flight else allocated

    @property
    def shared(self) -> Collection[str]:
        """Devices of which a share is allocated."""
        return {device for device, _ in self._shares} | {
            device for device, _ in self._in_flight_shares
        }

    @property
    def with_capacity(self) -> Collection[str]:
        """Devices of which some capacity is allocated."""
        return self._capacity.keys() | self._in_flight_capacity.keys()

    def has_capacity_entry(self, device: str) -> bool:
        return device in self._capacity or device in self._in_flight_capacity

    def consumed_capacity(self, device: str) -> Mapping[str, Quantity]:
        committed = self._capacity.get(device)
        in_flight = self._in_flight_capacity.get(device)
        if in_flight is None:
            return _NOTHING if committed is None else committed
        return in_flight if committed is None else _sum(committed, in_flight)

    @property
    def consumers(self) -> Collection[str]:
        """Every device that is in use, as a whole or in part."""
        return {*self.dedicated, *self.shared, *self.with_capacity}

    def take(self, result: DeviceRequestAllocationResult, *, shares: bool, in_flight: bool) -> None:
        self.version = next(_versions)
        device = result.device
        if shares and result.share_id is not None:
            share = (device, result.share_id)
            if in_flight:
                self._in_flight_shares[share] += 1
            else:
                self._shares.add(share)
            if result.consumed_capacity:
                layer = self._in_flight_capacity if in_flight else self._capacity
                layer[device] = _sum(layer.get(device, _NOTHING), _consumed(result))
        elif in_flight:
            self._in_flight[device] += 1
        else:
            self._allocated[device] += 1

    def give_back(
        self, result: DeviceRequestAllocationResult, *, shares: bool, in_flight: bool
    ) -> None:
        self.version = next(_versions)
        device = result.device
        if shares and result.share_id is not None:
            share = (device, result.share_id)
            if in_flight:
                _count_down(self._in_flight_shares, share)
            else:
                self._shares.discard(share)
            layer = self._in_flight_capacity if in_flight else self._capacity
            if result.consumed_capacity and device in layer:
                left = _difference(layer[device], _consumed(result))
                if any(left.values()):
                    layer[device] = left
                else:
                    del layer[device]
        elif in_flight:
            _count_down(self._in_flight, device)
        else:
            _count_down(self._allocated, device)


def _count_down(counter: Counter[K], key: K) -> None:
    counter[key] -= 1
    if counter[key] <= 0:
        del counter[key]


def _consumed(result: DeviceRequestAllocationResult) -> dict[str, Quantity]:
    consumed = {}
    for name, amount in (result.consumed_capacity or {}).items():
        # A server stores valid quantities only; an invalid one must not break the accounting.
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
    """The usage of every pool, updated with every change of a claim."""

    def __init__(self, *, consumable_capacity: bool, on_change: OnUsage) -> None:
        """Without `consumable_capacity`, a share counts as the whole device."""
        self._shares = consumable_capacity
        self._on_change = on_change
        self._by_pool: dict[PoolId, PoolUsage] = {}

    def usage(self, pool: PoolId) -> PoolUsage | None:
        """Return the usage of a pool; None if nothing is in use."""
        return self._by_pool.get(pool)

    def pools(self) -> set[PoolId]:
        """Return the pools of which something is in use."""
        return set(self._by_pool)

    def claim_changed(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        """Apply a change of a claim; between two events it may have changed its devices."""
        before = None if old is None else old.status.allocation
        after = None if new is None else new.status.allocation
        if before is after or (before is not None and before == after):
            return
        if before is not None:
            self.give_back(before)
        if after is not None:
            self.take(after)

    def take(self, allocation: AllocationResult, *, in_flight: bool = False) -> None:
        for pool, result in self._counted(allocation):
            usage = self._by_pool.get(pool)
            if usage is None:
                usage = self._by_pool[pool] = PoolUsage()
            usage.take(result, shares=self._shares, in_flight=in_flight)
            self._on_change(pool)

    def give_back(self, allocation: AllocationResult, *, in_flight: bool = False) -> None:
        for pool, result in self._counted(allocation):
            usage = self._by_pool.get(pool)
            if usage is not None:
                usage.give_back(result, shares=self._shares, in_flight=in_flight)
                if not usage:
                    del self._by_pool[pool]
                self._on_change(pool)

    @staticmethod
    def _counted(
        allocation: AllocationResult,
    ) -> Iterator[tuple[PoolId, DeviceRequestAllocationResult]]:
        """Yield the results that use a device: admin access does not count."""
        for result in allocation.devices.results:
            if not result.admin_access:
                yield (result.driver, result.pool), result


class InFlightClaims:
    """Claims with an allocation that is not written yet, by uid."""

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
        """Add a claim with its pending allocation, or another pod that shares it."""
        uid = claim.metadata.uid
        if uid in self._claims:
            self._sharers[uid] += 1
            return
        self._claims[uid] = claim
        self._sharers[uid] = 1
        if claim.status.allocation is not None:
            self._devices.take(claim.status.allocation, in_flight=True)

    def remove(self, uid: str, *, for_all: bool = False) -> bool:
        """Remove the claim for one pod or `for_all`; True if it is no longer in flight."""
        claim = self._claims.get(uid)
        if claim is None:
            return False
        if not for_all and self._sharers[uid] > 1:
            self._sharers[uid] -= 1
            return False
        del self._claims[uid], self._sharers[uid]
        if claim.status.allocation is not None:
            self._devices.give_back(claim.status.allocation, in_flight=True)
        return True
