"""Devices that a search considers, and pools that it need not consider."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolUsage
from kubesched.scheduler.plugins.dynamic_resources.device_pools import PoolView, ViewedDevice

__all__ = ["DeviceCandidate", "ExhaustedPools"]

_DEAD_VIEWS_KEPT = 100_000


class ExhaustedPools:
    """Pools that have nothing left for a request, as long as their usage stays as it is.

    Kept from one search to the next for the same claims: usage only grows within a search.
    """

    __slots__ = ("_by_request", "_without_errors")

    def __init__(self) -> None:
        self._by_request: dict[tuple[int, int, int, int], int] = {}  # -> version of the usage
        self._without_errors: dict[tuple[int, int, int, int], bool] = {}

    def is_without_errors(self, key: tuple[int, int, int, int], look: Callable[[], bool]) -> bool:
        """Whether selectors have an answer for every device of a pool, used or not."""
        known = self._without_errors.get(key)
        if known is None:
            if len(self._without_errors) >= _DEAD_VIEWS_KEPT:
                self._without_errors.clear()
            known = self._without_errors[key] = look()
        return known

    def has(self, key: tuple[int, int, int, int], version: int) -> bool:
        return self._by_request.get(key) == version

    def add(self, key: tuple[int, int, int, int], version: int) -> None:
        if len(self._by_request) >= _DEAD_VIEWS_KEPT:
            self._by_request.clear()
        self._by_request[key] = version


class DeviceCandidate:
    """A device of a usable pool, with what this attempt did to it."""

    __slots__ = ("content", "device", "is_used", "place", "taken_by", "usage", "view", "view_place")

    def __init__(
        self, view_place: int, view: PoolView, place: int, usage: PoolUsage | None
    ) -> None:
        self.view_place, self.view, self.place = view_place, view, place
        self.device: ViewedDevice = view.devices[place]
        self.content = self.device.content
        self.usage = usage
        self.is_used = usage is not None and usage.is_dedicated(self.device.name)
        self.taken_by: list[int] = []  # claims of this attempt

    def likeness(self) -> object:
        """Equal for devices that differ by nothing but their name, at this point of the search."""
        usage = self.usage
        return (
            self.view_place,
            self.content.number,
            self.is_used,
            tuple(self.taken_by),
            # What shares took of it when it could still be shared tells it from all others.
            self.place if usage is not None and usage.has_capacity_entry(self.device.name) else -1,
        )

    @property
    def is_in_use(self) -> bool:
        """Whether someone has it, or this attempt gives it to someone."""
        return self.is_used or bool(self.taken_by)
