"""The path of a pod on virtual time: API server, informers, queue, attempt, binding."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import EventsEvent, Node, ObjectMeta, Pod, PriorityClass, ResourceRequirements
from kubesched.api import Status as ApiStatus
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.framework import (
    SKIP,
    SUCCESS,
    CycleState,
    NodeInfo,
    Plugin,
    PodPart,
    Reads,
    Status,
    Wait,
)
from kubesched.scheduler.backend.cache import CacheCorruptedError
from kubesched.scheduler.config import default_configuration
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.types import PluginRef
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod


def a_pod(name: str, **wishes: Any) -> Pod:
    """A pod that an API server accepts."""
    return make_pod(name, images=["registry.example/app:v1"], **wishes)


def run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    return virtual_loop.run(work)


def unavailable() -> ApiError:
    return ApiError(ApiStatus(code=503, reason="ServiceUnavailable", message="try again"))


class Faults:
    """An API that fails as a test configures it: the outcomes of the next requests, by verb."""

    def __init__(self) -> None:
        self.next: dict[str, list[Fault]] = {}
        self.seen: list[tuple[str, str, str]] = []

    def __call__(self, verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
        self.seen.append((verb, kind, name))
        waiting = self.next.get(f"{verb} {kind}") or self.next.get(verb)
        return waiting.pop(0) if waiting else None

    def count(self, verb: str, kind: str) -> int:
        return sum((v, k) == (verb, kind) for v, k, _ in self.seen)


class Cluster:
    """A store, a scheduler on it, and access to their state for a test."""

    def __init__(
        self,
        *plugins: type[Plugin],
        schedulers: tuple[str, ...] = (),
        seed: int = 0,
        gates: dict[str, bool] | None = None,
    ) -> None:
        self.clock = current_clock()
        self.faults = Faults()
        self.store = Store(derive(seed, "store"), now_ns=self.clock.now_ns())
        self.api = LocalApi(self.store, self.clock)
        configuration = default_configuration()
        profile = configuration.profiles[0]
        if plugins:
            point = profile.plugins.multi_point
            enabled = (*point.enabled, *(PluginRef(cls.name) for cls in plugins))
            profile = replace(
                profile,
                plugins=replace(profile.plugins, multi_point=replace(point, enabled=enabled)),
            )
        names = schedulers or ("default-scheduler",)
        profiles = tuple(replace(profile, scheduler_name=name) for name in names)
        self.scheduler = Scheduler(
            LocalApi(self.store, self.clock, faults=self.faults),
            self.clock,
            configuration=replace(configuration, profiles=profiles),
            registry={**IN_TREE_PLUGINS, **{cls.name: cls for cls in plugins}},
            seed=seed,
            feature_gates=FeatureGates(gates),
        )

    async def add(self, *objects: Node | Pod) -> None:
        for each in objects:
            metadata = replace(each.metadata, resource_version="", uid="")
            await self.api.create(replace(each, metadata=metadata))

    async def pod(self, name: str) -> Pod:
        return await self.api.get(Pod, name, "default")

    async def node_of(self, name: str) -> str:
        return (await self.pod(name)).spec.node_name

    async def settle(self, seconds: float = 0.5) -> None:
        await asyncio.sleep(seconds)
        self.scheduler.cache.check_invariants()
        self.scheduler.queue.check_invariants()

    async def notes(self, name: str) -> list[tuple[str, str, str]]:
        """(type, reason, note) of the pod's events, oldest first."""
        listed = await self.api.list(EventsEvent, "default")
        return [(e.type, e.reason, e.note) for e in listed.items if e.regarding.name == name]

    async def condition(self, name: str) -> tuple[str, str, str] | None:
        for each in (await self.pod(name)).status.conditions:
            if each.type == "PodScheduled":
                return each.status, each.reason, each.message
        return None


@contextlib.asynccontextmanager
async def cluster(*plugins: type[Plugin], **options: Any) -> AsyncIterator[Cluster]:
    made = Cluster(*plugins, **options)
    async with running(made.scheduler):
        yield made


# -- the plain way ---------------------------------------------------------------------


