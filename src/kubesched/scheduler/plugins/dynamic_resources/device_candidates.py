"""The devices that a search considers, and the pools that it can skip."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolUsage
from kubesched.scheduler.plugins.dynamic_resources.device_pools import PoolView, ViewedDevice

__all__ = ["DeviceCandidate", "ExhaustedPools"]

_MAX_CACHED = 100_000


class ExhaustedPools:
    """Pools that have nothing left for a request while usage is unchanged.

    All searches for the same claims share it. A pool stays exhausted within a search, because
    usage only grows there.
    """

    __slots__ = ("_by_request", "_without_errors")

    def __init__(self) -> None:
        self._by_request: dict[tuple[int, int, int, int], int] = {}  # -> usage version
        self._without_errors: dict[tuple[int, int, int, int], bool] = {}

    def is_without_errors(self, key: tuple[int, int, int, int], check: Callable[[], bool]) -> bool:
        """Whether selectors evaluate without error on every device of a pool, cached."""
        result = self._without_errors.get(key)
        if result is None:
            if len(self._without_errors) >= _MAX_CACHED:
                self._without_errors.clear()
            result = self._without_errors[key] = check()
        return result

    def has(self, key: tuple[int, int, int, int], version: int) -> bool:
        return self._by_request.get(key) == version

    def add(self, key: tuple[int, int, int, int], version: int) -> None:
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
        usage = self.usage
        return (
            self.view_place,
            self.content.number,
            self.is_used,
            tuple(self.taken_by),
            # A device with capacity in use from earlier shares is equivalent to no other.
            self.place if usage is not None and usage.has_capacity_entry(self.device.name) else -1,
        )

    @property
    def is_in_use(self) -> bool:
        """Whether the device is allocated, or this search took it."""
        return self.is_used or bool(self.taken_by)
