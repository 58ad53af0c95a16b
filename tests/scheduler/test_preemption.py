"""Preemption from end to end, on virtual time: embedded API server, scheduler, kubelets."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ObjectMeta, Pod, PriorityClass
from kubesched.api import Status as ApiStatus
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.components import running
from kubesched.framework import SKIP, SUCCESS, CycleState, Plugin, Status, Wait
from kubesched.testing import make_node, make_pod
from tests.scheduler.test_scheduler import Cluster, run

CLASSES = {"low": 0, "mid": 50, "high": 100}


class PreemptionCluster(Cluster):
    """A cluster with priority classes, and kubelets that take some time to terminate pods."""

    async def start(self) -> None:
        for name, value in CLASSES.items():
            await self.api.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))

    async def put(self, name: str, cpu: str, priority: str, **wishes: Any) -> None:
        pod = make_pod(name, images=["registry.example/app:v1"], requests={"cpu": cpu}, **wishes)
        document = await self.api.create(_with_class(pod, priority))
        assert document.spec.priority == CLASSES[priority]

    async def names(self) -> set[str]:
        """Pods that are there and not on their way out."""
        listed = await self.api.list(Pod)
        return {
            pod.metadata.name for pod in listed.items if pod.metadata.deletion_timestamp is None
        }

    async def nominated(self, name: str) -> str:
        return (await self.pod(name)).status.nominated_node_name

    def slow_down(self, seconds: float, *verbs: str) -> None:
        """From now on these requests of the scheduler take so long."""
        self.faults.next.update(
            {verb: [Fault(delay_ns=int(seconds * SECOND))] * 1000 for verb in verbs}
        )

    def fail(self, verb: str, times: int, code: int = 500, reason: str = "InternalError") -> None:
        error = ApiError(ApiStatus(code=code, reason=reason, message=f"injected {reason}"))
        self.faults.next[verb] = [Fault(error=error)] * times


def _with_class(pod: Pod, priority: str) -> Pod:
    return replace(
        pod,
        metadata=replace(pod.metadata, resource_version="", uid=""),
        spec=replace(pod.spec, priority_class_name=priority),
    )


@contextlib.asynccontextmanager
async def harness(*plugins: type[Plugin]) -> AsyncIterator[PreemptionCluster]:
    made = PreemptionCluster(*plugins)
    await made.start()
    kubelet = FakeKubelet(made.api, made.clock, stop_delay_ns=3600 * SECOND)
    async with running(kubelet, made.scheduler):
        yield made


async def fill(
    made: PreemptionCluster, *names: str, node: str = "n", cpu: str = "1", grace: int = 0
) -> None:
    """Put a node of 4 CPUs there, and low-priority pods on it."""
    await made.add(make_node(node, cpu="4"))
    for name in names:
        await made.put(name, cpu, "low", termination_grace_period_seconds=grace)
    await made.settle(2)
    assert {await made.node_of(name) for name in names} == {node}


# -- the plain way ---------------------------------------------------------------------


def test_a_preemptor_gets_its_place_when_the_victims_have_ended() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d", grace=30)
            await made.put("urgent", "2", "high")
            await made.settle(2)
            assert await made.nominated("urgent") == "n"
            assert await made.condition("urgent") == (
                "False",
                "Unschedulable",
                "0/1 nodes are available: 1 Insufficient cpu.",
            )
            going = {"a", "b", "c", "d"} - await made.names()
            assert len(going) == 2
            for name in going:
                pod = await made.pod(name)
                (mark,) = [c for c in pod.status.conditions if c.type == "DisruptionTarget"]
                assert (mark.status, mark.reason) == ("True", "PreemptionByScheduler")
                assert mark.message == (
                    "default-scheduler: preempting to accommodate a higher priority pod"
                )
                uid = (await made.pod("urgent")).metadata.uid
                note = ("Normal", "Preempted", f"Preempted by pod {uid} on node n")
                assert note in await made.notes(name)
            await made.settle(20)
            # It waits for those victims and evicts no other pod.
            assert not await made.node_of("urgent")
            assert {"a", "b", "c", "d"} - await made.names() == going
            await made.settle(30)
            assert await made.node_of("urgent") == "n"
            assert await made.nominated("urgent") == ""
            metrics = made.scheduler.services.metrics
            assert metrics.preemption_victims.count == 1
            assert metrics.preemption_victims.sum == 2

    run(scenario)


def test_the_freed_room_is_reserved_against_pods_of_lower_priority() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d", grace=10)
            for number in range(5):
                await made.put(f"waiting-{number}", "1", "low")
            await made.put("urgent", "3", "high")
            await made.settle(60)
            assert await made.node_of("urgent") == "n"
            assert {await made.node_of(f"waiting-{number}") for number in range(5)} == {""}

    run(scenario)


def test_room_that_nominated_pods_do_not_need_is_available_to_all_pods() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "big", cpu="4", grace=10)
            await made.put("urgent", "1", "high")
            await made.settle(2)
            await made.put("small", "3", "low")
            await made.put("too-much", "1", "low")
            await made.settle(60)
            assert await made.node_of("urgent") == "n"
            # Which of the two comes first depends on their backoff.
            assert sorted([await made.node_of("small"), await made.node_of("too-much")]) in (
                ["", "n"],
                ["n", "n"],
            )

    run(scenario)


def test_two_preemptors_on_one_node_do_not_share_victims() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d", grace=10)
            await made.put("first", "2", "high")
            await made.put("second", "2", "high")
            await made.settle(2)
            assert {await made.nominated("first"), await made.nominated("second")} == {"n"}
            assert await made.names() & {"a", "b", "c", "d"} == set()
            await made.settle(60)
            assert {await made.node_of("first"), await made.node_of("second")} == {"n"}

    run(scenario)


def test_a_second_preemptor_that_no_victim_is_left_for_waits() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d", grace=10)
            await made.put("first", "4", "high")
            await made.put("second", "4", "high")
            await made.settle(60)
            placed = {await made.node_of("first"), await made.node_of("second")}
            assert placed == {"n", ""}
            waiting = "second" if await made.node_of("first") else "first"
            condition = await made.condition(waiting)
            assert condition is not None
            assert condition[2] == (
                "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
                "preemption: 0/1 nodes are available: "
                "1 No preemption victims found for incoming pod."
            )

    run(scenario)


def test_a_more_important_preemptor_takes_the_node_from_a_nominated_one() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d", grace=20)
            await made.put("middling", "4", "mid")
            await made.settle(2)
            assert await made.nominated("middling") == "n"
            await made.put("urgent", "4", "high")
            await made.settle(2)
            # All victims are going already, so nothing is left to evict or to clear.
            assert await made.nominated("urgent") == "n"
            await made.settle(60)
            assert await made.node_of("urgent") == "n"
            assert not await made.node_of("middling")

    run(scenario)


def test_a_nomination_of_lower_priority_is_cleared() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d", grace=20)
            await made.put("middling", "2", "mid")
            await made.settle(2)
            assert await made.nominated("middling") == "n"
            await made.put("urgent", "4", "high")
            await made.settle(2)
            assert await made.nominated("urgent") == "n"
            assert await made.nominated("middling") == ""
            await made.settle(60)
            assert await made.node_of("urgent") == "n"
            assert not await made.node_of("middling")

    run(scenario)


# -- no pod is evicted without need ----------------------------------------------------


def test_if_the_preemptor_is_deleted_further_victims_stay() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d")
            made.slow_down(5, "delete Pod")
            await made.put("urgent", "4", "high")
            await made.settle(2)
            await made.api.delete(Pod, "urgent", "default")
            await made.settle(30)
            # The deletions of all but the last were on their way.
            assert len(await made.names()) == 1

    run(scenario)


def test_if_the_preemptor_is_deleted_before_an_eviction_all_pods_stay() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d")
            made.slow_down(5, "patch Pod")
            await made.put("urgent", "4", "high")
            await made.settle(2)
            await made.api.delete(Pod, "urgent", "default")
            await made.settle(60)
            assert await made.names() == {"a", "b", "c", "d"}

    run(scenario)


def test_a_preemptor_is_placed_on_a_node_that_becomes_free() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d")
            made.slow_down(5, "delete Pod")
            await made.put("urgent", "4", "high")
            await made.settle(2)
            await made.add(make_node("new", cpu="4"))
            await made.settle(30)
            assert await made.node_of("urgent") == "new"
            assert len(await made.names() - {"urgent"}) == 1

    run(scenario)


def test_if_room_appears_before_an_eviction_all_pods_stay() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d")
            made.slow_down(5, "patch Pod")
            await made.put("urgent", "4", "high")
            await made.settle(2)
            await made.add(make_node("new", cpu="4"))
            await made.settle(60)
            assert await made.node_of("urgent") == "new"
            assert await made.names() == {"a", "b", "c", "d", "urgent"}

    run(scenario)


def test_if_victims_leave_by_themselves_the_rest_stay() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d")
            made.slow_down(5, "patch Pod")
            await made.put("urgent", "2", "high")
            await made.settle(2)
            # Two other pods are deleted while the victims are still being marked.
            await made.api.delete(Pod, "a", "default")
            await made.api.delete(Pod, "b", "default")
            await made.settle(60)
            assert await made.node_of("urgent") == "n"
            assert {"c", "d"} <= await made.names()

    run(scenario)


# -- an API server in trouble ----------------------------------------------------------


@pytest.mark.parametrize("times", [1, 3, 10])
def test_a_deletion_that_fails_is_retried(times: int) -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d")
            made.fail("delete Pod", times)
            await made.put("urgent", "3", "high")
            await made.settle(120)
            assert await made.node_of("urgent") == "n"
            assert len(await made.names() & {"a", "b", "c", "d"}) == 1

    run(scenario)


def test_a_victim_that_may_not_be_marked_is_not_deleted() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d")
            made.fail("patch Pod", 10_000, code=403, reason="Forbidden")
            await made.put("urgent", "3", "high")
            await made.settle(60)
            assert await made.names() == {"a", "b", "c", "d", "urgent"}

    run(scenario)


def test_a_deletion_whose_answer_was_lost_costs_no_further_victim() -> None:
    async def scenario() -> None:
        async with harness() as made:
            await fill(made, "a", "b", "c", "d")
            error = ApiError(ApiStatus(code=0, message="connection reset"))
            made.faults.next["delete Pod"] = [Fault(error=error, answer_lost=True)] * 2
            await made.put("urgent", "2", "high")
            await made.settle(60)
            assert await made.node_of("urgent") == "n"
            assert len(await made.names() & {"a", "b", "c", "d"}) == 2

    run(scenario)


# -- victims that are not bound yet ----------------------------------------------------


class Holds(Plugin):
    """Makes pods of no priority wait at Permit."""

    name = "Holds"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        return SUCCESS if pod.spec.priority else Wait(600 * SECOND)


class Prepares(Plugin):
    """Takes ten minutes to prepare pods of no priority."""

    name = "Prepares"

    def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SKIP if pod.spec.priority else SUCCESS

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        await asyncio.sleep(600)
        return SUCCESS


@pytest.mark.parametrize("plugin", [Holds, Prepares])
def test_a_victim_that_is_not_bound_yet_is_put_back_and_not_deleted(plugin: type[Plugin]) -> None:
    async def scenario() -> None:
        async with harness(plugin) as made:
            await made.add(make_node("n", cpu="4"))
            await made.put("meek", "4", "low")
            await made.settle(2)
            assert made.scheduler.cache.is_assumed(await made.pod("meek"))
            await made.put("urgent", "4", "high")
            await made.settle(30)
            assert await made.node_of("urgent") == "n"
            assert not await made.node_of("meek")
            assert made.faults.count("delete", "Pod") == 0
            uid = (await made.pod("urgent")).metadata.uid
            note = f"Preempted by pod {uid} on node n (in kube-scheduler memory)."
            assert ("Normal", "Preempted", note) in await made.notes("meek")

    run(scenario)
