"""Constraints between the devices of a claim (docs/reference/08 §8.10).

The search adds each device that it takes for a request to the constraint, and removes it when it
backtracks. The constraint may refuse a device. An attribute without a known value equals nothing.
"""

from __future__ import annotations

from typing import Protocol

from kubesched.api import DeviceConstraint
from kubesched.scheduler.plugins.dynamic_resources.device_content import (
    AttributeValue,
    DeviceContent,
    value_of,
)
from kubesched.scheduler.plugins.dynamic_resources.device_pools import PoolView

__all__ = ["AttributeConstraint", "DistinctAttribute", "MatchAttribute", "make_constraint"]


class AttributeConstraint(Protocol):
    """One constraint of one claim, within one search."""

    @property
    def name(self) -> str:
        """The attribute."""
        ...

    @property
    def state(self) -> object:
        """The state; equal states refuse the same further devices."""
        ...

    def applies(self, request: str, subrequest: str) -> bool:
        """Whether the constraint is about devices of the request."""
        ...

    def refuses(self, request: str, subrequest: str, device: DeviceContent) -> bool:
        """Whether `add` would refuse the device, without changes.

        False is always correct.
        """
        ...

    def refuses_all(self, request: str, subrequest: str, view: PoolView) -> bool:
        """Whether `refuses` holds for every device of a pool; False is always correct."""
        ...

    def add(self, request: str, subrequest: str, device: DeviceContent) -> bool:
        """Count a taken device; False: the constraint refuses it."""
        ...

    def remove(self, request: str, subrequest: str, device: DeviceContent) -> None:
        """Undo an `add` that was accepted."""
        ...


def make_constraint(spec: DeviceConstraint, *, knows_distinct: bool) -> AttributeConstraint | None:
    """Create the constraint; None if its kind is unknown."""
    if spec.match_attribute is not None:
        return MatchAttribute(spec.match_attribute, frozenset(spec.requests))
    if spec.distinct_attribute is not None and knows_distinct:
        return DistinctAttribute(spec.distinct_attribute, frozenset(spec.requests))
    return None


def _applies(requests: frozenset[str], request: str, subrequest: str) -> bool:
    if not requests or request in requests:
        return True
    return bool(subrequest) and f"{request}/{subrequest}" in requests


class MatchAttribute:
    """All devices must have the same value of an attribute."""

    def __init__(self, name: str, requests: frozenset[str]) -> None:
        self.name, self._requests = name, requests
        self._value: AttributeValue | None = None
        self._count = 0

    @property
    def state(self) -> object:
        return (self._value,) if self._count else None

    @property
    def is_set(self) -> bool:
        """Whether a device was taken, so that all further devices must have its value."""
        return self._count > 0

    @property
    def value(self) -> AttributeValue | None:
        """The value that all devices must have, if it is set; None equals no value."""
        return self._value

    def applies(self, request: str, subrequest: str) -> bool:
        return _applies(self._requests, request, subrequest)

    def refuses(self, request: str, subrequest: str, device: DeviceContent) -> bool:
        if not self._count or not _applies(self._requests, request, subrequest):
            return False
        attribute = device.attribute(self.name)
        if attribute is None:
            return True
        value = value_of(attribute)
        return value is None or value != self._value

    def refuses_all(self, request: str, subrequest: str, view: PoolView) -> bool:
        if not self._count or not _applies(self._requests, request, subrequest):
            return False
        return self._value is None or self._value not in view.values_of(self.name)

    def add(self, request: str, subrequest: str, device: DeviceContent) -> bool:
        if not _applies(self._requests, request, subrequest):
            return True
        attribute = device.attribute(self.name)
        if attribute is None:
            return False
        value = value_of(attribute)
        if not self._count:
            self._value = value  # the first device decides
        elif value is None or value != self._value:
            return False
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str, device: DeviceContent) -> None:
        if _applies(self._requests, request, subrequest):
            self._count -= 1


class DistinctAttribute:
    """No two devices may have the same value of an attribute.

    As in the reference, it stores only the latest device of each request, and removing a device
    clears the entry of its request.
    """

    def __init__(self, name: str, requests: frozenset[str]) -> None:
        self.name, self._requests = name, requests
        self._latest: dict[str, AttributeValue | None] = {}
        self._count = 0

    @property
    def state(self) -> object:
        return self._count, tuple(sorted(self._latest.items(), key=lambda each: each[0]))

    def values_of_others(self, request: str) -> frozenset[AttributeValue | None]:
        """Return the values that devices of other requests have."""
        return frozenset(value for name, value in self._latest.items() if name != request)

    def applies(self, request: str, subrequest: str) -> bool:
        return _applies(self._requests, request, subrequest)

    def refuses(self, request: str, subrequest: str, device: DeviceContent) -> bool:
        return False

    def refuses_all(self, request: str, subrequest: str, view: PoolView) -> bool:
        return False

    def add(self, request: str, subrequest: str, device: DeviceContent) -> bool:
        if not _applies(self._requests, request, subrequest):
            return True
        attribute = device.attribute(self.name)
        if attribute is None:
            return False
        value = value_of(attribute)
        if (
            self._count
            and self._latest
            and (value is None or any(value == other for other in self._latest.values()))
        ):
            return False
        self._latest[request] = value
        self._count += 1
        return True

    def remove(self, request: str, subrequest: str, device: DeviceContent) -> None:
        if _applies(self._requests, request, subrequest):
            self._latest.pop(request, None)
            self._count -= 1
