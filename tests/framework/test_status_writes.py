"""Status writes while the informer's copy is stale, in virtual time.

Each scenario fails if a write is computed from the informer's copy alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from kubesched.api import ObjectMeta, Pod, PodGroup
from kubesched.api.access import ApiError
from kubesched.api.meta import Status as ApiStatus
from kubesched.api.pod import PodCondition
from kubesched.api.scheduling import BasicSchedulingPolicy, PodGroupSchedulingPolicy, PodGroupSpec
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.apiserver.rules.strategies.server_features import ALL_FEATURES
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import SUCCESS, Status
from kubesched.framework.pod_status_writer import POD_SCHEDULED, PodStatusWriter
from kubesched.framework.status_writes import StatusWrites
from kubesched.scheduler.pod_groups.group_condition import PodGroupConditionWriter
from kubesched.testing.fakes.fake_objects import FakeObjects

BUSY = ApiError(ApiStatus(status="Failure", code=503, reason="ServiceUnavailable", message="busy"))
LOST = ApiError(ApiStatus(status="Failure", code=0, message="connection lost"))
SPEC = {"containers": [{"name": "c", "image": "i"}]}


def condition(message: str) -> PodCondition:
    return PodCondition(type=POD_SCHEDULED, status="False", reason="Unschedulable", message=message)


class StatusHarness:
    """A store, writers for it, and a lister that has only what a test gives it."""

    def __init__(self) -> None:
        clock = current_clock()
        store = Store(random.Random(0), now_ns=clock.now_ns(), features=ALL_FEATURES)
        self.api = LocalApi(store, clock)
        self.listed = FakeObjects()
        self.faults: list[Fault | None] = []  # of the next patches
        self.patches = 0
        self.writes = StatusWrites(self.listed.lister)
        writing = LocalApi(store, clock, faults=self._fault)
        self.writer = PodStatusWriter(writing, clock, random.Random(0), self.writes)
        self.groups = PodGroupConditionWriter(writing, clock, random.Random(0), self.writes)

    def _fault(self, verb: str, _kind: str, _namespace: str | None, _name: str) -> Fault | None:
        if verb != "patch":
            return None
        self.patches += 1
        return self.faults.pop(0) if self.faults else None

    async def pod(self) -> Pod:
        """Return the pod as the server has it."""
        return await self.api.get(Pod, "p", "default")

    async def deliver(self) -> Pod:
        """Give the lister the current state of the pod."""
        pod = await self.pod()
        self.listed.put(pod)
        return pod

    async def message(self) -> str:
        return "".join(
            each.message for each in (await self.pod()).status.conditions if each.message
        )


def virtually(steps: Callable[[StatusHarness, Pod], Awaitable[None]]) -> None:
    async def main() -> None:
        harness = StatusHarness()
        await harness.api.create_document(Pod, "default", {"metadata": {"name": "p"}, "spec": SPEC})
        await steps(harness, await harness.deliver())

    run(main)


def test_a_condition_is_written_again_if_the_copy_has_it_and_the_server_does_not() -> None:
    async def steps(harness: StatusHarness, pod: Pod) -> None:
        await harness.writer.write(pod, condition("first"), None)
        stale = await harness.deliver()
        await harness.writer.write(stale, condition("second"), None)
        # The informer has not delivered the second message.
        await harness.writer.write(stale, condition("first"), None)
        assert await harness.message() == "first"

    virtually(steps)


def test_a_nomination_that_is_being_written_can_be_cleared() -> None:
    async def steps(harness: StatusHarness, pod: Pod) -> None:
        harness.faults = [Fault(delay_ns=SECOND)]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(harness.writer.write(pod, None, "n"))
            await asyncio.sleep(0.1)
            tasks.create_task(harness.writer.write(pod, None, ""))
        assert (await harness.pod()).status.nominated_node_name == ""
        assert harness.patches == 2

    virtually(steps)


def test_a_write_that_is_retried_does_not_overtake_a_later_one() -> None:
    async def steps(harness: StatusHarness, pod: Pod) -> None:
        harness.faults = [Fault(error=BUSY)]
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(harness.writer.write(pod, condition("first"), "n0"))
            await asyncio.sleep(0.001)
            tasks.create_task(harness.writer.write(pod, condition("second"), "n1"))
        assert await harness.message() == "second"
        assert (await harness.pod()).status.nominated_node_name == "n1"

    virtually(steps)


def test_a_write_whose_response_was_lost_counts_as_possibly_made() -> None:
    async def steps(harness: StatusHarness, pod: Pod) -> None:
        harness.faults = [Fault(error=LOST, answer_lost=True)] * 4
        with pytest.raises(ApiError, match="connection lost"):
            await harness.writer.write(pod, condition("first"), "n")
        assert (await harness.pod()).status.nominated_node_name == "n"
        await harness.writer.write(pod, None, "")
        assert (await harness.pod()).status.nominated_node_name == ""

    virtually(steps)


def test_a_refused_write_changes_nothing_about_the_next() -> None:
    async def steps(harness: StatusHarness, pod: Pod) -> None:
        refused = ApiError(ApiStatus(status="Failure", code=403, message="no"))
        harness.faults = [Fault(error=refused)]
        with pytest.raises(ApiError, match="no"):
            await harness.writer.write(pod, condition("first"), "n")
        await harness.writer.write(pod, condition("first"), "n")
        assert await harness.message() == "first"

    virtually(steps)


def test_changes_that_the_newest_state_already_has_are_not_written() -> None:
    async def steps(harness: StatusHarness, pod: Pod) -> None:
        for _ in range(3):
            await harness.writer.write(pod, condition("first"), "n")
        assert harness.patches == 1
        # A newer state in the informer counts more than the last own write.
        cleared = {"status": {"nominatedNodeName": None}}
        await harness.api.patch(Pod, "p", "default", cleared, subresource="status")
        await harness.deliver()
        await harness.writer.write(pod, condition("first"), "n")
        assert harness.patches == 2

    virtually(steps)


def test_the_transition_time_is_that_of_the_newest_state() -> None:
    async def steps(harness: StatusHarness, pod: Pod) -> None:
        await harness.writer.write(pod, condition("first"), None)
        (before,) = (await harness.pod()).status.conditions
        await asyncio.sleep(60)
        await harness.writer.write(pod, condition("second"), None)
        (after,) = (await harness.pod()).status.conditions
        assert after.last_transition_time == before.last_transition_time != ""

    virtually(steps)


def test_delivered_writes_are_not_retained() -> None:
    async def steps(harness: StatusHarness, _: Pod) -> None:
        for number in range(100):
            name = f"p{number}"
            await harness.api.create_document(
                Pod, "default", {"metadata": {"name": name}, "spec": SPEC}
            )
            pod = await harness.api.get(Pod, name, "default")
            await harness.writer.write(pod, condition("first"), None)
            if number % 2:
                harness.listed.put(await harness.api.get(Pod, name, "default"))
        # Those in the lister are delivered, and the others are gone.
        assert len(harness.writes) <= 2

    virtually(steps)


@pytest.mark.parametrize("delay_ns", [0, SECOND])
def test_a_group_that_was_scheduled_stays_scheduled(delay_ns: int) -> None:
    """Its later members fail before the informer has delivered the first verdict."""

    async def steps(harness: StatusHarness, _: Pod) -> None:
        policy = PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
        group = await harness.api.create(
            PodGroup(
                metadata=ObjectMeta(name="g", namespace="default"),
                spec=PodGroupSpec(scheduling_policy=policy),
            )
        )
        harness.listed.put(group)
        harness.faults = [Fault(delay_ns=delay_ns)] * 2
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(harness.groups.write(group, SUCCESS))
            await asyncio.sleep(0.001)
            tasks.create_task(harness.groups.write(group, Status.unschedulable("no room")))
        (written,) = (await harness.api.get(PodGroup, "g", "default")).status.conditions
        assert (written.status, written.reason, written.message) == ("True", "Scheduled", "")

    virtually(steps)
