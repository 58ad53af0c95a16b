"""Evictions: the writes, their order, and when victims are spared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Pod, PodCondition
from kubesched.api import Status as ApiStatus
from kubesched.api.access import ApiError
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.framework import Nominating, NominatingMode, PodInfo
from kubesched.framework.pod_status_writer import PodStatusWriter
from kubesched.framework.status_writes import status_writes
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import PreemptionCandidate
from kubesched.testing import (
    FakeApi,
    FakeHandle,
    FakeObjects,
    FakePodInPreBind,
    FakeWaitingPod,
    make_node,
    make_pod,
)
from kubesched.testing.fakes.fake_handle import RecordedEvent
from tests.scheduler.plugins.default_preemption.preemption_fixture import run

GOING = "2026-05-31T00:00:00Z"
PREEMPTOR = make_pod("preemptor", priority=1000)
MARK = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "default-scheduler: preempting to accommodate a higher priority pod",
}


def error(code: int, reason: str) -> ApiError:
    return ApiError(ApiStatus(code=code, reason=reason, message=f"injected {reason}"))


def victim(name: str, **more: Any) -> Pod:
    return make_pod(name, node_name="n", **more)


class SlowApi(FakeApi):
    """Every write takes a second; some of them fail."""

    def __init__(self, objects: FakeObjects) -> None:
        super().__init__(objects)
        self.fails: dict[tuple[str, str], list[ApiError]] = {}  # (verb, name) -> coming errors
        self.started: list[tuple[str, str, int]] = []  # verb, name, second in which it began

    async def _wait(self, verb: str, name: str) -> None:
        clock = current_clock()
        self.started.append((verb, name, clock.monotonic_ns() // SECOND))
        await clock.sleep(SECOND)
        if errors := self.fails.get((verb, name)):
            raise errors.pop(0)

    async def patch(self, kind: Any, name: str, *args: Any, **more: Any) -> Any:
        await self._wait("patch", name)
        return await super().patch(kind, name, *args, **more)

    async def delete(self, kind: Any, name: str, *args: Any, **more: Any) -> None:
        await self._wait("delete", name)
        await super().delete(kind, name, *args, **more)


def nominate(handle: FakeHandle, pod: Pod, node_name: str) -> None:
    nominating = Nominating(NominatingMode.OVERRIDE, node_name)
    handle.nominator.add_nominated_pod(PodInfo(pod), nominating)


class EvictionHarness:
    def __init__(self, *pods: Pod, is_gating: bool = True, **options: Any) -> None:
        self.victims = pods
        self.handle = FakeHandle([*pods, PREEMPTOR], clock=current_clock(), **options)
        self.api = SlowApi(self.handle.objects)
        self.handle.api = self.api
        self.evictions = Evictions("DefaultPreemption", self.handle, is_gating=is_gating)

    def start(self) -> None:
        candidate = PreemptionCandidate("n", tuple(map(PodInfo, self.victims)), 0)
        self.evictions.start(candidate, PREEMPTOR)

    async def evict(self) -> None:
        self.start()
        await self.handle.finish_work()

    async def after(self, seconds: float) -> None:
        await current_clock().sleep(int(seconds * SECOND))

    @property
    def deleted(self) -> list[str]:
        return [call.name for call in self.api.calls if call.verb == "delete"]

    @property
    def patches(self) -> Mapping[str, Any]:
        return {call.name: call.what for call in self.api.calls if call.verb == "patch"}

    @property
    def is_gated(self) -> bool:
        return self.evictions.is_running(PREEMPTOR.metadata.uid)

    def pod(self, name: str) -> Pod | None:
        return self.handle.objects.get(Pod, name, "default")


def test_a_victim_gets_a_condition_is_deleted_and_gets_an_event() -> None:
    async def scenario() -> None:
        pod = victim("v")
        harness = EvictionHarness(replace(pod, metadata=replace(pod.metadata, generation=3)))
        await harness.evict()
        patch = harness.patches["v"]["status"]["conditions"][0]
        assert {key: patch[key] for key in MARK} == MARK
        assert patch["observedGeneration"] == 3
        assert harness.deleted == ["v"]
        assert harness.api.calls[-1].what is None  # the pod's own grace period
        assert harness.handle.recorder.events == [
            RecordedEvent(
                "default/v",
                "Normal",
                "Preempted",
                "Preempting",
                "Preempted by pod pod.default.preemptor on node n",
            )
        ]
        assert not harness.handle.activated

    run(scenario)


def test_an_existing_condition_is_not_written_again() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v", conditions=[PodCondition(**MARK)]))
        await harness.evict()
        assert harness.patches == {}
        assert harness.deleted == ["v"]

    run(scenario)


def test_the_last_victim_waits_for_the_others() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("a"), victim("b"), victim("c"))
        await harness.evict()
        assert harness.api.started == [
            ("patch", "a", 0),
            ("patch", "b", 0),
            ("delete", "a", 1),
            ("delete", "b", 1),
            ("patch", "c", 2),
            ("delete", "c", 3),
        ]

    run(scenario)


def test_terminating_victims_are_not_deleted_again() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("going", deletion_timestamp=GOING), victim("v"))
        await harness.evict()
        assert harness.deleted == ["v"]
        metrics = harness.handle.metrics
        assert (metrics.preemption_victims.count, metrics.preemption_victims.sum) == (1, 2)

    run(scenario)


def test_if_all_victims_are_terminating_nothing_is_written() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("going", deletion_timestamp=GOING))
        harness.start()
        assert not harness.is_gated
        assert not harness.handle.work
        assert harness.handle.metrics.preemption_victims.count == 0

    run(scenario)


# -- failures --------------------------------------------------------------------------


def test_if_one_of_the_first_fails_the_last_is_not_attempted() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("a"), victim("b"), victim("c"))
        harness.api.fails["delete", "a"] = [error(500, "InternalError")]
        await harness.evict()
        assert harness.deleted == ["b"]
        assert "c" not in harness.patches
        assert list(harness.handle.activated) == ["default/preemptor"]
        assert not harness.is_gated

    run(scenario)


def test_a_victim_without_the_condition_is_not_deleted() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.api.fails["patch", "v"] = [error(403, "Forbidden")]
        await harness.evict()
        assert harness.deleted == []
        assert list(harness.handle.activated) == ["default/preemptor"]
        assert harness.handle.recorder.events == []

    run(scenario)


@pytest.mark.parametrize(
    ("code", "reason"),
    [(500, "InternalError"), (503, "ServiceUnavailable"), (409, "Conflict"), (0, "")],
)
def test_a_busy_server_causes_retries(code: int, reason: str) -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.api.fails["patch", "v"] = [error(code, reason)] * 3
        await harness.evict()
        assert harness.deleted == ["v"]
        assert [name for verb, name, _ in harness.api.started if verb == "patch"] == ["v"] * 4

    run(scenario)


@pytest.mark.parametrize("verb", ["patch", "delete"])
@pytest.mark.parametrize("is_seen", [True, False])
def test_a_victim_that_ended_without_an_eviction_counts_as_evicted(
    verb: str, is_seen: bool
) -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.api.fails[verb, "v"] = [error(404, "NotFound")]
        harness.start()
        await harness.after(0.5 if verb == "patch" else 1.5)
        if is_seen:
            harness.handle.objects.remove(Pod, "v", "default")
        await harness.handle.finish_work()
        assert harness.handle.recorder.events == []
        # If its end was reported, no further event requeues the preemptor.
        assert list(harness.handle.activated) == (["default/preemptor"] if is_seen else [])

    run(scenario)


def test_a_pod_that_took_the_name_of_a_victim_is_spared() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.handle.objects.put(victim("v", uid="another"))
        await harness.evict()
        assert harness.api.calls == []
        assert harness.pod("v") is not None

    run(scenario)


def test_a_pod_that_takes_the_name_of_a_victim_at_the_last_moment_is_spared() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.start()
        await harness.after(1.5)
        harness.handle.objects.put(victim("v", uid="another"))
        await harness.handle.finish_work()
        assert harness.pod("v") is not None
        assert harness.handle.recorder.events == []

    run(scenario)


# -- no unnecessary evictions -----------------------------------------------------------


def test_if_the_preemptor_is_deleted_the_remaining_victims_stay() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("a"), victim("b"), victim("c"))
        harness.start()
        await harness.after(1.5)
        harness.handle.objects.remove(Pod, "preemptor", "default")
        await harness.handle.finish_work()
        # The deletions of a and b had begun.
        assert harness.deleted == ["a", "b"]
        assert harness.pod("c") is not None
        assert "c" not in harness.patches

    run(scenario)


GONE = {
    "deleted": None,
    "terminating": replace(
        PREEMPTOR, metadata=replace(PREEMPTOR.metadata, deletion_timestamp=GOING)
    ),
    "re-created": replace(PREEMPTOR, metadata=replace(PREEMPTOR.metadata, uid="another")),
    "bound": replace(PREEMPTOR, spec=replace(PREEMPTOR.spec, node_name="elsewhere")),
}


@pytest.mark.parametrize("change", GONE.values(), ids=GONE)
@pytest.mark.parametrize("seconds", [0, 0.5])
def test_victims_stay_if_the_preemptor_no_longer_needs_room(
    change: Pod | None, seconds: float
) -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.start()
        if seconds:
            await harness.after(seconds)
        if change is None:
            harness.handle.objects.remove(Pod, "preemptor", "default")
        else:
            harness.handle.objects.put(change)
        await harness.handle.finish_work()
        assert harness.deleted == []
        assert not harness.is_gated

    run(scenario)


def test_if_another_node_gets_room_the_remaining_victims_stay() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("a"), victim("b"), victim("c"))
        harness.start()
        await harness.after(1.5)
        harness.handle.room = True
        await harness.handle.finish_work()
        assert harness.deleted == ["a", "b"]
        assert harness.pod("c") is not None
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


def test_if_a_node_gets_room_before_the_deletion_the_victim_stays() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.start()
        await harness.after(0.5)
        harness.handle.room = True
        await harness.handle.finish_work()
        assert harness.deleted == []
        assert harness.handle.recorder.events == []
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


def test_if_the_room_would_no_longer_help_the_victim_stays() -> None:
    """Seed 200195: the node was cordoned while the condition was written."""

    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.start()
        await harness.after(0.5)
        harness.handle.helps = False
        await harness.handle.finish_work()
        assert harness.deleted == []
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


@pytest.mark.parametrize("change", [{"labels": {"app": "web"}}, {"node_selector": {"disk": "ssd"}}])
def test_if_the_preemptor_changed_the_victim_stays(change: dict[str, Any]) -> None:
    """Seed 8745: its labels had changed, and another pod on the node repelled those."""

    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.start()
        await harness.after(0.5)
        harness.handle.objects.put(make_pod("preemptor", priority=1000, **change))
        await harness.handle.finish_work()
        assert harness.deleted == []
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


def test_if_terminating_pods_are_enough_the_victim_stays() -> None:
    """Seed 250: other pods had ended since, so one victim fewer was needed."""

    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.handle.objects.put(make_node("n"))
        harness.handle.objects.put(victim("leaving", deletion_timestamp=GOING))
        harness.handle.refresh()
        harness.handle.enough = frozenset({"leaving"})
        await harness.evict()
        assert harness.deleted == []
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


def test_if_another_preemptor_takes_the_node_the_victim_stays() -> None:
    """Seed 242: a more important pod had taken over the node."""

    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.start()
        nominate(harness.handle, PREEMPTOR, "n")
        await harness.after(0.5)
        harness.handle.nominator.delete_nominated_pod(PREEMPTOR)
        await harness.handle.finish_work()
        assert harness.deleted == []
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


def test_the_end_of_an_unbound_victim_requeues_the_preemptor() -> None:
    """Seed 546: its binding had failed, so its deletion triggered no event."""

    async def scenario() -> None:
        harness = EvictionHarness(make_pod("v"))
        await harness.evict()
        assert harness.deleted == ["v"]
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


def test_after_spared_tries_the_preemptor_evicts_anyway() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.handle.room = True
        for _ in range(2):
            await harness.evict()
            assert harness.deleted == []
        await harness.evict()
        assert harness.deleted == ["v"]

    run(scenario)


def test_retries_back_off_while_the_server_fails() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        clock = current_clock()
        waited = []
        for _ in range(7):
            harness.api.fails["delete", "v"] = [error(500, "InternalError")]
            harness.handle.activated.clear()
            begun_ns = clock.monotonic_ns()
            await harness.evict()
            assert list(harness.handle.activated) == ["default/preemptor"]
            waited.append((clock.monotonic_ns() - begun_ns) // SECOND)
        # The deletion takes a second, and so does the first write of the condition.
        assert waited == [2, 1 + 1, 1 + 2, 1 + 4, 1 + 8, 1 + 10, 1 + 10]
        await harness.evict()
        assert harness.deleted == ["v"]

    run(scenario)


def test_the_gate_is_open_during_the_backoff() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        for _ in range(2):
            harness.api.fails["delete", "v"] = [error(500, "InternalError")]
            harness.start()
            await harness.after(2.5)
        assert not harness.is_gated
        await harness.handle.finish_work()

    run(scenario)


# -- victims that are not bound yet ----------------------------------------------------


def test_a_victim_that_waits_on_permit_is_rejected_in_memory() -> None:
    async def scenario() -> None:
        pod = victim("v")
        waiting = FakeWaitingPod(pod, "SomePlugin")
        harness = EvictionHarness(pod, waiting=[waiting])
        await harness.evict()
        assert waiting.preemption == ("DefaultPreemption", "preempted")
        assert harness.api.calls == []
        assert [event.note for event in harness.handle.recorder.events] == [
            "Preempted by pod pod.default.preemptor on node n (in kube-scheduler memory)."
        ]
        assert not harness.handle.activated

    run(scenario)


def test_a_victim_in_pre_bind_is_cancelled() -> None:
    async def scenario() -> None:
        pod = victim("v")
        binding = FakePodInPreBind(pod)
        harness = EvictionHarness(pod, in_pre_bind=[binding])
        await harness.evict()
        assert binding.cancel_reason == "preempted by DefaultPreemption"
        assert harness.api.calls == []

    run(scenario)


def test_a_victim_that_was_just_allowed_or_bound_is_deleted() -> None:
    async def scenario() -> None:
        pod = victim("v")
        waiting, binding = FakeWaitingPod(pod, "SomePlugin"), FakePodInPreBind(pod)
        waiting.allow("SomePlugin")
        binding.is_over = True
        harness = EvictionHarness(pod, waiting=[waiting], in_pre_bind=[binding])
        await harness.evict()
        assert harness.deleted == ["v"]

    run(scenario)


# -- the gate --------------------------------------------------------------------------


def test_the_gate_is_closed_until_the_last_victim_is_deleted() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("a"), victim("b"))
        assert not harness.is_gated
        harness.start()
        assert harness.is_gated
        await harness.after(2.5)  # a is deleted, the condition of b is being written
        assert harness.pod("a") is None
        assert harness.is_gated
        marked = harness.pod("b")
        assert marked is not None
        terminating = replace(marked, metadata=replace(marked.metadata, deletion_timestamp=GOING))
        harness.handle.objects.put(terminating)
        assert not harness.is_gated
        await harness.handle.finish_work()
        assert not harness.is_gated

    run(scenario)


def test_the_end_of_the_last_victim_opens_the_gate() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.start()
        await harness.after(0.5)
        assert harness.is_gated
        harness.handle.objects.remove(Pod, "v", "default")
        assert not harness.is_gated
        await harness.handle.finish_work()

    run(scenario)


def test_the_gate_opens_if_an_eviction_raises() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("v"))
        harness.api.failures["delete"] = ValueError("a bug")  # type: ignore[assignment]
        harness.start()
        with pytest.raises(ValueError, match="a bug"):
            await harness.handle.finish_work()
        assert not harness.is_gated
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


# -- nominations of others -------------------------------------------------------------


def test_pods_of_lower_priority_lose_their_nomination_to_the_node() -> None:
    async def scenario() -> None:
        lower = make_pod("lower", priority=10, nominated_node_name="n")
        equal = make_pod("equal", priority=1000, nominated_node_name="n")
        elsewhere = make_pod("elsewhere", priority=10, nominated_node_name="m")
        unwritten = make_pod("unwritten", priority=10)
        harness = EvictionHarness(victim("v"))
        for pod, node in ((lower, "n"), (equal, "n"), (elsewhere, "m"), (unwritten, "n")):
            harness.handle.objects.put(pod)
            nominate(harness.handle, pod, node)
        await harness.evict()
        assert harness.api.started[0] == ("patch", "lower", 0)
        assert harness.patches["lower"]["status"] == {"nominatedNodeName": None}
        assert set(harness.patches) == {"lower", "v"}

    run(scenario)


def test_a_nomination_that_is_being_written_is_cleared() -> None:
    async def scenario() -> None:
        lower = make_pod("lower", priority=10)
        harness = EvictionHarness(victim("v"))
        harness.handle.objects.put(lower)
        nominate(harness.handle, lower, "n")
        handle = harness.handle
        writes = status_writes(handle.shared, handle.lister)
        writer = PodStatusWriter(harness.api, handle.clock, handle.random, writes)
        handle.spawn(writer.write(lower, None, "n"), "nomination")
        await harness.evict()
        cleared = harness.pod("lower")
        assert cleared is not None
        assert cleared.status.nominated_node_name == ""
        assert harness.api.started[:2] == [("patch", "lower", 0), ("patch", "lower", 1)]

    run(scenario)


def test_a_nomination_that_cannot_be_cleared_does_not_stop_the_evictions() -> None:
    async def scenario() -> None:
        lower = make_pod("lower", priority=10, nominated_node_name="n")
        harness = EvictionHarness(victim("v"))
        harness.handle.objects.put(lower)
        nominate(harness.handle, lower, "n")
        harness.api.fails["patch", "lower"] = [error(403, "Forbidden")]
        await harness.evict()
        assert harness.deleted == ["v"]
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)


# -- without the gate ------------------------------------------------------------------


def test_without_gating_all_victims_are_evicted_concurrently() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("a"), victim("b"), is_gating=False)
        harness.start()
        assert not harness.is_gated
        await harness.handle.finish_work()
        assert [second for verb, _, second in harness.api.started if verb == "delete"] == [1, 1]
        assert harness.handle.metrics.preemption_victims.count == 1

    run(scenario)


def test_without_gating_a_failure_requeues_the_preemptor() -> None:
    async def scenario() -> None:
        harness = EvictionHarness(victim("a"), victim("b"), is_gating=False)
        harness.api.fails["delete", "a"] = [error(500, "InternalError")]
        await harness.evict()
        assert harness.deleted == ["b"]
        assert list(harness.handle.activated) == ["default/preemptor"]

    run(scenario)
