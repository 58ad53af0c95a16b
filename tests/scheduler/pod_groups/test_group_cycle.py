"""Groups on virtual time, from their pods to bindings (docs/reference/09 §18.2, §18.3, §18.6)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import (
    Affinity,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodAffinityTerm,
    PodAntiAffinity,
    PodGroup,
    PodSchedulingGate,
    PriorityClass,
)
from kubesched.api import Status as ApiStatus
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.framework import SUCCESS, CycleState, Plugin, Status, Wait
from kubesched.testing import make_node, make_pod
from tests.scheduler.pod_groups.group_harness import (
    BASIC,
    GANGS,
    HELD,
    GroupHarness,
    basic,
    gang,
    group_harness,
    member,
)

SCHEDULED = ("True", "Scheduled", "")
UNSCHEDULABLE = ("False", "Unschedulable", "pod group is unschedulable")
WAITING = "pod group is unschedulable, pod group is waiting for preemption to complete"


def run(work: Any) -> None:
    virtual_loop.run(work)


# -- the queue -----------------------------------------------------------------------------


def test_an_incomplete_gang_waits_outside_the_queue_without_events() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="4"), gang(3), member("p1"), member("p2"))
            await harness.settle(60)
            assert harness.scheduler.queue.lengths()["gated"] == 2
            assert await harness.condition("p1") is None
            assert await harness.notes("p1") == []
            assert await harness.group_condition() is None
            await harness.add(member("p3"))
            await harness.settle()
            assert await harness.bound() == {"p1", "p2", "p3"}
            assert await harness.group_condition() == SCHEDULED

    run(scenario)


@pytest.mark.parametrize("group", [gang(3), basic()], ids=["gang", "basic"])
def test_pods_wait_for_a_group_that_is_created_later(group: PodGroup) -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="4"), *(member(f"p{each}") for each in range(3)))
            await harness.settle(10)
            assert harness.scheduler.queue.lengths()["gated"] == 3
            await harness.add(group)
            await harness.settle()
            assert await harness.bound() == {"p0", "p1", "p2"}

    run(scenario)


def test_pods_of_other_groups_and_namespaces_do_not_complete_a_gang() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="4"), gang(2), member("p"))
            await harness.add(member("q", group="h"), make_pod("r", images=["i"]))
            await harness.settle(10)
            assert await harness.bound() == {"r"}

    run(scenario)


class Counting(Plugin):
    """Counts its PreEnqueue calls."""

    name = "Counting"
    asked = 0

    def pre_enqueue(self, pod: Pod) -> Status:
        Counting.asked += 1
        return SUCCESS


def test_a_gang_that_arrives_pod_by_pod_is_not_evaluated_as_a_whole_each_time() -> None:
    async def scenario() -> None:
        async with group_harness(GANGS, Counting) as harness:
            Counting.asked = 0
            await harness.add(make_node("n", cpu="100"), gang(60))
            await harness.add(*(member(f"p{each}") for each in range(60)))
            await harness.settle()
            assert len(await harness.bound()) == 60
            # After the arrival of each, and after that of the last.
            assert Counting.asked <= 2 * 60

    run(scenario)


def test_a_member_that_is_gated_counts_and_is_left_out() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            gated = _gated(member("p3"))
            await harness.add(make_node("n", cpu="4"), gang(3), member("p1"), member("p2"), gated)
            await harness.settle()
            assert await harness.condition("p1") == ("False", "Unschedulable", HELD)
            assert await harness.group_condition() == UNSCHEDULABLE
            pod = await harness.pod("p3")
            await harness.api.update(replace(pod, spec=replace(pod.spec, scheduling_gates=())))
            await harness.settle(15)
            assert await harness.bound() == {"p1", "p2", "p3"}

    run(scenario)


def _gated(pod: Pod) -> Pod:
    gates = (PodSchedulingGate(name="example.com/wait"),)
    return replace(pod, spec=replace(pod.spec, scheduling_gates=gates))


def test_a_group_that_does_not_fit_is_retried_after_its_backoff() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="2"), gang(3))
            await harness.add(*(member(f"p{each}") for each in range(3)))
            await harness.settle(30)
            # After 1, 2, 4, 8 and 10 s, and no more often.
            assert 3 <= harness.attempts("unschedulable") <= 6
            await harness.add(make_node("m", cpu="2"))
            await harness.settle(11)
            assert await harness.bound() == {"p0", "p1", "p2"}

    run(scenario)


def test_the_more_important_go_first() -> None:
    async def scenario() -> None:
        async with group_harness(BASIC) as harness:
            for name, value in {"five": 5, "seven": 7, "nine": 9}.items():
                await harness.api.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))
            for name, cls in (("a", "five"), ("b", "nine"), ("c", "seven")):
                pod = member(name)
                await harness.add(replace(pod, spec=replace(pod.spec, priority_class_name=cls)))
            await harness.settle()
            await harness.add(make_node("n", cpu="2"))
            await harness.settle(15)
            assert await harness.bound() == {"b", "c"}

    run(scenario)


# -- the verdict ---------------------------------------------------------------------------


class PermitByName(Plugin):
    """Permit decides by the pod's name: `w…` waits, `u…` is rejected, others are allowed."""

    name = "PermitByName"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        match pod.metadata.name[0]:
            case "w":
                return Wait(3600 * SECOND, ("asked to wait",))
            case "u":
                return Status.unschedulable("not today")
        return SUCCESS


