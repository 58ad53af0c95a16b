"""Counters and capacity that one search takes, before anything is allocated.

(docs/reference/08 §8.8, §8.9)
"""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.api.quantity import ZERO, Quantity
from kubesched.scheduler.plugins.dynamic_resources.device_candidates import DeviceCandidate
from kubesched.scheduler.plugins.dynamic_resources.device_capacity import Amounts, has_room
from kubesched.scheduler.plugins.dynamic_resources.device_pools import CounterKey

__all__ = ["AttemptUsage"]

_NOTHING: Amounts = {}


class AttemptUsage:
    """Amounts that a search takes and returns as it backtracks."""

    def __init__(self) -> None:
        self._counters: dict[int, dict[CounterKey, Quantity]] = {}  # by pool
        self._available: dict[int, Mapping[CounterKey, Quantity]] = {}
        self._capacity: dict[tuple[int, int], dict[str, Quantity]] = {}  # by pool and device

    def has_entry(self, candidate: DeviceCandidate) -> bool:
        """Whether this search took a share of the device."""
        return (candidate.view_place, candidate.place) in self._capacity

    def has_any_entry(self, candidate: DeviceCandidate) -> bool:
        """Whether any share of the device with recorded capacity is in use."""
        if self.has_entry(candidate):
            return True
        usage = candidate.usage
        return usage is not None and usage.has_capacity_entry(candidate.device.name)

    def has_room(self, candidate: DeviceCandidate, requested: Amounts) -> bool:
        """Whether the device has the requested capacity left."""
        rules = candidate.content.capacity
        if not rules:
            return not requested
        usage = candidate.usage
        committed = _NOTHING if usage is None else usage.consumed_capacity(candidate.device.name)
        taken = self._capacity.get((candidate.view_place, candidate.place), _NOTHING)
        return has_room(rules, requested, committed, taken)

    def take_counters(self, candidate: DeviceCandidate) -> bool:
        """Take the counters that the device consumes; False if one does not suffice."""
        place = candidate.view_place
        available = self._available.get(place)
        if available is None:
            view = candidate.view
            available = view.pool.available_counters(view, candidate.usage)
            self._available[place] = available
        taken = self._counters.setdefault(place, {})
        for key, amount in candidate.content.consumed_counters.items():
            taken[key] = taken.get(key, ZERO) + amount
        if all(amount >= taken.get(key, ZERO) for key, amount in available.items()):
            return True
        self.give_back_counters(candidate)
        return False

    def give_back_counters(self, candidate: DeviceCandidate) -> None:
        taken = self._counters[candidate.view_place]
        for key, amount in candidate.content.consumed_counters.items():
            taken[key] -= amount

    def take_capacity(self, candidate: DeviceCandidate, consumed: Amounts) -> None:
        taken = self._capacity.setdefault((candidate.view_place, candidate.place), {})
        for name, amount in consumed.items():
            taken[name] = taken.get(name, ZERO) + amount

    def give_back_capacity(
        self, candidate: DeviceCandidate, consumed: Amounts, *, keep_entry: bool
    ) -> None:
        """Release capacity. The entry remains while another share of the device is taken."""
        place = (candidate.view_place, candidate.place)
        if not keep_entry:
            del self._capacity[place]
            return
        taken = self._capacity[place]
        for name, amount in consumed.items():
            taken[name] -= amount
