"""What Reserve keeps, PreBind writes and Unreserve gives back.

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
    Devices,
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


class Placing(Devices):
    """A pod with claim c that was given node n."""

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
        placing = Placing(slice_of("a"), claim("c", exactly()))
        placing.choose()
        assert placing.in_flight == 1
        assert placing.writes == []
        assert await placing.pre_bind() == SUCCESS
        assert placing.writes == ["update ResourceClaim", "update ResourceClaim"]
        stored = placing.stored
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
        assert placing.in_flight == 0
        assert placing.plugin.devices.claims.get("c", "default") == stored

    run(case())


def test_a_claim_with_devices_is_only_reserved() -> None:
    async def case() -> None:
        given = allocated(claim("c", exactly()), {"device": "a"}, node="n")
        placing = Placing(slice_of("a"), given)
        placing.choose()
        assert await placing.pre_bind() == SUCCESS
        assert placing.writes == ["update ResourceClaim"]
        assert users(placing.stored) == ["pod"]
        assert placing.stored.metadata.finalizers == ()

    run(case())


def test_a_claim_that_is_reserved_for_the_pod_needs_nothing() -> None:
    async def case() -> None:
        pod = pod_with("c")
        user = {"resource": "pods", "name": "pod", "uid": pod.metadata.uid}
        given = allocated(claim("c", exactly()), {"device": "a"}, reservedFor=[user])
        placing = Placing(slice_of("a"), given, pod=pod)
        placing.choose()
        assert await placing.pre_bind() == SUCCESS
        assert placing.writes == []

    run(case())


def test_a_conflict_is_tried_again_with_the_latest_claim() -> None:
    async def case() -> None:
        given = claim("c", exactly())
        given = replace(given, metadata=replace(given.metadata, resource_version="1"))
        placing = Placing(slice_of("a"), given)
        placing.handle.clock = current_clock()
        placing.choose()
        changed = replace(
            placing.stored,
            metadata=replace(placing.stored.metadata, labels={"x": "y"}, resource_version="77"),
        )
        # Behind the cache's back: the watch has not brought it.
        placing.handle.objects.listeners.clear()
        placing.handle.objects.put(changed)
        assert await placing.pre_bind() == SUCCESS
        assert placing.stored.metadata.labels == {"x": "y"}
        assert users(placing.stored) == ["pod"]

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
def test_what_others_did_in_the_meantime(case: tuple[bool, Any, str]) -> None:
    was_allocated, change, want = case

    async def scenario() -> None:
        given = claim("c", exactly())
        if was_allocated:
            given = allocated(given, {"device": "a"})
        placing = Placing(slice_of("a", "b"), given)
        placing.choose()
        placing.handle.objects.put(change(placing.stored))
        status = await placing.pre_bind()
        assert status.message == want
        await placing.unreserve()
        assert placing.in_flight == 0

    run(scenario())


def test_unreserve_before_pre_bind_writes_nothing() -> None:
    async def case() -> None:
        placing = Placing(slice_of("a"), claim("c", exactly()), claim("d", exactly()))
        placing.choose()
        other = pod_with("d", name="other")
        assert placing.handle.fake_api.calls == []
        state, placing.state = placing.state, CycleState()
        assert placing.filter(other).message == "cannot allocate all claims"
        placing.state = state
        await placing.unreserve()
        assert placing.in_flight == 0
        assert placing.writes == []
        assert placing.filter(other) == SUCCESS

    run(case())


def test_unreserve_after_pre_bind_takes_back_the_reservation_alone() -> None:
    async def case() -> None:
        placing = Placing(slice_of("a"), claim("c", exactly()))
        placing.choose()
        assert await placing.pre_bind() == SUCCESS
        await placing.unreserve()
        assert placing.writes[-1] == "patch ResourceClaim"
        assert users(placing.stored) == []
        assert placing.stored.status.allocation is not None

    run(case())


def test_pre_bind_waits_for_what_an_earlier_attempt_still_gives_back() -> None:
    async def case() -> None:
        placing = Placing(slice_of("a"), claim("c", exactly()))
        placing.choose()
        assert await placing.pre_bind() == SUCCESS
        placing.plugin.unreserve(placing.state, placing.pod, "n")
        # The next attempt finds the reservation that is about to go.
        placing.choose()
        assert await placing.pre_bind() == SUCCESS
        await placing.handle.finish_work()
        assert users(placing.stored) == ["pod"]

    run(case())


def test_a_reservation_that_was_given_back_before_pre_bind_is_written_again() -> None:
    """Seed 1289: PreBind of the next attempt began late, and took what it had read for true."""

    async def case() -> None:
        placing = Placing(slice_of("a"), claim("c", exactly()))
        placing.choose()
        assert await placing.pre_bind() == SUCCESS
        placing.plugin.unreserve(placing.state, placing.pod, "n")
        placing.choose()
        await placing.handle.finish_work()
        assert users(placing.stored) == []
        assert await placing.pre_bind() == SUCCESS
        assert users(placing.stored) == ["pod"]

    run(case())


def test_a_reservation_whose_release_got_no_answer_is_written_again() -> None:
    """Seed 3229: the server had taken it back, and the watch was behind."""

    async def case() -> None:
        placing = Placing(slice_of("a"), claim("c", exactly()))
        placing.choose()
        assert await placing.pre_bind() == SUCCESS
        api = placing.handle.fake_api
        held, get = placing.stored, api.get
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
        await placing.unreserve()
        api.failures.clear()
        before = len(placing.writes)
        placing.choose()
        await placing.pre_bind()
        assert "update ResourceClaim" in placing.writes[before:]

    run(case())


def test_a_write_that_came_late_is_not_taken_for_the_one_of_this_attempt() -> None:
    async def case() -> None:
        placing = Placing(slice_of("a", "b"), claim("c", exactly()))
        placing.choose()
        user = {"resource": "pods", "name": "pod", "uid": placing.pod.metadata.uid}
        placing.handle.objects.put(allocated(placing.stored, {"device": "b"}, reservedFor=[user]))
        status = await placing.pre_bind()
        assert status.message == f"claim {NAME} got allocated elsewhere in the meantime"
        await placing.unreserve()
        assert placing.in_flight == 0

    run(case())


def test_a_claim_in_flight_is_nobody_elses() -> None:
    placing = Placing(slice_of("a"), claim("c", exactly()))
    placing.choose()
    assert placing.pre_filter(pod_with("c", name="other")) == Status.unresolvable(
        f"resource claim {NAME} is in the process of being allocated",
        causes=(DeviceClaimUnusable(),),
    )


def test_a_write_that_failed_gives_the_device_back() -> None:
    async def case() -> None:
        placing = Placing(slice_of("a"), claim("c", exactly()))
        placing.choose()
        placing.handle.fake_api.failures["update"] = api_error(403, "Forbidden", "no")
        status = await placing.pre_bind()
        assert status.message == f"add finalizer to claim {NAME}: no"
        assert placing.in_flight == 0

    run(case())


def test_a_write_whose_outcome_is_unknown_keeps_the_device_until_it_is_known() -> None:
    async def case() -> None:
        placing = Placing(slice_of("a"), claim("c", exactly()), claim("d", exactly()))
        placing.handle.clock = current_clock()
        placing.choose()
        placing.handle.fake_api.failures["update"] = api_error(0, "", "connection reset")
        placing.handle.fake_api.failures["get"] = api_error(0, "", "connection refused")
        assert not (await placing.pre_bind()).is_success
        placing.plugin.unreserve(placing.state, placing.pod, "n")
        other = pod_with("d", name="other")
        await current_clock().sleep(5 * SECOND)
        assert placing.filter(other).message == "cannot allocate all claims"
        placing.handle.fake_api.failures.clear()
        await placing.handle.finish_work()
        assert placing.in_flight == 0
        assert placing.filter(other) == SUCCESS

    run(case())


def test_a_pod_that_needs_nothing_has_no_work_before_binding() -> None:
    placing = Placing(pod=pod_with())
    assert placing.pre_filter(placing.pod) == SKIP
    assert placing.plugin.pre_bind_pre_flight(placing.state, placing.pod, "n") == SKIP
    assert placing.plugin.reserve(placing.state, placing.pod, "n") == SUCCESS


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
        placing = Placing(slice_of(CONDITIONED), claim("c", exactly()))
        clock = placing.handle.clock = current_clock()
        placing.choose()

        async def driver() -> None:
            await clock.sleep(12 * SECOND)
            ready = reported({"type": "ready", "status": "True"})
            placing.handle.objects.put(with_status(placing.stored, ready))

        placing.handle.spawn(driver(), "driver")
        started_ns = clock.monotonic_ns()
        assert await placing.pre_bind() == SUCCESS
        assert clock.monotonic_ns() - started_ns == 15 * SECOND
        (event,) = placing.handle.recorder.events
        assert event.reason == "BindingConditionsPending"
        assert event.note == "waiting for binding conditions for device on node n"

    run(case())


def test_a_device_that_reports_a_failure_ends_the_wait() -> None:
    async def case() -> None:
        placing = Placing(slice_of(CONDITIONED), claim("c", exactly()))
        clock = placing.handle.clock = current_clock()
        placing.choose()

        async def driver() -> None:
            await clock.sleep(SECOND)
            broken = {"type": "broken", "status": "True", "reason": "Smoke", "message": "hot"}
            placing.handle.objects.put(with_status(placing.stored, reported(broken)))

        placing.handle.spawn(driver(), "driver")
        status = await placing.pre_bind()
        assert status.message == 'device binding failed: claim=c, reason=Smoke, message="hot"'

    run(case())


def test_a_device_that_is_never_ready_times_out() -> None:
    async def case() -> None:
        args = DynamicResourcesArgs(binding_timeout_ns=60 * SECOND)
        placing = Placing(slice_of(CONDITIONED), claim("c", exactly()), args=args)
        clock = placing.handle.clock = current_clock()
        placing.choose()
        started_ns = clock.monotonic_ns()
        status = await placing.pre_bind()
        assert status.message.startswith("device binding timeout: ")
        assert clock.monotonic_ns() - started_ns == 60 * SECOND

    run(case())


def test_shared_claims_list_all_their_users() -> None:
    async def case() -> None:
        placing = Placing(slice_of("a"), claim("c", exactly()))
        placing.choose()
        assert await placing.pre_bind() == SUCCESS
        second = Placing.__new__(Placing)
        second.__dict__ = dict(placing.__dict__)
        second.pod = pod_with("c", name="second")
        second.choose()
        assert await second.pre_bind() == SUCCESS
        assert users(placing.stored) == ["pod", "second"]
        assert isinstance(placing.stored.status.reserved_for[0], ResourceClaimConsumerReference)

    run(case())
