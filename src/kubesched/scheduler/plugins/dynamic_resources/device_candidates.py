"""The devices that a search considers, and the pools that it can skip."""

from __future__ import annotations

from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolUsage
from kubesched.scheduler.plugins.dynamic_resources.device_pools import PoolView, ViewedDevice

__all__ = ["DeviceCandidate", "ExhaustedPools"]

_MAX_CACHED = 100_000
_MAX_BEGUN = 64

# Claim, request, alternative, and the number of the pool's view.
PoolKey = tuple[int, int, int, int]


class ExhaustedPools:
    """Pools without any device for a request, as long as usage does not change.

    All searches for the same claims share it. A pool stays exhausted within a search, because usage
    only grows there.
    """

    __slots__ = ("_begun", "_by_request", "_selected")

    def __init__(self) -> None:
        self._by_request: dict[PoolKey, int] = {}  # -> usage version
        self._selected: dict[PoolKey, int | None] = {}
        # Of pools of which a part was looked at: devices selected so far, and their number.
        self._begun: dict[PoolKey, tuple[int, int]] = {}

    def is_known(self, key: PoolKey) -> bool:
        """Whether `selected` has a result for the pool."""
        return key in self._selected

    def selected(self, key: PoolKey) -> int | None:
        """Return the devices of a pool that selectors match, as bits.

        The result is None if a selector fails on a device.
        """
        return self._selected[key]

    def begun(self, key: PoolKey) -> tuple[int, int]:
        """Return which of the first devices of a pool are selected, and how many were evaluated."""
        return self._begun.get(key, (0, 0))

    def note_begun(self, key: PoolKey, mask: int, seen: int) -> None:
        if len(self._begun) >= _MAX_BEGUN:
            self._begun.clear()
        self._begun[key] = (mask, seen)

    def note_selected(self, key: PoolKey, mask: int | None) -> None:
        self._begun.pop(key, None)
        if len(self._selected) >= _MAX_CACHED:
            self._selected.clear()
        self._selected[key] = mask

    def has(self, key: PoolKey, version: int) -> bool:
        return self._by_request.get(key) == version

    def add(self, key: PoolKey, version: int) -> None:
        if len(self._by_request) >= _MAX_CACHED:
            self._by_request.clear()
        self._by_request[key] = version


class DeviceCandidate:
    """A device of a usable pool, with the changes of this search."""

    __slots__ = ("content", "device", "is_used", "place", "taken_by", "usage", "view", "view_place")

    def __init__(
        self, view_place: int, view: PoolView, place: int, usage: PoolUsage | None
    ) -> None:
        self.view_place, self.view, self.place = view_place, view, place
        self.device: ViewedDevice = view.devices[place]
        self.content = self.device.content
        self.usage = usage
        self.is_used = usage is not None and usage.is_dedicated(self.device.name)
        self.taken_by: list[int] = []  # claims of this search

    def equivalence_key(self) -> object:
        """Return a key that is equal for devices that differ only in name at this point."""
        return self.static_key(), tuple(self.taken_by)

    def static_key(self) -> tuple[int, int, bool, int]:
        """Return a key that is equal for devices that differ only in name."""
        return (
            self.view_place,
            self.content.number,
            self.is_used,
            # A device with capacity in use from earlier shares is equivalent to no other.
            self.place if self.usage_matters else -1,
        )

    @property
    def usage_matters(self) -> bool:
        """Whether capacity of the device is in use from earlier."""
        usage = self.usage
        return usage is not None and usage.has_capacity_entry(self.device.name)

    @property
    def is_in_use(self) -> bool:
        """Whether the device is allocated, or this search took it."""
        return self.is_used or bool(self.taken_by)