def test_a_pod_is_bound_and_its_event_recorded() -> None:
    async def scenario() -> None:
        async with cluster() as harness:
            await harness.add(make_node("n1"), a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p") == "n1"
            assert await harness.notes("p") == [
                ("Normal", "Scheduled", "Successfully assigned default/p to n1")
            ]
            assert not harness.scheduler.cache.is_assumed(await harness.pod("p"))

    run(scenario)


def test_objects_that_were_there_before_the_scheduler_count() -> None:
    async def scenario() -> None:
        made = Cluster()
        await made.add(make_node("n1", cpu="2"), make_node("n2", cpu="2"))
        await made.add(a_pod("old", requests={"cpu": "2"}), a_pod("new", requests={"cpu": "2"}))
        old = await made.pod("old")
        await made.api.bind("default", "old", old.metadata.uid, "n1")
        async with running(made.scheduler):
            await made.settle()
            assert await made.node_of("new") == "n2"

    run(scenario)


def test_a_rejected_pod_has_a_reason_and_is_retried_when_a_node_is_added() -> None:
    async def scenario() -> None:
        async with cluster() as harness:
            await harness.add(make_node("small", cpu="1"), a_pod("p", requests={"cpu": "4"}))
            await harness.settle()
            status, reason, message = await harness.condition("p") or ("", "", "")
            assert (status, reason) == ("False", "Unschedulable")
            assert message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
            [(kind, why, note)] = await harness.notes("p")
            assert (kind, why, note) == ("Warning", "FailedScheduling", message)
            place = harness.scheduler.queue.describe("default/p", harness.clock.now_ns())
            assert place is not None
            assert set(place.rejected_by) == {"NodeResourcesFit"}
            await harness.add(make_node("large", cpu="8"))
            await harness.settle(3)
            assert await harness.node_of("p") == "large"
            assert (await harness.condition("p") or ("",))[0] == "True"

    run(scenario)


def test_without_nodes_the_pod_is_retried_after_a_backoff() -> None:
    async def scenario() -> None:
        async with cluster() as harness:
            await harness.add(a_pod("p"))
            await harness.settle()
            assert await harness.condition("p") == (
                "False",
                "Unschedulable",
                "no nodes available to schedule pods",
            )
            await harness.add(make_node("n1"))
            await harness.settle(12)
            assert await harness.node_of("p") == "n1"

    run(scenario)


def test_pods_are_placed_by_priority() -> None:
    async def scenario() -> dict[str, str]:
        made = Cluster()
        important = PriorityClass(metadata=ObjectMeta(name="important"), value=9)
        await made.api.create(important)
        high = a_pod("high", requests={"cpu": "1"})
        high = replace(high, spec=replace(high.spec, priority_class_name="important"))
        await made.add(make_node("n", cpu="1"), a_pod("low", requests={"cpu": "1"}), high)
        async with running(made.scheduler):
            await made.settle()
            return {name: await made.node_of(name) for name in ("low", "high")}

    assert run(scenario) == {"low": "", "high": "n"}


def test_a_gated_pod_waits_until_its_last_gate_is_removed() -> None:
    async def scenario() -> None:
        async with cluster() as harness:
            await harness.add(make_node("n1"), a_pod("p", gates=["a", "b"]))
            await harness.settle()
            assert await harness.node_of("p") == ""
            assert (await harness.condition("p") or ("", ""))[1] == "SchedulingGated"
            for gates in ([{"name": "b"}], []):
                patch = [{"op": "replace", "path": "/spec/schedulingGates", "value": gates}]
                await harness.api.patch(Pod, "p", "default", patch, patch_type="json")  # type: ignore[arg-type]
                await harness.settle()
                assert await harness.node_of("p") == ("n1" if not gates else "")

    run(scenario)


def test_each_profile_serves_its_own_pods_only() -> None:
    async def scenario() -> None:
        async with cluster(schedulers=("one", "two")) as harness:
            await harness.add(make_node("n1"))
            for name in ("one", "two", "stranger"):
                await harness.add(a_pod(f"pod-{name}", scheduler_name=name))
            await harness.settle()
            assert await harness.node_of("pod-one") == await harness.node_of("pod-two") == "n1"
            assert await harness.node_of("pod-stranger") == ""
            events = await harness.api.list(EventsEvent, "default")
            assert {e.regarding.name: e.reporting_controller for e in events.items} == {
                "pod-one": "one",
                "pod-two": "two",
            }

    run(scenario)


def test_the_same_seed_leads_to_the_same_placements() -> None:
    async def scenario() -> list[str]:
        async with cluster(seed=7) as harness:
            await harness.add(*(make_node(f"n{number}") for number in range(20)))
            await harness.add(*(a_pod(f"p{number}") for number in range(30)))
            await harness.settle()
            return [await harness.node_of(f"p{number}") for number in range(30)]

    first = run(scenario)
    assert all(first)
    assert run(scenario) == first


# -- when things go wrong --------------------------------------------------------------


def test_a_refused_binding_releases_the_node_and_is_retried() -> None:
    async def scenario() -> None:
        async with cluster() as harness:
            await harness.add(make_node("n1", cpu="1"))
            harness.faults.next["bind"] = [Fault(error=unavailable())]
            await harness.add(a_pod("p", requests={"cpu": "1"}))
            await harness.settle()
            assert await harness.condition("p") == (
                "False",
                "SchedulerError",
                'running Bind plugin "DefaultBinder": try again',
            )
            assert harness.scheduler.cache.pod_count == 0
            await harness.settle(5)
            assert await harness.node_of("p") == "n1"

    run(scenario)


def test_a_binding_whose_answer_was_lost_is_not_made_twice() -> None:
    async def scenario() -> None:
        async with cluster() as harness:
            await harness.add(make_node("n1"))
            harness.faults.next["bind"] = [Fault(error=unavailable(), answer_lost=True)]
            await harness.add(a_pod("p"))
            await harness.settle(30)
            assert await harness.node_of("p") == "n1"
            assert harness.faults.count("bind", "Pod") == 1
            assert harness.scheduler.queue.describe("default/p", harness.clock.now_ns()) is None
            assert await harness.condition("p") == ("True", "", "")

    run(scenario)


def test_a_failed_status_write_is_retried() -> None:
    async def scenario() -> None:
        async with cluster() as harness:
            harness.faults.next["patch"] = [Fault(error=unavailable())] * 3
            await harness.add(make_node("n1", cpu="1"), a_pod("p", requests={"cpu": "2"}))
            await harness.settle(2)
            assert (await harness.condition("p") or ("", ""))[1] == "Unschedulable"

    run(scenario)


def test_the_same_failure_is_not_written_twice() -> None:
    async def scenario() -> None:
        async with cluster() as harness:
            await harness.add(make_node("n1", cpu="1"), a_pod("p", requests={"cpu": "2"}))
            await harness.settle(5)
            # A taint that is added and removed requeues the pod; the verdict stays the same.
            node = await harness.api.get(Node, "n1")
            await harness.api.update(replace(node, spec=replace(node.spec, unschedulable=True)))
            await harness.settle(5)
            attempts = harness.scheduler.queue.describe("default/p", harness.clock.now_ns())
            assert attempts is not None
            node = await harness.api.get(Node, "n1")
            await harness.api.update(replace(node, spec=replace(node.spec, unschedulable=False)))
            await harness.settle(15)
            again = harness.scheduler.queue.describe("default/p", harness.clock.now_ns())
            assert again is not None
            assert again.attempts > attempts.attempts
            assert harness.faults.count("patch", "Pod") == 1

    run(scenario)


def test_a_lost_watch_is_followed_by_a_new_list_and_nothing_is_missed() -> None:
    gone = ApiError(ApiStatus(code=410, reason="Expired", message="too old resource version"))

    async def scenario() -> None:
        async with cluster() as harness:
            await harness.add(make_node("n1"))
            await harness.settle()
            harness.faults.next["watch Pod"] = [Fault(error=gone)]
            harness.faults.next["watch Node"] = [Fault(error=gone)]
            await harness.add(make_node("n2", cpu="64"), a_pod("p", requests={"cpu": "32"}))
            await harness.settle(30)
            assert await harness.node_of("p") == "n2"

    run(scenario)


def test_a_pod_deleted_while_it_waits_on_permit_leaves_the_cache() -> None:
    class Patient(Plugin):
        name = "Patient"

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
            return Wait(600 * SECOND)

    async def scenario() -> None:
        async with cluster(Patient) as harness:
            await harness.add(make_node("n1"), a_pod("p"))
            await harness.settle()
            pod = await harness.pod("p")
            assert pod.status.nominated_node_name == "n1"
            assert harness.scheduler.cache.is_assumed(pod)
            await harness.api.delete(Pod, "p", "default", grace_period_seconds=0)
            await harness.settle()
            assert harness.scheduler.cache.pod_count == 0
            assert list(harness.scheduler.services.waiting_pods) == []
            assert harness.faults.count("bind", "Pod") == 0

    run(scenario)


def test_without_expectations_no_node_is_published_and_every_pre_bind_runs() -> None:
    called: list[str] = []

    class Patient(Plugin):
        name = "Patient"

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
            return Wait(600 * SECOND)

        def pre_bind_pre_flight(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            called.append("PreBindPreFlight")
            return SKIP

        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            called.append("PreBind")
            return SUCCESS

    async def scenario() -> None:
        gates = {"NominatedNodeNameForExpectation": False}
        async with cluster(Patient, gates=gates) as harness:
            await harness.add(make_node("n1"), a_pod("p"))
            await harness.settle()
            assert (await harness.pod("p")).status.nominated_node_name == ""
            [waiting] = harness.scheduler.services.waiting_pods
            waiting.allow("Patient")
            await harness.settle()
            assert await harness.node_of("p") == "n1"

    run(scenario)
    assert called == ["PreBind"]


def test_api_calls_in_the_background_bind_and_report() -> None:
    async def scenario() -> None:
        async with cluster(gates={"SchedulerAsyncAPICalls": True}) as harness:
            await harness.add(make_node("n1", cpu="2"))
            await harness.add(a_pod("fits", requests={"cpu": "1"}))
            await harness.add(a_pod("big", requests={"cpu": "8"}))
            await harness.settle()
            assert await harness.node_of("fits") == "n1"
            condition = await harness.condition("big")
            assert condition is not None
            assert condition[1] == "Unschedulable"
            framework = harness.scheduler.profiles["default-scheduler"]
            assert framework.api_dispatcher is not None

    run(scenario)


POD_LEVEL_OFF = {"PodLevelResources": False, "InPlacePodLevelResourcesVerticalScaling": False}


@pytest.mark.parametrize(
    ("gates", "want"),
    [({}, ["n1", ""]), (POD_LEVEL_OFF, ["n1", "n1"])],
    ids=["on by default", "off"],
)
def test_pod_level_requests_count_only_with_their_gate(
    gates: dict[str, bool], want: list[str]
) -> None:
    def demanding(name: str) -> Pod:
        pod = a_pod(name, requests={"cpu": "1"})
        whole = ResourceRequirements(requests={"cpu": "3"})
        return replace(pod, spec=replace(pod.spec, resources=whole))

    async def scenario() -> list[str]:
        async with cluster(gates=gates) as harness:
            await harness.add(make_node("n1", cpu="4"))
            await harness.add(demanding("p"))
            await harness.settle()
            await harness.add(demanding("q"))
            await harness.settle()
            return [await harness.node_of("p"), await harness.node_of("q")]

    assert run(scenario) == want


def test_a_pod_allowed_by_permit_is_bound() -> None:
    class Patient(Plugin):
        name = "Patient"

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
            return Wait(600 * SECOND)

    async def scenario() -> None:
        async with cluster(Patient) as harness:
            await harness.add(make_node("n1"), a_pod("p"))
            await harness.settle(30)
            assert await harness.node_of("p") == ""
            [waiting] = harness.scheduler.services.waiting_pods
            waiting.allow("Patient")
            await harness.settle()
            bound = await harness.pod("p")
            assert bound.spec.node_name == "n1"
            assert bound.status.nominated_node_name == ""

    run(scenario)


class WaitsForLabel(Plugin):
    """Makes pods with the label `hold` wait."""

    name = "WaitsForLabel"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        return Wait(600 * SECOND) if "hold" in pod.metadata.labels else SUCCESS

    def events_to_register(self) -> tuple[()]:
        return ()


def test_a_pod_rejected_on_permit_releases_its_room_without_requeueing_itself() -> None:
    async def scenario() -> None:
        async with cluster(WaitsForLabel) as harness:
            await harness.add(make_node("n1", cpu="1"))
            await harness.add(a_pod("held", labels={"hold": "yes"}, requests={"cpu": "1"}))
            await harness.settle()
            await harness.add(a_pod("other", requests={"cpu": "1"}))
            await harness.settle(5)
            [waiting] = harness.scheduler.services.waiting_pods
            waiting.reject("WaitsForLabel", "not today")
            await harness.settle(5)
            assert await harness.node_of("other") == "n1"
            assert await harness.condition("held") == (
                "False",
                "Unschedulable",
                "0/1 nodes are available: 1 not today.",
            )
            place = harness.scheduler.queue.describe("default/held", harness.clock.now_ns())
            assert place is not None
            assert (place.rejected_by, place.attempts) == (("WaitsForLabel",), 1)

    run(scenario)


def test_a_failed_binding_wakes_pods_that_wait_for_the_room() -> None:
    async def scenario() -> None:
        async with cluster(WaitsForLabel) as harness:
            await harness.add(make_node("n1", cpu="1"))
            await harness.add(a_pod("first", labels={"hold": "yes"}, requests={"cpu": "1"}))
            await harness.settle()
            await harness.add(a_pod("other", requests={"cpu": "1"}))
            await harness.settle(5)
            harness.faults.next["bind"] = [Fault(error=unavailable())]
            [waiting] = harness.scheduler.services.waiting_pods
            waiting.allow("WaitsForLabel")
            await harness.settle(0.5)
            assert await harness.node_of("other") == "n1"
            assert (await harness.condition("first") or ("", ""))[1] == "SchedulerError"

    run(scenario)


class RaisesForOddLabel(Plugin):
    """Trips over pods with an odd label."""

    name = "RaisesForOddLabel"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        if "odd" in pod.metadata.labels:
            raise ValueError("odd pod")
        return SUCCESS


def test_a_plugin_that_throws_costs_that_pod_only() -> None:
    async def scenario() -> None:
        async with cluster(RaisesForOddLabel) as harness:
            await harness.add(make_node("n1"), a_pod("bad", labels={"odd": "yes"}))
            await harness.add(a_pod("good"))
            await harness.settle()
            assert await harness.node_of("good") == "n1"
            assert await harness.condition("bad") == (
                "False",
                "SchedulerError",
                'running "RaisesForOddLabel" filter plugin: odd pod',
            )

    run(scenario)


def test_a_reserve_that_refuses_is_reported_for_the_one_node() -> None:
    class Refusing(Plugin):
        name = "Refusing"

        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            return Status.unschedulable("r")

    async def scenario() -> None:
        async with cluster(Refusing) as harness:
            await harness.add(make_node("n1"), make_node("n2"), a_pod("p"))
            await harness.settle()
            condition = await harness.condition("p")
            assert condition == ("False", "Unschedulable", "0/1 nodes are available: 1 r.")
            assert harness.scheduler.cache.pod_count == 0

    run(scenario)


def test_a_corrupted_cache_ends_the_scheduler() -> None:
    async def scenario() -> None:
        made = Cluster()
        await made.add(make_node("n1"), make_node("n2"), a_pod("p"))
        task = asyncio.create_task(made.scheduler.run())
        await asyncio.sleep(1)
        handlers = made.scheduler.informers.informer(Pod)
        bound = await made.pod("p")
        other = "n2" if bound.spec.node_name == "n1" else "n1"
        moved = replace(bound, spec=replace(bound.spec, node_name=other))
        for handler in handlers._handlers:
            if handler.on_update is not None:
                handler.on_update(bound, moved)
        await task

    with pytest.raises(CacheCorruptedError):
        run(scenario)


def test_a_long_message_is_cut_in_the_event_and_whole_in_the_condition() -> None:
    class Wordy(Plugin):
        name = "Wordy"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            return Status.unschedulable("x" * 1500)

        def events_to_register(self) -> tuple[()]:
            return ()

    async def scenario() -> None:
        async with cluster(Wordy) as harness:
            await harness.add(make_node("n1"), a_pod("p"))
            await harness.settle()
            [(_, _, note)] = await harness.notes("p")
            assert len(note) == 1024
            assert note.endswith("xx ...")
            assert "x" * 1500 in (await harness.condition("p") or ("", "", ""))[2]

    run(scenario)


# -- sharing the event loop, and labels of pods on nodes -----------------------------------


def test_bindings_do_not_wait_until_the_whole_backlog_is_placed() -> None:
    reserved: list[str] = []
    reserved_at_first_bind: list[int] = []

    class Watching(Plugin):
        name = "Watching"

        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            reserved.append(pod.metadata.name)
            return SUCCESS

        async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            if not reserved_at_first_bind:
                reserved_at_first_bind.append(len(reserved))

    async def scenario() -> None:
        async with cluster(Watching) as harness:
            await harness.add(make_node("n1", cpu="100"), *(a_pod(f"p{n}") for n in range(90)))
            await harness.settle()
            assert len(reserved) == 90
            assert reserved_at_first_bind[0] <= 20

    run(scenario)


class PrefersMarkedPods(Plugin):
    """Gives the highest score to a node with a marked pod."""

    name = "PrefersMarkedPods"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 100 * any("mark" in other.pod.metadata.labels for other in node.pods)


def test_plugins_that_read_pod_details_get_changed_labels() -> None:
    async def scenario() -> None:
        async with cluster(PrefersMarkedPods) as harness:
            await harness.add(make_node("n1", cpu="16"), a_pod("p", requests={"cpu": "8"}))
            await harness.settle()
            # For the next pod n1 is scored too, and it does not change afterwards.
            await harness.add(make_node("n2", cpu="16"), a_pod("q"))
            await harness.settle()
            assert await harness.node_of("q") == "n2"
            await harness.api.patch(Pod, "p", "default", {"metadata": {"labels": {"mark": "x"}}})
            await harness.add(a_pod("late"))
            await harness.settle()
            assert await harness.node_of("late") == "n1"

    run(scenario)