VERDICTS: dict[str, tuple[list[str], set[str], tuple[str, str, str]]] = {
    "all may go": (["a", "b", "c"], {"a", "b", "c"}, SCHEDULED),
    "one of them may": (["a", "w1", "w2"], {"a"}, SCHEDULED),  # the others wait on Permit
    "none may": (["w1", "w2", "w3"], set(), UNSCHEDULABLE),
    "one is refused": (["a", "u1", "w1"], {"a"}, SCHEDULED),
}


@pytest.mark.parametrize(("names", "bound", "condition"), VERDICTS.values(), ids=VERDICTS)
def test_one_schedulable_member_suffices_to_try_a_group(
    names: list[str], bound: set[str], condition: tuple[str, str, str]
) -> None:
    async def scenario() -> None:
        async with group_harness(BASIC, PermitByName) as harness:
            await harness.add(basic(), *(member(name) for name in names))
            await harness.settle()
            await harness.add(make_node("n", cpu="4"))
            await harness.settle(15)
            assert await harness.bound() == bound
            assert await harness.group_condition() == condition
            for name in names:
                told = await harness.condition(name)
                if name.startswith("u"):
                    assert told == (
                        "False",
                        "Unschedulable",
                        "0/1 nodes are available: 1 not today.",
                    )
                elif name.startswith("w") and condition == UNSCHEDULABLE:
                    assert told == (
                        "False",
                        "Unschedulable",
                        "pod group is unschedulable, asked to wait, one or more plugins asked to "
                        "wait and no plugin rejected pod",
                    )

    run(scenario)


class FailsForNames(Plugin):
    """Fails about pods whose names begin with x."""

    name = "FailsForNames"

    def filter(self, state: CycleState, pod: Pod, node: Any) -> Status:
        if pod.metadata.name.startswith("x"):
            return Status.failure("stumbled")
        return SUCCESS


def test_an_error_with_one_member_ends_the_attempt_for_all() -> None:
    async def scenario() -> None:
        async with group_harness(BASIC, FailsForNames) as harness:
            await harness.add(basic(), member("a"), member("x"), member("z"))
            await harness.settle()
            await harness.add(make_node("n", cpu="4"))
            await harness.settle(15)
            assert await harness.bound() == set()
            own = 'running "FailsForNames" filter plugin: stumbled'
            others = f"failed to schedule other pod from a pod group: {own}"
            assert await harness.condition("x") == ("False", "SchedulerError", own)
            assert await harness.condition("a") == ("False", "SchedulerError", others)
            assert await harness.condition("z") == ("False", "SchedulerError", others)
            assert await harness.group_condition() == ("False", "SchedulerError", others)
            assert harness.attempts("error") >= 1

    run(scenario)


