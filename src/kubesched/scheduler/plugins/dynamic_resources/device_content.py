"""The content of devices: everything except the name.

Most devices of a cluster are equal except for their names. They share one `DeviceContent`, so that
results for a device (whether a selector matches, which taints apply) are computed once.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from weakref import WeakValueDictionary

import msgspec
from msgspec.structs import replace

from kubesched.api import Device, DeviceAttribute, DeviceTaint
from kubesched.api.quantity import Quantity, quantity_from_json
from kubesched.errors import QuantityError
from kubesched.scheduler.plugins.dynamic_resources.device_capacity import CapacityRule

__all__ = ["AttributeValue", "DeviceContent", "DeviceContents", "value_of"]

AttributeValue = tuple[str, str | int | bool]

_BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
_encode = msgspec.json.Encoder(order="deterministic").encode


class DeviceContent:
    """A device without its name; immutable, except for cached results of selectors."""

    __slots__ = (
        "__weakref__",
        "allows_sharing",
        "blocking_taints",
        "capacity",
        "consumed_counters",
        "device",
        "driver",
        "is_invalid",
        "number",
        "prepared",
        "selected",
    )

    def __init__(self, number: int, driver: str, device: Device) -> None:
        self.number = number  # unique; never reused
        self.driver = driver
        self.device = device
        self.allows_sharing = bool(device.allow_multiple_allocations)
        self.blocking_taints: tuple[DeviceTaint, ...] = tuple(
            taint for taint in device.taints if taint.effect in _BLOCKING_EFFECTS
        )
        self.is_invalid = False  # has an invalid quantity; no server stores such a device
        self.capacity: Mapping[str, CapacityRule] = {}
        # (counter set, counter) -> the amount that the device consumes.
        self.consumed_counters: Mapping[tuple[str, str], Quantity] = {}
        try:
            self.capacity = {
                name: CapacityRule.read(capacity) for name, capacity in device.capacity.items()
            }
            self.consumed_counters = _consumed_counters(device)
        except QuantityError:
            self.is_invalid = True
        self.prepared: object = None  # the input for selectors, set by their evaluator
        # Expression -> whether the selector matches, or the text of its error.
        self.selected: dict[str, bool | str] = {}

    @property
    def is_plain(self) -> bool:
        """Whether the device has no taints, capacity, counters or shares."""
        return not (
            self.blocking_taints
            or self.capacity
            or self.device.consumes_counters
            or self.allows_sharing
        )

    @property
    def has_conditions(self) -> bool:
        return bool(self.device.binding_conditions)

    def attribute(self, qualified_name: str) -> DeviceAttribute | None:
        """Return the attribute `domain/name`; the driver may omit its own domain."""
        attributes = self.device.attributes
        found = attributes.get(qualified_name)
        if found is None:
            domain, _, name = qualified_name.partition("/")
            if domain == self.driver:
                found = attributes.get(name)
        return found

    def value_of(self, qualified_name: str) -> AttributeValue | bool | None:
        """Return the value of an attribute; False: it is absent, None: its type is unknown."""
        found = self.attribute(qualified_name)
        return False if found is None else value_of(found)


def value_of(attribute: DeviceAttribute) -> AttributeValue | None:
    """Return the value with its type; versions are compared as text."""
    if attribute.string_value is not None:
        return "string", attribute.string_value
    if attribute.int_value is not None:
        return "int", attribute.int_value
    if attribute.bool_value is not None:
        return "bool", attribute.bool_value
    if attribute.version_value is not None:
        return "version", attribute.version_value
    return None


def _consumed_counters(device: Device) -> dict[tuple[str, str], Quantity]:
    consumed: dict[tuple[str, str], Quantity] = {}
    for consumption in device.consumes_counters:
        for name, counter in consumption.counters.items():
            key = (consumption.counter_set, name)
            amount = quantity_from_json(counter.value)
            consumed[key] = consumed[key] + amount if key in consumed else amount
    return consumed


class DeviceContents:
    """Shares the contents of equal devices that are in use."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._contents: WeakValueDictionary[bytes, DeviceContent] = WeakValueDictionary()
        self._lists: WeakValueDictionary[bytes, DeviceList] = WeakValueDictionary()

    def of_devices(self, driver: str, devices: tuple[Device, ...]) -> DeviceList:
        """Return names and contents, in order; equal lists are the same object."""
        key = _encode((driver, devices))
        found = self._lists.get(key)
        if found is None:
            found = DeviceList(
                tuple((device.name, self._of_device(driver, device)) for device in devices)
            )
            self._lists[key] = found
        return found

    def _of_device(self, driver: str, device: Device) -> DeviceContent:
        nameless = replace(device, name="")
        key = _encode((driver, nameless))
        found = self._contents.get(key)
        if found is None:
            found = self._contents[key] = DeviceContent(next(self._numbers), driver, nameless)
        return found


class DeviceList:
    """The names and contents of the devices of a slice."""

    __slots__ = ("__weakref__", "entries", "numbers")

    def __init__(self, entries: tuple[tuple[str, DeviceContent], ...]) -> None:
        self.entries = entries
        self.numbers = tuple(content.number for _, content in entries)
