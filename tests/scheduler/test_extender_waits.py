"""Slow, broken and hanging extenders, and changes while an attempt waits for one."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.foundation.util.clock import SECOND
from kubesched.scheduler.config.types import ExtenderManagedResource
from kubesched.testing.fakes.fake_extender import (
    FakeExtender,
    FakeTransport,
    keep_nodes,
    score_nodes,
)
from tests.scheduler.extender_harness import (
    FOO,
    ExtenderHarness,
    Gate,
    a_pod,
    cluster_with,
    nodes,
    run,
)

Json = dict[str, Any]
BAR = "example.com/bar"
BY_NAME: Json = {"node_cache_capable": True}
FOO_ONLY: Json = {
    "managed_resources": (ExtenderManagedResource(name=FOO, ignored_by_scheduler=True),),
    **BY_NAME,
}

keep_all = keep_nodes(lambda _: True)


async def never(_: Json) -> Json:
    await asyncio.Event().wait()
    raise AssertionError


class TestOtherPodsAreNotBlocked:
    def test_pods_that_a_hanging_extender_is_not_interested_in_are_placed_at_once(self) -> None:
        async def scenario() -> None:
            extender = FakeExtender(filter=never)
            async with cluster_with((extender, extender.settings(**FOO_ONLY))) as harness:
                await harness.add(*nodes("n0"), a_pod("foo", foo=1))
                await harness.settle(0.1)
                began_ns = harness.clock.monotonic_ns()
                for number in range(5):
                    await harness.add(a_pod(f"p{number}"))
                await harness.settle(0.1)
                for number in range(5):
                    assert await harness.node_of(f"p{number}") == "n0"
                assert harness.clock.monotonic_ns() - began_ns < SECOND
                assert harness.scheduler.queue.in_flight_pods[0].metadata.name == "foo"

        run(scenario)

    def test_pods_of_another_extender_do_not_wait_for_a_hanging_one(self) -> None:
        async def scenario() -> None:
            hangs, works = FakeExtender(filter=never), FakeExtender(filter=keep_all)
            bars = (ExtenderManagedResource(name=BAR),)
            async with cluster_with(
                (hangs, hangs.settings("/hangs", **FOO_ONLY)),
                (works, works.settings("/works", managed_resources=bars, **BY_NAME)),
            ) as harness:
                await harness.add(*nodes("n0"), a_pod("foo", foo=1), a_pod("foo-too", foo=1))
                await harness.api.patch(
                    Node,
                    "n0",
                    None,
                    {"status": {"allocatable": {BAR: "5"}, "capacity": {BAR: "5"}}},
                    subresource="status",
                )
                bar = a_pod("bar")
                container = bar.spec.containers[0]
                resources = replace(container.resources, requests={BAR: "1"}, limits={BAR: "1"})
                containers = (replace(container, resources=resources),)
                await harness.add(replace(bar, spec=replace(bar.spec, containers=containers)))
                await harness.settle(0.1)
                assert await harness.node_of("bar") == "n0"
                assert len(hangs.called("filter")) == 1, "one pod at a time"

        run(scenario)

    def test_an_extender_gets_one_pod_at_a_time_in_the_order_of_the_queue(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add_priority_class("high", 100)
                await harness.add(*nodes("n0"), a_pod("first"))
                await harness.settle(0.1)
                await harness.add(a_pod("low"))
                high = a_pod("high")
                await harness.add(
                    replace(high, spec=replace(high.spec, priority_class_name="high"))
                )
                await harness.settle(0.1)
                assert gate.waiting == ["first"]
                gate.opened.set()
                await harness.settle(0.1)
                assert gate.waiting == ["first", "high", "low"]
                for name in ("first", "high", "low"):
                    assert await harness.node_of(name) == "n0"

        run(scenario)


class TestBrokenExtenders:
    def test_a_hanging_extender_costs_its_timeout_and_the_pod_is_retried(self) -> None:
        async def scenario() -> None:
            extender = FakeExtender(filter=never)
            settings = extender.settings(
                url_prefix="http://slow:1", http_timeout_ns=2 * SECOND, **BY_NAME
            )
            async with cluster_with((extender, settings)) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(1.9)
                assert await harness.notes("p") == []
                await harness.settle(0.2)
                text = (
                    'Post "http://slow:1/filter": context deadline exceeded '
                    "(Client.Timeout exceeded while awaiting headers)"
                )
                assert await harness.notes("p") == [text]
                assert await harness.condition("p") == ("SchedulerError", text)
                extender.verbs["filter"] = keep_all
                await harness.settle(5)
                assert await harness.node_of("p") == "n0"

        run(scenario)

    def test_the_timeout_is_five_seconds_unless_it_is_set(self) -> None:
        async def scenario() -> None:
            extender = FakeExtender(filter=never)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(4.9)
                assert await harness.notes("p") == []
                await harness.settle(0.2)
                assert len(await harness.notes("p")) == 1

        run(scenario)

    def test_an_unreachable_extender_fails_only_its_own_pods(self) -> None:
        async def scenario() -> None:
            extender = FakeExtender(filter=keep_all)
            extender.is_down = True
            settings = extender.settings(url_prefix="http://down:81/", **FOO_ONLY)
            async with cluster_with((extender, settings)) as harness:
                await harness.add(*nodes("n0"), a_pod("foo", foo=1), a_pod("plain"))
                await harness.settle(0.1)
                assert await harness.node_of("plain") == "n0"
                assert await harness.notes("foo") == [
                    'Post "http://down:81/filter": dial tcp down:81: connect: connection refused'
                ]
                extender.is_down = False
                await harness.settle(5)
                assert await harness.node_of("foo") == "n0"

        run(scenario)

    def test_an_extender_that_hangs_while_scoring_loses_its_scores_only(self) -> None:
        async def scenario() -> None:
            hangs = FakeExtender(prioritize=never)
            scores = FakeExtender(prioritize=score_nodes(lambda name: 9 * (name == "n1")))
            async with cluster_with(hangs, scores) as harness:
                await harness.add(*nodes("n0", "n1"), a_pod("p"))
                await harness.settle(4.9)
                gauge = harness.metrics.goroutines.labels("prioritizing_extender")
                assert gauge.value == 1
                await harness.settle(0.2)
                assert gauge.value == 0
                assert await harness.node_of("p") == "n1"

        run(scenario)


class TestTheClusterChanges:
    """The pod fits when the extender is called, and does not fit when it responds."""

    def test_another_pod_takes_the_room(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**FOO_ONLY))) as harness:
                await harness.add(*nodes("n0", "n1"))
                await harness.add(a_pod("foo", foo=1, cpu="800m"))
                await harness.settle(0.1)
                await harness.add(a_pod("quick", cpu="800m"))
                await harness.settle(0.1)
                taken = await harness.node_of("quick")
                gate.opened.set()
                await harness.settle(0.1)
                assert {taken, await harness.node_of("foo")} == {"n0", "n1"}
                assert len(gate.waiting) == 1, "it still fits the other node"

        run(scenario)

    def test_another_pod_takes_the_last_room_and_no_node_is_overcommitted(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**FOO_ONLY))) as harness:
                await harness.add(*nodes("n0"), a_pod("foo", foo=1, cpu="800m"))
                await harness.settle(0.1)
                await harness.add(a_pod("quick", cpu="800m"))
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.node_of("quick") == "n0"
                assert await harness.node_of("foo") == ""
                condition = await harness.condition("foo")
                assert condition is not None
                assert condition[0] == "Unschedulable"
                assert condition[1].startswith("0/1 nodes are available: 1 Insufficient cpu.")
                await harness.delete_pod("quick")
                await harness.settle(3)
                assert await harness.node_of("foo") == "n0"

        run(scenario)

    def test_the_best_node_is_deleted_while_extenders_score(self) -> None:
        async def scenario() -> None:
            gate = Gate(score_nodes(lambda name: 9 * (name == "n1")))
            extender = FakeExtender(prioritize=gate)
            async with cluster_with(extender) as harness:
                await harness.add(*nodes("n0", "n1"), a_pod("p"))
                await harness.settle(0.1)
                await harness.api.delete(Node, "n1")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.node_of("p") == "n0"

        run(scenario)

    def test_all_nodes_are_deleted_and_one_added_during_an_extender_call(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                await harness.api.delete(Node, "n0")
                await harness.add(*nodes("n1"))
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.node_of("p") == "n1"
                asked = [call["NodeNames"] for call in extender.called("filter")]
                assert asked == [["n0"], ["n1"]]

        run(scenario)

    def test_the_last_node_is_deleted_during_an_extender_call(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                await harness.api.delete(Node, "n0")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.notes("p") == ["no nodes available to schedule pods"]

        run(scenario)

    def test_a_new_node_is_evaluated_after_all_others_were_rejected(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_nodes(lambda name: name == "n1"))
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                await harness.add(*nodes("n1"))
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.node_of("p") == "n1"
                assert await harness.notes("p") == ["Successfully assigned default/p to n1"]

        run(scenario)

    def test_an_attempt_that_is_overtaken_repeatedly_is_retried_later(self) -> None:
        async def scenario() -> None:
            harness: ExtenderHarness

            async def delete_the_node_during_the_call(arguments: Json) -> Json:
                number = len(extender.calls)
                if number <= 3:
                    await harness.add(*nodes(f"n{number}"))
                    [name] = arguments["NodeNames"]
                    await harness.api.delete(Node, name)
                    await asyncio.sleep(0.01)
                return keep_all(arguments)

            extender = FakeExtender(filter=delete_the_node_during_the_call)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                assert await harness.node_of("p") == ""
                await harness.settle(5)
                assert await harness.node_of("p") == "n3"

        run(scenario)


class TestThePodChanges:
    def test_refusals_of_extenders_are_dropped_when_the_pod_no_longer_waits(self) -> None:
        """Seed 434: the pod is bound by another client, or deleted, during the call."""

        async def scenario() -> None:
            gate = Gate(keep_nodes(lambda _: False))
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                tasks = harness.scheduler._extender_tasks
                assert tasks is not None
                refused = tasks._context.refused
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                await harness.delete_pod("p")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert refused == {}
                await harness.add(a_pod("q"))
                await harness.settle(0.1)
                assert len(refused) == 1
                uid = (await harness.pod("q")).metadata.uid
                await harness.api.bind("default", "q", uid, "n0")
                await harness.settle(0.1)
                assert refused == {}

        run(scenario)

    def test_refusals_of_extenders_are_dropped_when_the_pod_is_recreated(self) -> None:
        """Seed 3512: an informer that missed the deletion reports an update."""

        async def scenario() -> None:
            extender = FakeExtender(filter=keep_nodes(lambda _: False))
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                tasks = harness.scheduler._extender_tasks
                assert tasks is not None
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                assert len(tasks._context.refused) == 1
                old = await harness.pod("p")
                tasks.follow(old, replace(old, metadata=replace(old.metadata, uid="another")))
                assert tasks._context.refused == {}

        run(scenario)

    def test_a_deleted_pod_is_released(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                await harness.delete_pod("p")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert harness.scheduler.cache.pod_count == 0
                assert harness.scheduler.queue.in_flight_pods == []
                assert await harness.notes("p") == []

        run(scenario)

    def test_a_recreated_pod_has_its_own_state(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                await harness.delete_pod("p")
                await harness.add(a_pod("p"))
                await harness.settle(0.1)
                uid = (await harness.pod("p")).metadata.uid
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.node_of("p") == "n0"
                asked = [call["Pod"]["metadata"]["uid"] for call in extender.called("filter")]
                assert len(asked) == 2
                assert asked[1] == uid

        run(scenario)

    def test_a_pod_on_its_way_out_is_skipped_as_always(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                pod = a_pod("p")
                held = replace(pod.metadata, finalizers=("example.com/hold",))
                await harness.add(*nodes("n0"), replace(pod, metadata=held))
                await harness.settle(0.1)
                await harness.delete_pod("p")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.node_of("p") == ""
                assert await harness.notes("p") == ["skip schedule deleting pod: default/p"]
                assert harness.scheduler.cache.assumed_count == 0

        run(scenario)

    def test_a_pod_bound_by_another_client_is_released(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0", "n1"), a_pod("p"))
                await harness.settle(0.1)
                uid = (await harness.pod("p")).metadata.uid
                await harness.api.bind("default", "p", uid, "n1")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.node_of("p") == "n1"
                assert await harness.notes("p") == []

        run(scenario)

    def test_a_changed_pod_is_evaluated_in_its_new_version(self) -> None:
        async def scenario() -> None:
            gate = Gate(keep_all)
            extender = FakeExtender(filter=gate)
            async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle(0.1)
                await harness.api.patch(Pod, "p", "default", {"metadata": {"labels": {"a": "b"}}})
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.1)
                assert await harness.node_of("p") == "n0"
                shown = [call["Pod"]["metadata"] for call in extender.called("filter")]
                assert [each.get("labels") for each in shown] == [None, {"a": "b"}]

        run(scenario)


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_a_scheduler_that_is_stopped_does_not_wait_for_an_extender(verb: str) -> None:
    async def scenario() -> None:
        verbs: dict[str, Any] = {verb: never}
        extender = FakeExtender(**verbs)
        async with cluster_with(extender) as harness:
            await harness.add(*nodes("n0", "n1"), a_pod("p"))
            await harness.settle(0.1)
            assert len(extender.calls) == 1
            stopped_ns = harness.clock.monotonic_ns()
        assert harness.clock.monotonic_ns() == stopped_ns
        assert await harness.node_of("p") == ""

    run(scenario)


def test_a_scheduler_that_is_stopped_does_not_wait_for_a_review_of_victims() -> None:
    async def scenario() -> None:
        extender = FakeExtender(preempt=never)
        async with cluster_with(extender) as harness:
            await harness.add_priority_class("high", 1000)
            await harness.add(*nodes("n0"), a_pod("low", cpu="1", node_name="n0"))
            pod = a_pod("high", cpu="1")
            await harness.add(replace(pod, spec=replace(pod.spec, priority_class_name="high")))
            await harness.settle(0.1)
            assert len(extender.called("preempt")) == 1
            stopped_ns = harness.clock.monotonic_ns()
        assert harness.clock.monotonic_ns() == stopped_ns
        assert (await harness.pod("low")).metadata.deletion_timestamp is None
        assert (await harness.pod("high")).status.nominated_node_name == ""

    run(scenario)


def test_connections_to_extenders_are_closed_however_a_scheduler_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    closed: list[str] = []

    async def close(self: FakeTransport) -> None:
        closed.append(self.base_url)

    monkeypatch.setattr(FakeTransport, "close", close)

    async def scenario() -> None:
        extender = FakeExtender(filter=never)
        harness = ExtenderHarness([(extender, extender.settings())])
        work = asyncio.create_task(harness.scheduler.run())
        await harness.add(*nodes("n0"), a_pod("p"))
        await asyncio.sleep(0.1)
        assert len(extender.calls) == 1
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
        assert closed == [extender.url]

    run(scenario)