def test_a_basic_group_takes_what_it_can_get() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="2"), basic())
            await harness.add(member("p1"), member("p2"), member("p3", cpu="9"))
            await harness.settle()
            assert await harness.bound() == {"p1", "p2"}
            assert await harness.group_condition() == SCHEDULED
            told = await harness.condition("p3")
            assert told is not None
            assert told[2].startswith("0/1 nodes are available: 1 Insufficient cpu.")

    run(scenario)


def test_a_basic_group_that_gets_nothing_is_unschedulable() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="2"), basic(), member("p", cpu="9"))
            await harness.settle()
            assert await harness.group_condition() == UNSCHEDULABLE

    run(scenario)


def test_gangs_with_more_members_than_the_minimum() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="2"), *(member(f"p{each}") for each in range(3)))
            await harness.add(gang(2))
            await harness.settle(30)
            assert len(await harness.bound()) == 2
            # The third failed again and again; that the group was scheduled stays true.
            assert await harness.group_condition() == SCHEDULED
            assert harness.attempts("unschedulable") >= 1
            await harness.add(make_node("m", cpu="2"))
            await harness.settle(15)
            assert len(await harness.bound()) == 3

    run(scenario)


def test_placed_members_of_a_gang_count_for_later_members() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="3"), gang(3))
            await harness.add(*(member(f"p{each}") for each in range(3)))
            await harness.settle()
            assert len(await harness.bound()) == 3
            for name in ("p1", "p2"):
                await harness.api.delete(Pod, name, "default", grace_period_seconds=0)
            await harness.add(member("q1"))
            await harness.settle(10)
            assert await harness.bound() == {"p0"}  # two of three members exist
            await harness.add(member("q2", cpu="9"))
            await harness.settle(10)
            assert await harness.condition("q1") == ("False", "Unschedulable", HELD)
            await harness.add(member("q3"))
            await harness.settle(15)
            assert await harness.bound() == {"p0", "q1", "q3"}

    run(scenario)


def test_pods_of_two_schedulers_are_no_group() -> None:
    async def scenario() -> None:
        profiles = [{"schedulerName": name} for name in ("default-scheduler", "second")]
        async with group_harness(BASIC, profiles=profiles) as harness:
            await harness.add(basic(), member("p1"))
            await harness.add(member("p2", scheduler_name="second"))
            await harness.settle(5)
            for name in ("p1", "p2"):
                told = await harness.condition(name)
                assert told is not None
                assert told[1] == "SchedulerError"
                assert told[2].startswith(
                    "all pods in a single pod group should have the same .spec.schedulerName set"
                )

    run(scenario)


def test_members_are_placed_after_the_trial_placements_of_earlier_ones() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n1", cpu="4"), make_node("n2", cpu="4"))
            await harness.add(*(_apart(f"p{each}") for each in range(3)))
            await harness.add(gang(3))
            await harness.settle()
            assert await harness.bound() == set()
            await harness.add(make_node("n3", cpu="4"))
            await harness.settle(15)
            assert sorted(await harness.nodes("p0", "p1", "p2")) == ["n1", "n2", "n3"]

    run(scenario)


def _apart(name: str) -> Pod:
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels={"app": "gang"}),
    )
    affinity = Affinity(
        pod_anti_affinity=PodAntiAffinity(
            required_during_scheduling_ignored_during_execution=(term,)
        )
    )
    pod = member(name, labels={"app": "gang"})
    return replace(pod, spec=replace(pod.spec, affinity=affinity))


