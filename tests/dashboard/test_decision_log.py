"""The decision log: filled by a scheduler or from pods, bounded, read by pod."""

from __future__ import annotations

import asyncio
import random
from typing import Any

from msgspec.structs import replace

from kubesched.api import PodCondition
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.pod_history import pod_history
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.framework import SUCCESS
from kubesched.framework.pod_info import QueuedPodInfo, assigned_to
from kubesched.scheduler.backend.queue.view import Place
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod


def test_decisions_are_read_off_the_pods() -> None:
    now = 0
    log = DecisionLog(lambda: now)
    pod = make_pod("p")
    log.note(None, pod)
    refused = replace(
        pod,
        status=replace(
            pod.status,
            nominated_node_name="a",
            conditions=(PodCondition(type="PodScheduled", status="False", message="no room"),),
        ),
    )
    now = 1_000_000
    log.note(pod, refused)
    now = 5_000_000
    log.note(refused, assigned_to(refused, "a"))
    told = [(each["what"], each.get("node", each.get("reason"))) for each in log.since(0, 10)]
    assert told == [("unschedulable", "no room"), ("nominated", "a"), ("placed", "a")]
    assert log.latency() == [5, 5]
    assert (log.placed, log.failed) == (1, 1)


def test_a_pod_that_was_placed_before_the_log_began_is_no_decision() -> None:
    log = DecisionLog(lambda: 0)
    log.note(None, make_pod("p", node_name="a"))
    assert log.last == 0


def test_the_last_decisions_are_stored_and_found_by_number() -> None:
    log = DecisionLog(lambda: 0, length=100)
    for number in range(250):
        pod = make_pod(f"p{number}")
        log.note(None, pod)
        log.note(pod, assigned_to(pod, "a"))
    assert (log.first, log.last) == (151, 250)
    assert [each["number"] for each in log.before(160, 4)] == [157, 158, 159, 160]
    assert [each["number"] for each in log.before(152, 10)] == [151, 152]
    assert log.before(10, 5) == []
    assert [each["pod"] for each in log.about("default/p200")] == ["default/p200"]


def test_a_scheduler_reports_its_decisions_and_the_best_nodes() -> None:
    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        scheduler = Scheduler(api, clock)
        log = DecisionLog(clock.now_ns)
        scheduler.watch(log)
        for name, cpu in (("small", "2"), ("large", "8"), ("medium", "4")):
            await api.create(fresh(make_node(name, cpu=cpu, memory="8Gi")))
        async with running(scheduler):
            await scheduler.synced.wait()
            await api.create(fresh(make_pod("p", images=["p"], requests={"cpu": "1"})))
            await api.create(fresh(make_pod("giant", images=["g"], requests={"cpu": "9"})))
            await asyncio.sleep(1)
            place = scheduler.queue.describe("default/giant", clock.now_ns())
            assert place is not None
            assert place.place is Place.UNSCHEDULABLE
            assert log.main_reason(place.pod) == "Insufficient cpu"
            condition = (await api.get(type(place.pod), "giant", "default")).status.conditions[0]
            await asyncio.sleep(30)
            await api.create(fresh(make_node("huge", cpu="16", memory="8Gi")))
            await asyncio.sleep(30)
            giant = await api.get(type(place.pod), "giant", "default")
            steps = pod_history(giant, log.about("default/giant"), scheduler.queue, "default/giant")
        # Without a scheduler in this process the page has the condition's text only.
        waiting = replace(place.pod, status=replace(place.pod.status, conditions=(condition,)))
        assert DecisionLog(clock.now_ns).main_reason(waiting) == condition.message
        first, second, *_ = log.since(0, 10)
        assert (first["pod"], first["what"], first["node"]) == ("default/p", "placed", "large")
        names = [name for name, _ in first["best"]]
        totals = [total for _, total in first["best"]]
        assert names[0] == "large"
        assert sorted(names) == ["large", "medium", "small"]
        assert totals == sorted(totals, reverse=True)
        assert (second["what"], second["attempt"]) == ("unschedulable", 1)
        assert "Insufficient cpu" in second["reason"]
        told = [(each["what"], each.get("event", each.get("node", ""))) for each in steps]
        assert told[:2] == [("created", ""), ("joined", "")]
        assert ("woken", "NodeAdd") in told
        assert told[-1] == ("placed", "huge")
        assert told.index(("unschedulable", "")) < told.index(("woken", "NodeAdd"))

    virtual_loop.run(main, start_ns=1_800_000_000_000_000_000, seed=0)


def fresh(made: object) -> object:
    return replace(made, metadata=replace(made.metadata, uid="", resource_version=""))


class _Attempt:
    """The part of an attempt that a log reads; `cost_ns` is the time to compute the best nodes."""

    def __init__(self, clock: list[int], cost_ns: int) -> None:
        self.started_ns = clock[0]
        self.queued = QueuedPodInfo(make_pod("p"), 0)
        self.framework = self.point_metrics = self
        self._clock, self._cost_ns = clock, cost_ns

    def now_ns(self) -> int:
        return self._clock[0]

    def best(self, count: int) -> list[tuple[str, int]]:
        self._clock[0] += self._cost_ns
        return [("a", count)]


def test_ranking_the_best_nodes_takes_a_fiftieth_of_the_time_beyond_the_saved_budget() -> None:
    clock = [10**18]
    log = DecisionLog(lambda: clock[0], length=100_000)

    def ranked(decisions: int) -> int:
        for _ in range(decisions):
            attempt: Any = _Attempt(clock, cost_ns=10_000)
            log.decided(attempt, SUCCESS, "a", attempt)
        return sum("best" in each for each in log.since(log.last - decisions, decisions))

    assert 4_000 <= ranked(10_000) <= 4_200  # two seconds were saved: a fiftieth of them
    began = clock[0]
    for _ in range(1_000):
        clock[0] += 100_000
        ranked(1)
    spent = 10_000 * sum("best" in each for each in log.since(log.last - 1_000, 1_000))
    assert 0.018 < spent / (clock[0] - began) < 0.022


def test_an_evicted_pod_is_recorded_once() -> None:
    log = DecisionLog(lambda: 0)
    pod = make_pod("victim", node_name="a")
    reason = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")
    marked = replace(pod, status=replace(pod.status, conditions=(reason,)))
    metadata = replace(pod.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    leaving = replace(marked, metadata=metadata)
    log.changed(pod, marked)
    assert log.preempted == 0
    log.changed(marked, leaving)
    log.removed(leaving, False)
    assert (log.preempted, [each["what"] for each in log.since(0, 9)]) == (1, ["preempted"])
    at_once = replace(marked, metadata=replace(marked.metadata, name="other", uid="other"))
    log.removed(at_once, False)
    log.removed(make_pod("deleted by a user"), False)
    assert log.preempted == 2
