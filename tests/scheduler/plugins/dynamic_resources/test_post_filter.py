"""Deallocation of claims that prevent their own pod from fitting.

The cases are those of docs/reference/08 §12, rows 20, 21, 24, 31 and 36.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kubesched.api import ApiError, ResourceClaim
from kubesched.api.meta import Status as ApiStatus
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import Diagnosis, PodInfo
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    DRIVER,
    DeviceHarness,
    allocated,
    claim,
    device_class,
    exactly,
    pod_with,
    slice_of,
)

CLASS = device_class("k", f'device.driver == "{DRIVER}"')
POD = pod_with("c")
ITSELF = {"resource": "pods", "name": "pod", "uid": POD.metadata.uid}
OTHER_POD = {"resource": "pods", "name": "other", "uid": "uid-other"}
UNAVAILABLE = "resourceclaim not available on the node"
LONG_AGO = "2020-01-01T00:00:00Z"
FAR_AHEAD = "2099-01-01T00:00:00Z"
TIMED_OUT = ApiError(ApiStatus(status="Failure", message="timed out"))


def reported(kind: str) -> list[dict[str, Any]]:
    conditions = [{"type": kind, "status": "True"}]
    return [{"driver": DRIVER, "pool": "p", "device": "a", "conditions": conditions}]


CONDITIONED = {
    "device": "a",
    "bindingConditions": ["ready"],
    "bindingFailureConditions": ["broken"],
}


class Case(NamedTuple):
    given: ResourceClaim
    filtered: str
    said: str
    deallocated: bool


def elsewhere(*users: dict[str, str]) -> ResourceClaim:
    return allocated(claim("c", exactly()), {"device": "a"}, node="other", reservedFor=list(users))


CASES = {
    "on another node, without a user": Case(
        elsewhere(), UNAVAILABLE, "deallocation of ResourceClaim completed", True
    ),
    "on another node, for this pod alone": Case(
        elsewhere(ITSELF), UNAVAILABLE, "deallocation of ResourceClaim completed", True
    ),
    "on another node, for another pod": Case(
        elsewhere(OTHER_POD), UNAVAILABLE, "still not schedulable", False
    ),
    "on another node, for two": Case(
        elsewhere(ITSELF, OTHER_POD), UNAVAILABLE, "still not schedulable", False
    ),
    "a device failed": Case(
        allocated(claim("c", exactly()), CONDITIONED, devices=reported("broken")),
        UNAVAILABLE,
        "deallocation of ResourceClaim completed",
        True,
    ),
    "a device was not ready in time": Case(
        allocated(claim("c", exactly()), CONDITIONED, timestamp=LONG_AGO),
        UNAVAILABLE,
        "deallocation of ResourceClaim completed",
        True,
    ),
    "a device has time left": Case(
        allocated(claim("c", exactly()), CONDITIONED, timestamp=FAR_AHEAD),
        "",
        "still not schedulable",
        False,
    ),
    "a device is ready": Case(
        allocated(
            claim("c", exactly()), CONDITIONED, timestamp=LONG_AGO, devices=reported("ready")
        ),
        "",
        "still not schedulable",
        False,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_unusable_claims(case: Case) -> None:
    async def scenario() -> None:
        devices = DeviceHarness(CLASS, slice_of("a"), case.given)
        assert devices.filter(POD).message == case.filtered
        result = devices.plugin.post_filter(devices.state, PodInfo(POD), Diagnosis())
        assert result.status.message == case.said
        assert result.nominating is None
        await devices.handle.finish_work()
        stored = devices.handle.objects.get(ResourceClaim, "c", "default")
        assert stored is not None
        assert (stored.status.allocation is None) == case.deallocated
        if case.deallocated:
            assert stored.status == ResourceClaim().status

    run(scenario())


def test_missing_devices_of_one_claim_do_not_deallocate_another() -> None:
    async def scenario() -> None:
        devices = DeviceHarness(CLASS, slice_of(), elsewhere(), claim("d", exactly()))
        pod = pod_with("c", "d")
        assert devices.filter(pod).message == "cannot allocate all claims"
        result = devices.plugin.post_filter(devices.state, PodInfo(pod), Diagnosis())
        assert result.status.message == "still not schedulable"
        await devices.handle.finish_work()
        assert devices.handle.fake_api.calls == []

    run(scenario())


def test_a_deallocated_device_can_be_allocated_again() -> None:
    async def scenario() -> None:
        devices = DeviceHarness(CLASS, slice_of("a"), elsewhere())
        assert devices.filter(POD).message == UNAVAILABLE
        devices.plugin.post_filter(devices.state, PodInfo(POD), Diagnosis())
        await devices.handle.finish_work()
        assert devices.filter(POD).is_success

    run(scenario())


def test_pods_are_requeued_if_the_deallocation_fails() -> None:
    """Seed 375026845169: no event would have requeued them."""

    async def scenario() -> None:
        devices = DeviceHarness(CLASS, slice_of("a"), elsewhere())
        devices.handle.fake_api.failures["update"] = TIMED_OUT
        for pod in (POD, pod_with("c", name="another")):
            assert devices.filter(pod).message == UNAVAILABLE
            devices.plugin.post_filter(devices.state, PodInfo(pod), Diagnosis())
        await devices.handle.finish_work()
        assert sorted(devices.handle.activated) == ["default/another", "default/pod"]

    run(scenario())


def test_pods_whose_claim_was_deallocated_wait_for_the_event() -> None:
    async def scenario() -> None:
        devices = DeviceHarness(CLASS, slice_of("a"), elsewhere())
        assert devices.filter(POD).message == UNAVAILABLE
        devices.plugin.post_filter(devices.state, PodInfo(POD), Diagnosis())
        await devices.handle.finish_work()
        assert not devices.handle.activated

    run(scenario())