def test_a_group_deleted_during_its_cycle_is_an_error() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(gang(2), member("p1", cpu="9"), member("p2", cpu="9"))
            await harness.add(make_node("n", cpu="4"))
            await harness.settle(2)
            group = await harness.api.get(PodGroup, "g", "default")
            free = replace(group.metadata, finalizers=())
            await harness.api.update(replace(group, metadata=free))
            await harness.api.delete(PodGroup, "g", "default")
            await harness.add(make_node("m", cpu="40"))
            await harness.settle(15)
            told = await harness.condition("p1")
            assert told is not None
            assert told[1] == "SchedulerError"
            assert told[2] == (
                'running Permit plugin "GangScheduling": failed to get podGroup default/g: '
                'podgroup.scheduling.k8s.io "g" not found'
            )

    run(scenario)


def test_two_gangs_competing_for_nodes_do_not_block_each_other() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="4"), gang(3, "g"), gang(3, "h"))
            for number in range(3):
                for group in ("g", "h"):
                    await harness.add(member(f"{group}{number}", group=group))
            await harness.settle(60)
            bound = await harness.bound()
            assert bound in ({"g0", "g1", "g2"}, {"h0", "h1", "h2"})

    run(scenario)


def test_all_but_the_last_of_a_gang_show_where_they_will_go() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="4"), gang(3))
            seen: list[tuple[str, str]] = []
            watch = harness.api.watch(Pod, "default", resource_version="0")

            async def look() -> None:
                async for event in watch:
                    if event.object is not None and event.object.status.nominated_node_name:
                        pod = event.object
                        seen.append((pod.metadata.name, pod.status.nominated_node_name))

            looking = asyncio.create_task(look())
            await harness.add(*(member(f"p{each}") for each in range(3)))
            await harness.settle()
            looking.cancel()
            assert len(await harness.bound()) == 3
            assert len(seen) == 2
            assert {node for _, node in seen} == {"n"}
            for name in ("p0", "p1", "p2"):
                assert not (await harness.pod(name)).status.nominated_node_name

    run(scenario)


def test_deleted_members_are_left_out() -> None:
    async def scenario() -> None:
        async with group_harness(BASIC) as harness:
            held = member("p1")
            held = replace(held, metadata=replace(held.metadata, finalizers=("example.com/hold",)))
            await harness.add(basic(), held, member("p2"))
            await harness.settle()
            await harness.api.delete(Pod, "p1", "default")
            await harness.add(make_node("n", cpu="4"))
            await harness.settle(15)
            assert await harness.bound() == {"p2"}
            assert "skip schedule deleting pod: default/p1" in await harness.notes("p1")

    run(scenario)


# -- making room ---------------------------------------------------------------------------


async def _full(harness: GroupHarness, *nodes: str) -> None:
    """Nodes of 4 CPUs with a pod of no importance on each."""
    await harness.api.create(PriorityClass(metadata=ObjectMeta(name="high"), value=100))
    for name in nodes:
        await harness.add(make_node(name, cpu="4"))
        await harness.add(
            make_pod(
                f"v-{name}",
                images=["i"],
                requests={"cpu": "4"},
                node_name=name,
                termination_grace_period_seconds=30,
            )
        )


def _important(name: str, cpu: str = "3") -> Pod:
    pod = member(name, cpu)
    return replace(pod, spec=replace(pod.spec, priority_class_name="high"))


def test_a_gang_whose_members_all_need_room_waits_for_it() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await _full(harness, "n1", "n2")
            await harness.add(gang(2), _important("p1"), _important("p2"))
            await harness.settle()
            assert await harness.group_condition() == ("False", "Unschedulable", WAITING)
            assert harness.attempts("waiting_on_preemption") == 1
            nominated = {(await harness.pod(p)).status.nominated_node_name for p in ("p1", "p2")}
            assert nominated == {"n1", "n2"}
            for name in ("v-n1", "v-n2"):
                assert (await harness.pod(name)).metadata.deletion_timestamp is not None
                await harness.api.delete(Pod, name, "default", grace_period_seconds=0)
            await harness.settle(15)
            assert sorted(await harness.nodes("p1", "p2")) == ["n1", "n2"]

    run(scenario)


