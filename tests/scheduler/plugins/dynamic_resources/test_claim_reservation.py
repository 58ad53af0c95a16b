"""The effects of Reserve, PreBind and Unreserve.

The cases are those of docs/reference/08 §12, rows 6 to 16 and 32.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ApiError, Pod, ResourceClaim, ResourceClaimConsumerReference
from kubesched.api.meta import Status as ApiStatus
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import SKIP, SUCCESS, CycleState, Status
from kubesched.framework.causes import DeviceClaimUnusable
from kubesched.scheduler.config.args import DynamicResourcesArgs
from kubesched.scheduler.plugins.dynamic_resources.claim_writing import FINALIZER
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    DRIVER,
    DeviceHarness,
    allocated,
    claim,
    device,
    device_class,
    exactly,
    pod_with,
    slice_of,
)

CLASS = device_class("k", f'device.driver == "{DRIVER}"')
NAME = "default/c"


def api_error(code: int, reason: str, message: str) -> ApiError:
    return ApiError(ApiStatus(status="Failure", code=code, reason=reason, message=message))


def users(of: ResourceClaim) -> list[str]:
    return [each.name for each in of.status.reserved_for]


class ReservationHarness(DeviceHarness):
    """A pod with claim c that Reserve has placed on node n."""

    def __init__(self, *objects: Any, pod: Pod | None = None, **options: Any) -> None:
        super().__init__(CLASS, *objects, **options)
        self.pod = pod or pod_with("c")

    @property
    def in_flight(self) -> int:
        return len(self.plugin.devices.in_flight)

    @property
    def stored(self) -> ResourceClaim:
        found = self.handle.objects.get(ResourceClaim, "c", "default")
        assert found is not None
        return found

    @property
    def writes(self) -> list[str]:
        return [f"{call.verb} {call.kind}" for call in self.handle.fake_api.calls]

    def choose(self) -> None:
        assert self.filter(self.pod) == SUCCESS
        assert self.plugin.reserve(self.state, self.pod, "n") == SUCCESS

    async def pre_bind(self) -> Status:
        return await self.plugin.pre_bind(self.state, self.pod, "n")

    async def unreserve(self) -> None:
        self.plugin.unreserve(self.state, self.pod, "n")
        await self.handle.finish_work()


def test_a_free_device_is_allocated_and_reserved() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()))
        harness.choose()
        assert harness.in_flight == 1
        assert harness.writes == []
        assert await harness.pre_bind() == SUCCESS
        assert harness.writes == ["update ResourceClaim", "update ResourceClaim"]
        stored = harness.stored
        assert stored.metadata.finalizers == (FINALIZER,)
        assert users(stored) == ["pod"]
        assert stored.status.allocation is not None
        (result,) = stored.status.allocation.devices.results
        assert (result.pool, result.device) == ("p", "a")
        assert stored.status.allocation.allocation_timestamp
        selector = stored.status.allocation.node_selector
        assert selector is not None
        (field,) = selector.node_selector_terms[0].match_fields
        assert (field.key, field.operator, field.values) == ("metadata.name", "In", ("n",))
        assert harness.in_flight == 0
        assert harness.plugin.devices.claims.get("c", "default") == stored

    run(case())


def test_a_claim_with_devices_is_only_reserved() -> None:
    async def case() -> None:
        given = allocated(claim("c", exactly()), {"device": "a"}, node="n")
        harness = ReservationHarness(slice_of("a"), given)
        harness.choose()
        assert await harness.pre_bind() == SUCCESS
        assert harness.writes == ["update ResourceClaim"]
        assert users(harness.stored) == ["pod"]
        assert harness.stored.metadata.finalizers == ()

    run(case())


def test_a_claim_that_is_reserved_for_the_pod_is_not_written() -> None:
    async def case() -> None:
        pod = pod_with("c")
        user = {"resource": "pods", "name": "pod", "uid": pod.metadata.uid}
        given = allocated(claim("c", exactly()), {"device": "a"}, reservedFor=[user])
        harness = ReservationHarness(slice_of("a"), given, pod=pod)
        harness.choose()
        assert await harness.pre_bind() == SUCCESS
        assert harness.writes == []

    run(case())


def test_a_conflict_is_retried_with_the_latest_claim() -> None:
    async def case() -> None:
        given = claim("c", exactly())
        given = replace(given, metadata=replace(given.metadata, resource_version="1"))
        harness = ReservationHarness(slice_of("a"), given)
        harness.handle.clock = current_clock()
        harness.choose()
        changed = replace(
            harness.stored,
            metadata=replace(harness.stored.metadata, labels={"x": "y"}, resource_version="77"),
        )
        # Only on the server: the watch has not delivered it.
        harness.handle.objects.listeners.clear()
        harness.handle.objects.put(changed)
        assert await harness.pre_bind() == SUCCESS
        assert harness.stored.metadata.labels == {"x": "y"}
        assert users(harness.stored) == ["pod"]

    run(case())


IN_THE_MEANTIME = {
    "allocated": (
        False,
        lambda c: allocated(c, {"device": "b"}),
        f"claim {NAME} got allocated elsewhere in the meantime",
    ),
    "deallocated": (
        True,
        lambda c: replace(c, status=replace(c.status, allocation=None)),
        f"claim {NAME} got deallocated elsewhere in the meantime",
    ),
    "allocated anew": (
        True,
        lambda c: allocated(c, {"device": "b"}),
        f"claim {NAME} got allocated elsewhere in the meantime",
    ),
    "deleted": (
        False,
        lambda c: replace(
            c, metadata=replace(c.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
        ),
        f"claim {NAME} got deleted in the meantime",
    ),
}


@pytest.mark.parametrize("case", IN_THE_MEANTIME.values(), ids=IN_THE_MEANTIME)
def test_concurrent_changes_of_the_claim(case: tuple[bool, Any, str]) -> None:
    was_allocated, change, want = case

    async def scenario() -> None:
        given = claim("c", exactly())
        if was_allocated:
            given = allocated(given, {"device": "a"})
        harness = ReservationHarness(slice_of("a", "b"), given)
        harness.choose()
        harness.handle.objects.put(change(harness.stored))
        status = await harness.pre_bind()
        assert status.message == want
        await harness.unreserve()
        assert harness.in_flight == 0

    run(scenario())


def test_unreserve_before_pre_bind_writes_nothing() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()), claim("d", exactly()))
        harness.choose()
        other = pod_with("d", name="other")
        assert harness.handle.fake_api.calls == []
        state, harness.state = harness.state, CycleState()
        assert harness.filter(other).message == "cannot allocate all claims"
        harness.state = state
        await harness.unreserve()
        assert harness.in_flight == 0
        assert harness.writes == []
        assert harness.filter(other) == SUCCESS

    run(case())


def test_unreserve_after_pre_bind_removes_only_the_reservation() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()))
        harness.choose()
        assert await harness.pre_bind() == SUCCESS
        await harness.unreserve()
        assert harness.writes[-1] == "patch ResourceClaim"
        assert users(harness.stored) == []
        assert harness.stored.status.allocation is not None

    run(case())


def test_pre_bind_waits_for_the_release_of_an_earlier_attempt() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()))
        harness.choose()
        assert await harness.pre_bind() == SUCCESS
        harness.plugin.unreserve(harness.state, harness.pod, "n")
        # The next attempt reads the reservation that is about to be removed.
        harness.choose()
        assert await harness.pre_bind() == SUCCESS
        await harness.handle.finish_work()
        assert users(harness.stored) == ["pod"]

    run(case())


def test_a_reservation_released_before_pre_bind_is_written_again() -> None:
    """Seed 1289: PreBind of the next attempt began late, and relied on a stale claim."""

    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()))
        harness.choose()
        assert await harness.pre_bind() == SUCCESS
        harness.plugin.unreserve(harness.state, harness.pod, "n")
        harness.choose()
        await harness.handle.finish_work()
        assert users(harness.stored) == []
        assert await harness.pre_bind() == SUCCESS
        assert users(harness.stored) == ["pod"]

    run(case())


def test_a_reservation_whose_release_got_no_response_is_written_again() -> None:
    """Seed 3229: the server had removed it, and the watch was behind."""

    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()))
        harness.choose()
        assert await harness.pre_bind() == SUCCESS
        api = harness.handle.fake_api
        held, get = harness.stored, api.get
        version = str(int(held.metadata.resource_version) + 1)
        released = replace(
            held,
            metadata=replace(held.metadata, resource_version=version),
            status=replace(held.status, reserved_for=()),
        )

        async def get_current(kind: type[Any], name: str, namespace: str | None = None) -> Any:
            return released if kind is ResourceClaim else await get(kind, name, namespace)

        api.get = get_current
        api.failures["patch"] = api_error(0, "", "connection reset")
        await harness.unreserve()
        api.failures.clear()
        before = len(harness.writes)
        harness.choose()
        await harness.pre_bind()
        assert "update ResourceClaim" in harness.writes[before:]

    run(case())


def test_a_late_write_is_not_mistaken_for_that_of_this_attempt() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of("a", "b"), claim("c", exactly()))
        harness.choose()
        user = {"resource": "pods", "name": "pod", "uid": harness.pod.metadata.uid}
        harness.handle.objects.put(allocated(harness.stored, {"device": "b"}, reservedFor=[user]))
        status = await harness.pre_bind()
        assert status.message == f"claim {NAME} got allocated elsewhere in the meantime"
        await harness.unreserve()
        assert harness.in_flight == 0

    run(case())


def test_a_claim_in_flight_is_not_available_to_other_pods() -> None:
    harness = ReservationHarness(slice_of("a"), claim("c", exactly()))
    harness.choose()
    assert harness.pre_filter(pod_with("c", name="other")) == Status.unresolvable(
        f"resource claim {NAME} is in the process of being allocated",
        causes=(DeviceClaimUnusable(),),
    )


def test_a_failed_write_frees_the_device() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()))
        harness.choose()
        harness.handle.fake_api.failures["update"] = api_error(403, "Forbidden", "no")
        status = await harness.pre_bind()
        assert status.message == f"add finalizer to claim {NAME}: no"
        assert harness.in_flight == 0

    run(case())


def test_a_device_is_blocked_while_the_outcome_of_its_write_is_unknown() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()), claim("d", exactly()))
        harness.handle.clock = current_clock()
        harness.choose()
        harness.handle.fake_api.failures["update"] = api_error(0, "", "connection reset")
        harness.handle.fake_api.failures["get"] = api_error(0, "", "connection refused")
        assert not (await harness.pre_bind()).is_success
        harness.plugin.unreserve(harness.state, harness.pod, "n")
        other = pod_with("d", name="other")
        await current_clock().sleep(5 * SECOND)
        assert harness.filter(other).message == "cannot allocate all claims"
        harness.handle.fake_api.failures.clear()
        await harness.handle.finish_work()
        assert harness.in_flight == 0
        assert harness.filter(other) == SUCCESS

    run(case())


def test_a_pod_without_claims_skips_pre_bind() -> None:
    harness = ReservationHarness(pod=pod_with())
    assert harness.pre_filter(harness.pod) == SKIP
    assert harness.plugin.pre_bind_pre_flight(harness.state, harness.pod, "n") == SKIP
    assert harness.plugin.reserve(harness.state, harness.pod, "n") == SUCCESS


CONDITIONED = device("a", bindingConditions=["ready"], bindingFailureConditions=["broken"])


def reported(*conditions: dict[str, str]) -> dict[str, Any]:
    entry = {"driver": DRIVER, "pool": "p", "device": "a", "conditions": list(conditions)}
    return {"devices": [entry]}


def with_status(of: ResourceClaim, status: dict[str, Any]) -> ResourceClaim:
    version = str(int(of.metadata.resource_version or "1000") + 1)
    told = allocated(of, {"device": "a"}, **status).status.devices
    return replace(
        of,
        metadata=replace(of.metadata, resource_version=version),
        status=replace(of.status, devices=told),
    )


def test_the_pod_waits_until_its_device_is_ready() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of(CONDITIONED), claim("c", exactly()))
        clock = harness.handle.clock = current_clock()
        harness.choose()

        async def driver() -> None:
            await clock.sleep(12 * SECOND)
            ready = reported({"type": "ready", "status": "True"})
            harness.handle.objects.put(with_status(harness.stored, ready))

        harness.handle.spawn(driver(), "driver")
        started_ns = clock.monotonic_ns()
        assert await harness.pre_bind() == SUCCESS
        assert clock.monotonic_ns() - started_ns == 15 * SECOND
        (event,) = harness.handle.recorder.events
        assert event.reason == "BindingConditionsPending"
        assert event.note == "waiting for binding conditions for device on node n"

    run(case())


def test_a_device_that_reports_a_failure_ends_the_wait() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of(CONDITIONED), claim("c", exactly()))
        clock = harness.handle.clock = current_clock()
        harness.choose()

        async def driver() -> None:
            await clock.sleep(SECOND)
            broken = {"type": "broken", "status": "True", "reason": "Smoke", "message": "hot"}
            harness.handle.objects.put(with_status(harness.stored, reported(broken)))

        harness.handle.spawn(driver(), "driver")
        status = await harness.pre_bind()
        assert status.message == 'device binding failed: claim=c, reason=Smoke, message="hot"'

    run(case())


def test_waiting_for_an_unready_device_times_out() -> None:
    async def case() -> None:
        args = DynamicResourcesArgs(binding_timeout_ns=60 * SECOND)
        harness = ReservationHarness(slice_of(CONDITIONED), claim("c", exactly()), args=args)
        clock = harness.handle.clock = current_clock()
        harness.choose()
        started_ns = clock.monotonic_ns()
        status = await harness.pre_bind()
        assert status.message.startswith("device binding timeout: ")
        assert clock.monotonic_ns() - started_ns == 60 * SECOND

    run(case())


def test_shared_claims_list_all_their_users() -> None:
    async def case() -> None:
        harness = ReservationHarness(slice_of("a"), claim("c", exactly()))
        harness.choose()
        assert await harness.pre_bind() == SUCCESS
        second = ReservationHarness.__new__(ReservationHarness)
        second.__dict__ = dict(harness.__dict__)
        second.pod = pod_with("c", name="second")
        second.choose()
        assert await second.pre_bind() == SUCCESS
        assert users(harness.stored) == ["pod", "second"]
        assert isinstance(harness.stored.status.reserved_for[0], ResourceClaimConsumerReference)

    run(case())
