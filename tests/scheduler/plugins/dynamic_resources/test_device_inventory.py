"""The inventory updates groups of nodes, and equals one that is built from the same objects."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from kubesched.api import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceSlice,
)
from kubesched.scheduler.plugins.dynamic_resources.device_features import DeviceFeatures
from kubesched.scheduler.plugins.dynamic_resources.device_inventory import DeviceInventory
from kubesched.testing import make_node
from tests.scheduler.plugins.dynamic_resources.device_objects import DRIVER, slice_of

NODES = [make_node(f"n{number}") for number in range(4)]
DEVICES = ("d0", "d1")


def slice_on(number: int, devices: Iterable[str] = DEVICES) -> ResourceSlice:
    return slice_of(*devices, name=f"s{number}", pool=f"p{number}", node=f"n{number}")


def allocation(number: int, device: str) -> AllocationResult:
    result = DeviceRequestAllocationResult(
        request="r", driver=DRIVER, pool=f"p{number}", device=device
    )
    return AllocationResult(devices=DeviceAllocationResult(results=(result,)))


def partition(inventory: DeviceInventory) -> list[list[int]]:
    """Return the groups as lists of nodes."""
    groups: dict[int, list[int]] = {}
    for number, node in enumerate(NODES):
        groups.setdefault(inventory.of_node(node).group.number, []).append(number)
    return sorted(groups.values())


def filled(slices: dict[int, ResourceSlice], used: list[tuple[int, str, bool]]) -> DeviceInventory:
    inventory = DeviceInventory(DeviceFeatures())
    for each in slices.values():
        inventory.slice_changed(None, each)
    for number, device, in_flight in used:
        inventory.allocated.take(allocation(number, device), in_flight=in_flight)
    return inventory


numbers = st.integers(0, len(NODES) - 1)
uses = st.tuples(numbers, st.sampled_from(DEVICES), st.booleans())
steps = st.one_of(
    st.tuples(st.just("take"), uses),
    st.tuples(st.just("give back"), st.integers(0, 30)),
    st.tuples(st.just("slice"), st.tuples(numbers, st.sampled_from([DEVICES, ("d0",), ()]))),
    st.tuples(st.just("look"), numbers),
)


@given(st.lists(steps, max_size=30))
def test_an_updated_inventory_has_the_groups_of_a_new_one(
    history: list[tuple[str, object]],
) -> None:
    slices = {number: slice_on(number) for number in range(len(NODES))}
    used: list[tuple[int, str, bool]] = []
    inventory = filled(slices, used)
    for action, value in history:
        match action, value:
            case "take", (int() as number, str() as device, bool() as in_flight):
                used.append((number, device, in_flight))
                inventory.allocated.take(allocation(number, device), in_flight=in_flight)
            case "give back", int() as place if used:
                number, device, in_flight = used.pop(place % len(used))
                inventory.allocated.give_back(allocation(number, device), in_flight=in_flight)
            case "slice", (int() as number, tuple() as devices):
                before, slices[number] = slices[number], slice_on(number, devices)
                inventory.slice_changed(before, slices[number])
            case "look", int() as number:
                inventory.of_node(NODES[number])
    fresh = filled(slices, used)
    assert partition(inventory) == partition(fresh)
    for node in NODES:
        seen, wanted = inventory.of_node(node).views, fresh.of_node(node).views
        assert [view.key for view in seen] == [view.key for view in wanted]


def test_a_write_of_an_allocation_in_flight_leaves_the_node_in_its_group() -> None:
    inventory = filled({0: slice_on(0)}, [(0, "d0", True)])
    before = inventory.of_node(NODES[0])
    inventory.allocated.take(allocation(0, "d0"))
    inventory.allocated.give_back(allocation(0, "d0"), in_flight=True)
    assert inventory.of_node(NODES[0]) is before
    inventory.allocated.give_back(allocation(0, "d0"))
    after = inventory.of_node(NODES[0])
    assert after.group is not before.group
    assert after.views is before.views