def test_a_member_beyond_the_number_that_needs_room_holds_the_others_up_once() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await _full(harness, "n2")
            await harness.add(make_node("n1", cpu="4"))
            await harness.add(*(_important(f"p{each}", "2") for each in range(3)), gang(2))
            await harness.settle(0.5)
            assert await harness.bound() == {"v-n2"}
            assert await harness.group_condition() == ("False", "Unschedulable", WAITING)
            assert await harness.condition("p0") == ("False", "Unschedulable", WAITING)
            await harness.settle(10)
            assert await harness.bound() == {"v-n2", "p0", "p1"}
            told = await harness.condition("p2")
            assert told is not None
            assert told[2].endswith(
                "preemption: not eligible due to a terminating pod on the nominated node."
            )

    run(scenario)


def test_a_gang_that_does_not_fit_in_the_end_evicts_all_the_same() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await _full(harness, "n1")
            await harness.add(gang(2), _important("p1"), _important("p2"))
            await harness.settle()
            assert await harness.group_condition() == UNSCHEDULABLE
            assert (await harness.pod("v-n1")).metadata.deletion_timestamp is not None
            assert not (await harness.pod("p1")).status.nominated_node_name

    run(scenario)


# -- afterwards ----------------------------------------------------------------------------


class Refusing(Plugin):
    """Reserve fails after the group cycle for pods whose name begins with r."""

    name = "Refusing"

    def __init__(self, args: Any = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.asked: dict[str, int] = {}

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        name = pod.metadata.name
        self.asked[name] = self.asked.get(name, 0) + 1
        if name.startswith("r") and self.asked[name] == 2:
            return Status.unschedulable("changed my mind")
        return SUCCESS


def test_a_member_that_fails_for_real_fails_alone() -> None:
    async def scenario() -> None:
        async with group_harness(BASIC, Refusing) as harness:
            await harness.add(basic(), member("a"), member("r"))
            await harness.settle()
            await harness.add(make_node("n", cpu="4"))
            await harness.settle(3)
            assert await harness.bound() == {"a"}
            assert await harness.group_condition() == SCHEDULED
            assert await harness.condition("r") == (
                "False",
                "Unschedulable",
                "0/1 nodes are available: 1 changed my mind.",
            )
            await harness.settle(15)
            assert await harness.bound() == {"a", "r"}

    run(scenario)


def test_a_member_that_waits_is_joined_by_one_that_failed_for_real() -> None:
    async def scenario() -> None:
        async with group_harness(GANGS, Refusing) as harness:
            await _half_of_a_gang(harness)
            await harness.settle(20)
            assert await harness.bound() == {"a", "r"}

    run(scenario)


def test_a_waiting_member_is_rejected_after_five_minutes() -> None:
    async def scenario() -> None:
        async with group_harness(GANGS, Refusing) as harness:
            await _half_of_a_gang(harness)
            await harness.api.delete(Pod, "r", "default", grace_period_seconds=0)
            await harness.settle(290)
            assert len(list(harness.scheduler.services.waiting_pods)) == 1
            await harness.settle(20)
            assert await harness.bound() == set()
            assert await harness.condition("a") == (
                "False",
                "Unschedulable",
                "0/1 nodes are available: 1 rejected due to timeout after waiting 5m0s at plugin "
                "GangScheduling.",
            )

    run(scenario)


async def _half_of_a_gang(harness: GroupHarness) -> None:
    """Create two members: one is rejected in the real attempt, and the other waits for it."""
    await harness.add(member("a"), member("r"), make_node("n", cpu="4"))
    await harness.settle()
    await harness.add(gang(2))
    await harness.settle(0.9)
    assert await harness.bound() == set()
    waiting = harness.scheduler.services.waiting_pods
    assert [each.pod.metadata.name for each in waiting] == ["a"]


# -- the condition -------------------------------------------------------------------------


def test_unchanged_conditions_are_not_written_again() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            await harness.add(make_node("n", cpu="1"), gang(2), member("p1"), member("p2"))
            await harness.settle(60)
            assert harness.attempts("unschedulable") > 3
            assert harness.faults.count("patch", "PodGroup") == 1

    run(scenario)


def test_a_write_that_fails_is_retried() -> None:
    async def scenario() -> None:
        async with group_harness() as harness:
            busy = ApiError(ApiStatus(code=503, reason="ServiceUnavailable", message="later"))
            harness.faults.next["patch PodGroup"] = [Fault(error=busy)] * 2
            await harness.add(make_node("n", cpu="4"), gang(1), member("p"))
            await harness.settle(5)
            assert await harness.group_condition() == SCHEDULED

    run(scenario)


def test_a_group_that_was_restarted_in_the_middle_is_placed_whole() -> None:
    async def scenario() -> None:
        harness = GroupHarness(GANGS)
        harness.faults.next["bind"] = [Fault(delay_ns=3600 * SECOND)] * 2
        killed = asyncio.create_task(harness.scheduler.run(), name="Scheduler")
        await harness.add(make_node("n", cpu="3"), gang(3))
        await harness.add(*(member(f"p{each}") for each in range(3)))
        await harness.settle()
        assert len(await harness.bound()) == 1
        killed.cancel()
        await asyncio.gather(killed, return_exceptions=True)
        async with running(GroupHarness(GANGS, store=harness.store).scheduler):
            await asyncio.sleep(15)
            assert await harness.bound() == {"p0", "p1", "p2"}

    run(scenario)


def test_without_pod_groups_on_the_server_members_are_not_scheduled() -> None:
    async def scenario() -> None:
        async with group_harness(BASIC, store=Store(features=frozenset())) as harness:
            await harness.add(make_node("n"), make_pod("p", images=["i"]))
            await harness.settle(30)
            assert not harness.scheduler.synced.is_set()
            assert await harness.bound() == set()

    run(scenario)


def test_without_the_gate_pods_of_a_group_are_pods() -> None:
    async def scenario() -> None:
        async with group_harness({}) as harness:
            await harness.add(make_node("n", cpu="1"), gang(3), member("p1"), member("p2"))
            await harness.settle()
            assert len(await harness.bound()) == 1
            assert await harness.group_condition() is None
            assert harness.faults.count("list", "PodGroup") == 0

    run(scenario)


# -- the condition of the group --------------------------------------------------------------


@pytest.mark.parametrize("delay_ms", [1, 100, 2_000])
def test_a_gang_stays_scheduled_while_its_first_condition_is_being_written(delay_ms: int) -> None:
    """A gang of three of which two fit, with minCount 2: the third pod's cycle comes at once."""

    async def scenario() -> None:
        async with group_harness() as harness:
            delay = Fault(delay_ns=delay_ms * SECOND // 1000)
            harness.faults.next["patch PodGroup"] = [delay] * 2
            await harness.add(make_node("n", cpu="2"), gang(2), member("p1"), member("p2"))
            await asyncio.sleep(delay_ms / 2000)
            await harness.add(member("p3"))
            await harness.settle(10)
            assert await harness.bound() == {"p1", "p2"}
            assert await harness.group_condition() == SCHEDULED

    run(scenario)


def test_a_server_without_pod_groups_is_named(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        clock = current_clock()
        store = Store(derive(0, "store"), now_ns=clock.now_ns(), features=frozenset())
        async with group_harness(GANGS, store=store):
            await asyncio.sleep(60)

    with caplog.at_level("ERROR"):
        virtual_loop.run(scenario)
    hints = [each.message for each in caplog.records if "does not serve PodGroups" in each.message]
    assert len(hints) == 1
    assert "--runtime-config=scheduling.k8s.io/v1alpha2=true" in hints[0]
