"""The devices that the search finds: docs/reference/08 §12, rows 42 to 77."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kubesched.api import DeviceTaintRule, ResourceClaim, ResourceSlice
from kubesched.api.base import ApiObject
from kubesched.api.codec import from_builtins
from kubesched.testing import make_node
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    DRIVER,
    DeviceHarness,
    Json,
    allocated,
    claim,
    device,
    device_class,
    exactly,
    pod_with,
    slice_of,
)

CLASS = device_class("k", f'device.driver == "{DRIVER}"')
NO_FIT = "cannot allocate all claims"
MEMORY = f'device.capacity["{DRIVER}"].memory'


def at_least(size: str) -> Json:
    return exactly(1, f'{MEMORY}.compareTo(quantity("{size}")) >= 0')


def sized(**sizes: str) -> list[dict[str, Any]]:
    return [device(name, capacity={"memory": size}) for name, size in sizes.items()]


def numbered(count: int) -> list[str]:
    return [f"d{number:02}" for number in range(count)]


class Case(NamedTuple):
    claims: list[ResourceClaim]
    slices: list[ResourceSlice]
    want: list[list[str]] | str
    others: tuple[ApiObject, ...] = ()  # claims with allocated devices


TAINTED = device("t", taints=[{"key": "broken", "effect": "NoSchedule"}])
COUNTERS = [{"name": "set", "counters": {"memory": {"value": "8Gi"}}}]


def partition(name: str, amount: str, **fields: Any) -> dict[str, Any]:
    use = {"counterSet": "set", "counters": {"memory": {"value": amount}}}
    return device(name, consumesCounters=[use], **fields)


def partitioned(*devices: Json, counters: Any = COUNTERS, **spec: Any) -> list[ResourceSlice]:
    """Return a pool of two slices: one with counters, one with devices."""
    return [
        slice_of(name="p-counters", count=2, sharedCounters=counters, **spec),
        slice_of(*devices, name="p-devices", count=2, **spec),
    ]


def shareable(name: str = "s", capacity: Any = None, **fields: Any) -> dict[str, Any]:
    return device(name, capacity=capacity or {}, allowMultipleAllocations=True, **fields)


def requesting(**amounts: str) -> Json:
    return exactly(1, capacity={"requests": amounts})


RANGE = {"value": "8", "requestPolicy": {"validRange": {"min": "2", "step": "2", "max": "4"}}}
VALUES = {"value": "8", "requestPolicy": {"validValues": ["1", "3"]}}

CASES = {
    "an earlier request is revised for a later one": Case(
        [claim("c", at_least("1Gi"), at_least("2Gi"))],
        [slice_of(*sized(big="2Gi", small="1Gi"))],
        [["r0:p/small", "r1:p/big"]],
    ),
    "and for a later claim": Case(
        [claim("a", at_least("1Gi")), claim("b", at_least("2Gi"))],
        [slice_of(*sized(big="2Gi", small="1Gi"))],
        [["r0:p/small"], ["r0:p/big"]],
    ),
    "a request of two leaves the device that another needs": Case(
        [claim("c", exactly(2), at_least("2Gi"))],
        [slice_of(*sized(d1="2Gi", d2="1Gi", d3="1Gi"))],
        [["r0:p/d2", "r0:p/d3", "r1:p/d1"]],
    ),
    "more than there are": Case([claim("c", exactly(5))], [slice_of(*numbered(4))], NO_FIT),
    "pools in the order of their names": Case(
        [claim("c", exactly(2))],
        [slice_of("a", pool=pool) for pool in ("p3", "p2", "p1")],
        [["r0:p1/a", "r0:p2/a"]],
    ),
    "pools with binding conditions come last": Case(
        [claim("c", exactly(2))],
        [
            slice_of(device("a", bindingConditions=["ready"]), pool="p1"),
            slice_of("a", pool="p2"),
            slice_of("a", pool="p3"),
        ],
        [["r0:p2/a", "r0:p3/a"]],
    ),
    "but devices inside of a pool stay in order": Case(
        [claim("c", exactly(2))],
        [
            slice_of(device("a", bindingConditions=["ready"]), name="1", count=3),
            slice_of("b", name="2", count=3),
            slice_of("c", name="3", count=3),
        ],
        [["r0:p/a", "r0:p/b"]],
    ),
    "a pool of two generations is half a pool": Case(
        [claim("c", exactly())],
        [
            slice_of("a", name="old", count=2),
            slice_of("a", name="new", generation=2, count=2),
        ],
        NO_FIT,
    ),
    "all devices of an incomplete pool": Case(
        [claim("c", exactly(None))],
        [slice_of("a", count=2)],
        f"claim default/c, request r0: asks for all devices, but resource pool {DRIVER}/p is "
        "currently being updated",
    ),
    "all devices, one of which is taken": Case(
        [claim("c", exactly(None))],
        [slice_of("a", "b")],
        NO_FIT,
        (allocated(claim("other"), {"device": "b"}),),
    ),
    "all devices for administration, taken or not": Case(
        [claim("c", exactly(None, adminAccess=True))],
        [slice_of("a", "b")],
        [["r0:p/a", "r0:p/b"]],
        (allocated(claim("other"), {"device": "b"}),),
    ),
    "all devices where none matches": Case(
        [claim("c", exactly(None, "false"))], [slice_of("a")], NO_FIT
    ),
    "none of all matches, so the next alternative": Case(
        [claim("c", [exactly(None, "false"), exactly(1)])],
        [slice_of("a")],
        [["r0/s1:p/a"]],
    ),
    "all devices that must match do not": Case(
        [claim("c", exactly(None), constraints=[{"matchAttribute": f"{DRIVER}/x"}])],
        [slice_of(device("a", attributes={"x": 1}), device("b", attributes={"x": 2}))],
        f"claim default/c, request r0: cannot add device {DRIVER}/p/b because a claim constraint "
        "would not be satisfied",
    ),
    "devices of a pool on other nodes are not for this one": Case(
        [claim("c", exactly(2))],
        [slice_of("a", name="1", count=2), slice_of("b", name="2", count=2, node="other")],
        NO_FIT,
    ),
    "the part of a pool that is here": Case(
        [claim("c", exactly(None))],
        [slice_of("a", name="1", count=2), slice_of("b", name="2", count=2, node="other")],
        [["r0:p/a"]],
    ),
    "a pool with a newer generation elsewhere is outdated": Case(
        [claim("c", exactly())],
        [
            slice_of("a", name="1", count=2),
            slice_of("b", name="2", count=2, generation=2, node="other"),
        ],
        NO_FIT,
    ),
    "unless all of the old one is here": Case(
        [claim("c", exactly())],
        [
            slice_of("a", name="1", count=2),
            slice_of("b", name="2", count=2),
            slice_of("c", name="3", count=1, generation=2, node="other"),
        ],
        [["r0:p/a"]],
    ),
    "an invalid pool, and nothing else": Case(
        [claim("c", exactly())], [slice_of("a", "a")], "invalid resource pools were encountered"
    ),
    "an invalid pool beside a good one": Case(
        [claim("c", exactly())],
        [slice_of("a", "a"), slice_of("b", pool="q")],
        [["r0:q/b"]],
    ),
    "more than a claim may have": Case(
        [claim("c", exactly(33))],
        [slice_of(*numbered(40))],
        "claim default/c: number of requested devices 33 exceeds the claim limit of 32",
    ),
    "an alternative that asks for too many": Case(
        [claim("c", [exactly(500), exactly(1)])], [slice_of("a")], [["r0/s1:p/a"]]
    ),
    "two lists whose first choices are too many together": Case(
        [claim("c", [exactly(32), exactly(16)], [exactly(32), exactly(16)])],
        [slice_of(*numbered(64))],
        [
            [f"r0/s1:p/{name}" for name in numbered(16)]
            + [f"r1/s1:p/{name}" for name in numbered(64)[16:32]]
        ],
    ),
    "a constraint on one request leaves the other alone": Case(
        [
            claim(
                "c",
                exactly(2),
                exactly(1),
                constraints=[{"requests": ["r0"], "matchAttribute": f"{DRIVER}/x"}],
            )
        ],
        [slice_of(*(device(n, attributes={"x": x}) for n, x in (("a", 1), ("b", 2), ("c", 2))))],
        [["r0:p/b", "r0:p/c", "r1:p/a"]],
    ),
    "a constraint on an alternative that was not taken": Case(
        [
            claim(
                "c",
                exactly(1),
                [exactly(1, "false"), exactly(1)],
                constraints=[{"requests": ["r0", "r1/s0"], "matchAttribute": f"{DRIVER}/x"}],
            )
        ],
        [slice_of(device("a", attributes={"x": 1}), device("b", attributes={"x": 2}))],
        [["r0:p/a", "r1/s1:p/b"]],
    ),
    "a device without the attribute that must match": Case(
        [claim("c", exactly(1), constraints=[{"matchAttribute": f"{DRIVER}/x"}])],
        [slice_of("a", device("b", attributes={f"{DRIVER}/x": "y"}))],
        [["r0:p/b"]],
    ),
    "a taint that is not tolerated": Case(
        [claim("c", exactly())], [slice_of(TAINTED, "u")], [["r0:p/u"]]
    ),
    "a taint that is tolerated": Case(
        [claim("c", exactly(tolerations=[{"key": "broken", "operator": "Exists"}]))],
        [slice_of(TAINTED, "u")],
        [["r0:p/t"]],
    ),
    "a taint without effect": Case(
        [claim("c", exactly())],
        [slice_of(device("t", taints=[{"key": "broken", "effect": "None"}]))],
        [["r0:p/t"]],
    ),
    "administrators are kept out by taints too": Case(
        [claim("c", exactly(adminAccess=True))], [slice_of(TAINTED)], NO_FIT
    ),
    "counters that suffice for two of three": Case(
        [claim("c", exactly(), exactly())],
        partitioned(partition("a", "4Gi"), partition("b", "6Gi"), partition("c", "4Gi")),
        [["r0:p/a", "r1:p/c"]],
    ),
    "counters that are overdrawn refuse everything": Case(
        [claim("c", exactly())],
        partitioned(partition("a", "20Gi"), partition("b", "0")),
        NO_FIT,
        (allocated(claim("other"), {"device": "a"}),),
    ),
    "devices on another node draw on the same counters": Case(
        [claim("c", exactly())],
        [
            slice_of(name="p-counters", count=3, sharedCounters=COUNTERS, node="other"),
            slice_of(partition("a", "8Gi"), name="p-other", count=3, node="other"),
            slice_of(partition("b", "4Gi"), name="p-here", count=3),
        ],
        NO_FIT,
        (allocated(claim("other"), {"device": "a"}),),
    ),
    "pools of one name but of two drivers have counters each": Case(
        [claim("c", exactly())],
        [
            *partitioned(partition("a", "8Gi")),
            slice_of(name="q-counters", count=2, sharedCounters=COUNTERS, driver="e.example.com"),
            slice_of(partition("a", "8Gi"), name="q", count=2, driver="e.example.com"),
        ],
        [["r0:p/a"]],
        (allocated(claim("other"), {"device": "a", "driver": "e.example.com"}),),
    ),
    "a tainted device gives its counters back": Case(
        [claim("c", exactly())],
        partitioned(
            partition("t", "8Gi", taints=[{"key": "broken", "effect": "NoExecute"}]),
            partition("u", "8Gi"),
        ),
        [["r0:p/u"]],
    ),
    "two claims share a device": Case(
        [claim("a", requesting(x="1")), claim("b", requesting(x="1"))],
        [slice_of(shareable(capacity={"x": "2"}))],
        [["r0:p/s"], ["r0:p/s"]],
    ),
    "who asks for no capacity takes it all": Case(
        [claim("a", exactly()), claim("b", exactly())],
        [slice_of(shareable(capacity={"x": "2"}))],
        NO_FIT,
    ),
    "one request never takes two shares of a device": Case(
        [claim("c", exactly(2, capacity={"requests": {"x": "1"}}))],
        [slice_of(shareable(capacity={"x": "2"}))],
        NO_FIT,
    ),
    "more than the policy's range allows": Case(
        [claim("c", requesting(x="6"))], [slice_of(shareable(capacity={"x": RANGE}))], NO_FIT
    ),
    "more than any valid value": Case(
        [claim("c", requesting(x="4"))], [slice_of(shareable(capacity={"x": VALUES}))], NO_FIT
    ),
    "a capacity that the device has not": Case(
        [claim("c", requesting(y="1"))],
        [slice_of(shareable(capacity={"x": "1"}), shareable("t", capacity={"y": "1"}))],
        [["r0:p/t"]],
    ),
    "shares of a device without capacity": Case(
        [claim("a", exactly()), claim("b", exactly())],
        [slice_of(shareable())],
        [["r0:p/s"], ["r0:p/s"]],
    ),
    "no share of a device that a claim has for itself": Case(
        [claim("c", exactly())],
        [slice_of(shareable())],
        NO_FIT,
        (allocated(claim("other"), {"device": "s"}),),
    ),
    "distinct values of one shared device": Case(
        [
            claim(
                "c",
                requesting(x="1"),
                requesting(x="1"),
                constraints=[{"distinctAttribute": f"{DRIVER}/id"}],
            )
        ],
        [slice_of(shareable(capacity={"x": "2"}, attributes={"id": "a"}))],
        NO_FIT,
    ),
    "distinct values of two devices": Case(
        [
            claim(
                "c",
                requesting(x="1"),
                requesting(x="1"),
                constraints=[{"distinctAttribute": f"{DRIVER}/id"}],
            )
        ],
        [
            slice_of(
                shareable(capacity={"x": "2"}, attributes={"id": "a"}),
                shareable("t", capacity={"x": "2"}, attributes={"id": "b"}),
            )
        ],
        [["r0:p/s", "r1:p/t"]],
    ),
    "of one request only the latest value is remembered": Case(
        [claim("c", exactly(3), constraints=[{"distinctAttribute": f"{DRIVER}/id"}])],
        [
            slice_of(
                *(
                    device(name, attributes={"id": value})
                    for name, value in (("1", "a"), ("2", "b"), ("3", "a"))
                )
            )
        ],
        [["r0:p/1", "r0:p/2", "r0:p/3"]],
    ),
    "an administrator after a user": Case(
        [claim("a", exactly()), claim("b", exactly(adminAccess=True))],
        [slice_of("d")],
        [["r0:p/d"], ["r0:p/d"]],
    ),
    "a user after an administrator": Case(
        [claim("a", exactly(adminAccess=True)), claim("b", exactly())], [slice_of("d")], NO_FIT
    ),
    "what an administrator looks at is free": Case(
        [claim("c", exactly())],
        [slice_of("d")],
        [["r0:p/d"]],
        (allocated(claim("other"), {"device": "d", "adminAccess": True}),),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_allocations(case: Case) -> None:
    devices = DeviceHarness(CLASS, make_node("n"), *case.slices, *case.others)
    assert devices.allocate(*case.claims) == case.want


CONSUMED = {
    "less than the least": (RANGE, "1", "2"),
    "between two steps": (RANGE, "3", "4"),
    "between two valid values": (VALUES, "2", "3"),
    "without a policy": ({"value": "8"}, "5", "5"),
    "nothing, with a default": ({"value": "8", "requestPolicy": {"default": "2"}}, None, "2"),
    "nothing": ({"value": "8"}, None, "8"),
}


@pytest.mark.parametrize("case", CONSUMED.values(), ids=CONSUMED)
def test_capacity_of_a_share(case: tuple[Json, str | None, str]) -> None:
    capacity, wanted, want = case
    devices = DeviceHarness(CLASS, slice_of(shareable(capacity={"x": capacity})))
    asked = claim("c", exactly() if wanted is None else requesting(x=wanted))
    assert devices.allocate(asked) == [["r0:p/s"]]
    flying = devices.plugin.devices.in_flight.get("uid-c")
    assert flying is not None
    assert flying.status.allocation is not None
    (result,) = flying.status.allocation.devices.results
    assert result.consumed_capacity == {"x": want}
    assert result.share_id


def test_a_selector_that_fails_on_one_node_ends_the_attempt() -> None:
    reads = exactly(1, f'device.attributes["{DRIVER}"].x == 1')
    devices = DeviceHarness(
        CLASS,
        make_node("n"),
        make_node("m"),
        slice_of("a", pool="n"),
        slice_of(device("b", attributes={"x": 1}), pool="m", node="m"),
    )
    devices.handle.objects.put(claim("c", reads))
    text = "claim default/c: selector #0: CEL runtime error: no such key: x"
    pod = pod_with("c")
    assert devices.filter(pod, "n").message == text
    assert devices.filter(pod, "m").is_success
    # The attempt must evaluate the node on which the selector fails.
    assert devices.state.asks_every_node
    together = devices.plugin.filter_nodes(devices.state, pod, devices.handle.snapshot.nodes)
    assert [status.message for status in together.statuses if status.error] == [text]


def test_an_invalid_selector_is_an_error_only_if_a_device_is_evaluated() -> None:
    broken = claim("c", exactly(1, "1 +"))
    taken = allocated(claim("other"), {"device": "a"})
    assert DeviceHarness(CLASS, slice_of("a"), taken).allocate(broken) == NO_FIT
    message = DeviceHarness(CLASS, slice_of("a")).allocate(broken)
    assert isinstance(message, str)
    assert message.startswith("claim default/c: selector #0: CEL compile error: ")


def test_an_exponential_search_times_out() -> None:
    # Every pair differs, so only all combinations prove that there is no solution.
    devices = [device(f"d{n:02}", attributes={"x": n // 3, "y": n}) for n in range(60)]
    asked = claim("c", exactly(20), constraints=[{"matchAttribute": f"{DRIVER}/x"}])
    built = DeviceHarness(CLASS, slice_of(*devices))
    assert built.allocate(asked) == NO_FIT


def test_a_released_device_is_found_again() -> None:
    # Only the search checks counters, and it caches exhausted pools.
    holder = allocated(claim("other"), {"device": "a"})
    devices = DeviceHarness(
        CLASS, *partitioned(partition("a", "8Gi"), partition("b", "8Gi")), holder
    )
    assert devices.allocate(claim("c", exactly())) == NO_FIT
    assert devices.allocate(claim("d", exactly())) == NO_FIT
    devices.handle.objects.remove(ResourceClaim, "other", "default")
    assert devices.allocate(claim("e", exactly())) == [["r0:p/a"]]


LISTED = device("a", attributes={"ports": {"ints": [1, 2]}})


def test_list_attributes_need_their_gate() -> None:
    asked = claim("c", exactly(1, f'device.attributes["{DRIVER}"].ports.exists(p, p == 2)'))
    gate = {"DRAListTypeAttributes": True}
    assert DeviceHarness(CLASS, slice_of(LISTED), gates=gate).allocate(asked) == [["r0:p/a"]]
    message = DeviceHarness(CLASS, slice_of(LISTED)).allocate(claim("c", exactly()))
    assert message == (
        "class k: selector #0: CEL runtime error: attribute ports: unsupported attribute value"
    )


def test_taint_rules_need_their_gate() -> None:
    rule = from_builtins(
        {
            "metadata": {"name": "rule"},
            "spec": {
                "deviceSelector": {"driver": DRIVER, "device": "a"},
                "taint": {"key": "x", "effect": "NoSchedule"},
            },
        },
        DeviceTaintRule,
    )
    gate = {"DRADeviceTaintRules": True}
    assert DeviceHarness(CLASS, slice_of("a", "b"), rule).allocate(claim("c", exactly())) == [
        ["r0:p/a"]
    ]
    devices = DeviceHarness(CLASS, slice_of("a", "b"), rule, gates=gate)
    assert devices.allocate(claim("c", exactly())) == [["r0:p/b"]]
    devices.handle.objects.remove(DeviceTaintRule, "rule")
    assert devices.allocate(claim("d", exactly())) == [["r0:p/a"]]
