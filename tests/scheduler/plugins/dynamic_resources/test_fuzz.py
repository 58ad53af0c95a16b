"""Malformed slices, classes and claims.

Whatever their content is, the pod gets a result, and pods with other claims are not affected.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import ResourceClaim, ResourceSlice
from kubesched.testing import make_node
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    DRIVER,
    DeviceHarness,
    Json,
    claim,
    device,
    device_class,
    exactly,
    pod_with,
    slice_of,
)

CLASS = device_class("k", f'device.driver == "{DRIVER}"')

QUANTITIES = ("1", "0", "-5", "8Gi", "", "1e400", "many", "9" * 400, "0.0000000001", "1Ki")
EXPRESSIONS = (
    "true",
    "false",
    "",
    "device",
    "1 + ",
    'device.attributes["x"].y',
    'device.capacity["d"].m > 3',
    "[1, 2, 3].all(x, [1, 2, 3].all(y, x < y || true))",
    '"a".matches("(")',
    "device.driver == device.driver",
    '"' + "x" * 3000 + '" == device.driver',
)
NAMES = ("a", "b", "", "a/b", "é", "n" * 300)
COUNTS = (-1, 0, 1, 2, 33, 10**12)


class Fuzz:
    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)

    def _one(self, options: Any) -> Any:
        return self._rng.choice(options)

    def _device(self) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "attributes": {self._one(NAMES): self._one(({"int": 1}, {"version": "x"}, {}))},
            "capacity": {self._one(NAMES): self._capacity()},
            "allowMultipleAllocations": self._one((True, False, None)),
        }
        if self._rng.random() < 0.4:
            counters = {self._one(NAMES): {"value": self._one(QUANTITIES)}}
            fields["consumesCounters"] = [{"counterSet": self._one(NAMES), "counters": counters}]
        if self._rng.random() < 0.3:
            fields["taints"] = [{"effect": self._one(("NoSchedule", "Odd", ""))}]
        if self._rng.random() < 0.3:
            fields |= self._place()
        return device(self._one(NAMES), **fields)

    def _capacity(self) -> Json:
        policy = {
            "default": self._one((*QUANTITIES, None)),
            "validValues": [self._one(QUANTITIES)] * self._rng.randint(0, 2),
            "validRange": self._one(
                (None, {"min": self._one(QUANTITIES), "step": self._one(QUANTITIES)})
            ),
        }
        kept = {key: value for key, value in policy.items() if value is not None}
        return {"value": self._one(QUANTITIES), "requestPolicy": kept}

    def _place(self) -> dict[str, Any]:
        requirement = {
            "key": self._one(NAMES),
            "operator": self._one(("In", "Gt", "Odd")),
            "values": [self._one(NAMES)],
        }
        terms = [{"matchExpressions": [requirement]}] * self._rng.randint(0, 2)
        return self._one(
            ({"nodeName": "n"}, {"allNodes": True}, {"nodeSelector": {"nodeSelectorTerms": terms}})
        )

    def slice(self, number: int) -> ResourceSlice:
        spec = self._place() if self._rng.random() < 0.8 else {}
        if self._rng.random() < 0.3:
            counters = {self._one(NAMES): {"value": self._one(QUANTITIES)}}
            sets = [{"name": self._one(NAMES), "counters": counters}]
            spec["sharedCounters"] = sets * self._rng.randint(1, 2)
        if self._rng.random() < 0.3:
            spec["perDeviceNodeSelection"] = True
        return slice_of(
            *(self._device() for _ in range(self._rng.randint(0, 4))),
            name=f"s{number}",
            pool=self._one(NAMES),
            node=None,
            generation=self._one((0, 1, 2)),
            count=self._one((-1, 0, 1, 2)),
            **spec,
        )

    def _exactly(self) -> dict[str, Any]:
        asked = exactly(self._one(COUNTS), self._one(EXPRESSIONS))
        asked["allocationMode"] = self._one(("ExactCount", "All", "", "Odd"))
        if self._rng.random() < 0.2:
            asked["selectors"] = [{}]
        if self._rng.random() < 0.4:
            asked["capacity"] = {"requests": {self._one(NAMES): self._one(QUANTITIES)}}
        if self._rng.random() < 0.2:
            asked["adminAccess"] = True
        return asked

    def claim(self) -> ResourceClaim:
        requests: list[Any] = [
            self._one((self._exactly(), [self._exactly(), self._exactly()]))
            for _ in range(self._rng.randint(0, 3))
        ]
        constraints = [
            self._one(({"matchAttribute": self._one(NAMES)}, {"distinctAttribute": "a"}, {}))
            for _ in range(self._rng.randint(0, 1))
        ]
        return claim("c", *requests, constraints=constraints)


@settings(max_examples=150, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_malformed_objects_affect_only_their_own_pod(seed: int) -> None:
    fuzz = Fuzz(seed)
    odd = device_class("odd", fuzz._one(EXPRESSIONS))
    slices = [fuzz.slice(number) for number in range(4)]
    good = slice_of("good", pool="good", node="m", driver="good.example.com")
    other = device_class("good", 'device.driver == "good.example.com"')
    devices = DeviceHarness(
        CLASS,
        odd,
        other,
        make_node("n"),
        make_node("m"),
        *slices,
        good,
        fuzz.claim(),
        claim("fine"),
        claim("d", exactly(deviceClassName="good")),
    )
    devices.filter(pod_with("c"))  # any result is allowed
    assert devices.filter(pod_with("fine"), "m").is_success
    status = devices.filter(pod_with("d"), "m")
    # A device for all nodes with invalid attributes fails every selector, as in the reference.
    assert (
        status.is_success
        or ": parse semantic version: " in status.message
        or (status.message.endswith(": unsupported attribute value"))
    )
