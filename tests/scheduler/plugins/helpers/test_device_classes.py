"""The device class that serves an extended resource."""

from __future__ import annotations

import pytest

from kubesched.api import DeviceClass, DeviceClassSpec
from kubesched.scheduler.plugins.helpers.device_classes import DeviceClassResolver
from kubesched.testing import FakeHandle, make_meta

GPU, PREFIX = "example.com/gpu", "deviceclass.resource.kubernetes.io/"
EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def device_class(name: str, explicit: str | None = None, created: str = EARLY) -> DeviceClass:
    return DeviceClass(
        metadata=make_meta("DeviceClass", name, creation_timestamp=created),
        spec=DeviceClassSpec(extended_resource_name=explicit),
    )


CASES: dict[str, tuple[list[DeviceClass], str | None]] = {
    "one class": ([device_class("a", GPU)], "a"),
    "no class with that name": ([device_class("a"), device_class("b", "x.com/y")], None),
    "the younger class wins": ([device_class("a", GPU), device_class("b", GPU, LATE)], "b"),
    "the older class does not win later": (
        [device_class("b", GPU, LATE), device_class("a", GPU)],
        "b",
    ),
    "of the same age, the first by name": ([device_class("b", GPU), device_class("a", GPU)], "a"),
    "an empty explicit name is none": ([device_class("a", "")], None),
}


@pytest.mark.parametrize(("classes", "owner"), CASES.values(), ids=CASES)
def test_explicit_names(classes: list[DeviceClass], owner: str | None) -> None:
    found = DeviceClassResolver(FakeHandle(classes)).class_for(GPU)
    assert (None if found is None else found.metadata.name) == owner


def test_every_device_class_serves_its_implicit_resource_name() -> None:
    resolver = DeviceClassResolver(FakeHandle([device_class("a", GPU)]))
    wanted = [PREFIX + "a", PREFIX + "b", GPU, "cpu"]
    assert resolver.served(wanted) == {PREFIX + "a", GPU}


def test_without_a_handle_or_the_gate_nothing_is_served() -> None:
    handle = FakeHandle([device_class("a", GPU)], feature_gates={"DRAExtendedResource": False})
    for resolver in (DeviceClassResolver(None), DeviceClassResolver(handle)):
        assert resolver.served([GPU]) == frozenset()
        assert resolver.class_for(GPU) is None
