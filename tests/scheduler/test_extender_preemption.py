"""Extenders review victims, and no pod is evicted without need.

docs/reference/04 §18.6.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.foundation.util.clock import SECOND
from kubesched.scheduler.config.types import ExtenderManagedResource
from kubesched.testing import HOSTNAME, make_spread
from kubesched.testing.fakes.fake_extender import FakeExtender, Reply
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
NO_ROOM = "0/2 nodes are available: 2 Insufficient cpu. "
PREFIX = NO_ROOM + "no new claims to deallocate, preemption: "
BY_NAME: Json = {"node_cache_capable": True}


def echo(arguments: Json) -> Json:
    """Agree with everything, in either form."""
    if arguments["NodeNameToMetaVictims"] is not None:
        return {"NodeNameToMetaVictims": arguments["NodeNameToMetaVictims"]}
    return {
        "NodeNameToMetaVictims": {
            node: {
                "Pods": [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]],
                "NumPDBViolations": victims["NumPDBViolations"],
            }
            for node, victims in arguments["NodeNameToVictims"].items()
        }
    }


def only(*names: str) -> Callable[[Json], Json]:
    def answer(arguments: Json) -> Json:
        by_node = echo(arguments)["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {n: v for n, v in by_node.items() if n in names}}

    return answer


def says(by_node: Any) -> Callable[[Json], Json]:
    return lambda _: {"NodeNameToMetaVictims": by_node}


def urgent(name: str = "urgent", cpu: str = "800m", **wishes: Any) -> Pod:
    pod = a_pod(name, cpu=cpu, **wishes)
    return replace(pod, spec=replace(pod.spec, priority_class_name="high"))


async def fill(harness: ExtenderHarness, *names: str, cpu: str = "1") -> None:
    """Create nodes, each filled by a pod `on-NAME`."""
    await harness.add_priority_class("high", 1000)
    await harness.add(*nodes(*names, cpu=cpu))
    for name in names:
        pod = a_pod(f"on-{name}", cpu="800m", termination_grace_period_seconds=30)
        await harness.add(replace(pod, spec=replace(pod.spec, node_name=name)))
        harness.filled.append(pod.metadata.name)
    await harness.settle(0.1)


async def leaving(harness: ExtenderHarness) -> list[str]:
    """Return the pods of `fill` that are terminating or deleted."""
    listed = {pod.metadata.name: pod for pod in (await harness.api.list(Pod, "default")).items}
    return sorted(
        name
        for name in harness.filled
        if name not in listed or listed[name].metadata.deletion_timestamp is not None
    )


class Case(NamedTuple):
    """Preempt verbs with their settings; the pod whose victim is evicted, or the message."""

    extenders: list[tuple[Any, Json]]
    evicted: list[str]
    message: str = ""


CASES = {
    "the extender leaves one of two nodes": Case([(only("n1"), {})], ["on-n1"]),
    "one that knows the nodes leaves one of two": Case([(only("n0"), BY_NAME)], ["on-n0"]),
    "each is shown what the one before it left": Case(
        [(only("n0"), {}), (echo, BY_NAME)], ["on-n0"]
    ),
    "no node is left": Case([(says({}), {})], [], PREFIX + "no candidate node for preemption"),
    "no answer is no node": Case(
        [(says(None), {})], [], PREFIX + "no candidate node for preemption"
    ),
    "one that fails and may be ignored has no say": Case(
        [(lambda _: Reply(500), {"ignorable": True}), (only("n1"), {})], ["on-n1"]
    ),
    "one that fails otherwise ends it": Case(
        [(lambda _: Reply(500), {"url_prefix": "http://x:1"})],
        [],
        NO_ROOM + "preemption: failed preempt with extender at URL http://x:1/preempt, code 500",
    ),
    "an unknown node is an error": Case(
        [(says({"n9": {"Pods": [{"UID": "x"}]}}), {})],
        [],
        NO_ROOM + 'preemption: nodeinfo not found for node name "n9"',
    ),
    "a pod that is not on the node is an error": Case(
        [(says({"n0": {"Pods": [{"UID": "x"}]}}), {"url_prefix": "http://x:1/"})],
        [],
        NO_ROOM + "preemption: extender: http://x:1/ claims to preempt pod (UID: x) on node: n0, "
        "but the pod is not found on that node",
    ),
    "a node without victims is an error": Case(
        [(says({"n0": {"Pods": []}}), {})],
        [],
        NO_ROOM + 'preemption: expected at least one victim pod on node "n0"',
    ),
    "a node without victims is left out if the extender may be ignored": Case(
        [(says({"n0": {"Pods": []}}), {"ignorable": True})],
        [],
        PREFIX + "no candidate node for preemption",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_preemption(case: Case) -> None:
    async def scenario() -> None:
        extenders = []
        for number, (verb, changes) in enumerate(case.extenders, start=1):
            fake = FakeExtender(preempt=verb)
            settings = {"url_prefix": f"http://extender:{number}", **changes}
            extenders.append((fake, fake.settings(**settings)))
        async with cluster_with(*extenders) as harness:
            await fill(harness, "n0", "n1")
            await harness.add(urgent())
            await harness.settle(0.5)
            assert await leaving(harness) == case.evicted
            pod = await harness.pod("urgent")
            if case.evicted:
                [victim] = case.evicted
                assert pod.status.nominated_node_name == victim.removeprefix("on-")
                note = (
                    f"Preempted by pod {pod.metadata.uid} on node {pod.status.nominated_node_name}"
                )
                assert note in await harness.notes(victim)
            else:
                assert pod.status.nominated_node_name == ""
                assert await harness.condition("urgent") == ("Unschedulable", case.message)

    run(scenario)


@pytest.mark.parametrize("by_name", [True, False])
def test_extenders_receive_the_victims_of_each_node(by_name: bool) -> None:
    async def scenario() -> None:
        extender = FakeExtender(preempt=echo)
        async with cluster_with(
            (extender, extender.settings(node_cache_capable=by_name))
        ) as harness:
            await fill(harness, "n0")
            await harness.add(urgent())
            await harness.settle(0.5)
            victim = await harness.pod("on-n0")
            [arguments] = extender.called("preempt")
            assert arguments["Pod"]["metadata"]["name"] == "urgent"
            if by_name:
                assert arguments["NodeNameToVictims"] is None
                assert arguments["NodeNameToMetaVictims"] == {
                    "n0": {"Pods": [{"UID": victim.metadata.uid}], "NumPDBViolations": 0}
                }
            else:
                assert arguments["NodeNameToMetaVictims"] is None
                shown = arguments["NodeNameToVictims"]["n0"]
                assert shown["NumPDBViolations"] == 0
                [pod] = shown["Pods"]
                assert pod["spec"]["nodeName"] == "n0"
                assert pod["spec"]["restartPolicy"] == "Always", "what no type declares, too"

    run(scenario)


def test_an_extender_that_is_not_interested_is_not_called() -> None:
    async def scenario() -> None:
        extender = FakeExtender(preempt=says({}))
        managed = (ExtenderManagedResource(name=FOO),)
        settings = extender.settings(managed_resources=managed)
        async with cluster_with((extender, settings)) as harness:
            await fill(harness, "n0")
            await harness.add(urgent())
            await harness.settle(0.5)
            assert await leaving(harness) == ["on-n0"]
        assert extender.calls == []

    run(scenario)


class TestChangesDuringExtenderCalls:
    """The cluster changes during the call of the extender, which agrees."""

    def test_the_preemptor_is_deleted(self) -> None:
        async def scenario() -> None:
            gate = Gate(echo)
            async with cluster_with(FakeExtender(preempt=gate)) as harness:
                await fill(harness, "n0", "n1")
                await harness.add(urgent())
                await harness.settle(0.1)
                assert gate.waiting == ["urgent"]
                await harness.delete_pod("urgent")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(5)
                assert await leaving(harness) == []
                assert harness.scheduler.queue.in_flight_pods == []
                assert await harness.notes("urgent") == []

        run(scenario)

    def test_a_node_is_added_during_the_review_of_victims(self) -> None:
        async def scenario() -> None:
            gate = Gate(echo)
            async with cluster_with(FakeExtender(preempt=gate)) as harness:
                await fill(harness, "n0", "n1")
                await harness.add(urgent())
                await harness.settle(0.1)
                await harness.add(*nodes("n2"))
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(5)
                assert await leaving(harness) == []
                assert await harness.node_of("urgent") == "n2"

        run(scenario)

    def test_a_victim_is_deleted_during_the_review(self) -> None:
        async def scenario() -> None:
            gate = Gate(echo)
            async with cluster_with(FakeExtender(preempt=gate)) as harness:
                await fill(harness, "n0", "n1")
                await harness.add(urgent())
                await harness.settle(0.1)
                await harness.delete_pod("on-n1")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(5)
                assert await leaving(harness) == ["on-n1"]
                assert await harness.node_of("urgent") == "n1"

        run(scenario)

    def test_a_candidate_node_is_deleted_during_the_review_of_victims(self) -> None:
        async def scenario() -> None:
            gate = Gate(echo)
            async with cluster_with(FakeExtender(preempt=gate)) as harness:
                await fill(harness, "n0", "n1")
                await harness.add(urgent())
                await harness.settle(0.1)
                await harness.api.delete(Node, "n0")
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.5)
                assert await leaving(harness) == ["on-n1"]

        run(scenario)

    def test_another_pod_occupies_the_room_permanently(self) -> None:
        """A pod as important as the preemptor is placed on n0: evicting on-n0 would not help."""

        async def scenario() -> None:
            gate = Gate(only("n0"))
            async with cluster_with(FakeExtender(preempt=gate)) as harness:
                await fill(harness, "n0", cpu="1")
                await harness.add(urgent())
                await harness.settle(0.1)
                other = urgent("other", cpu="700m")
                await harness.add(replace(other, spec=replace(other.spec, node_name="n0")))
                await harness.settle(0.1)
                gate.opened.set()
                await harness.settle(0.5)
                assert await leaving(harness) == []
                condition = await harness.condition("urgent")
                assert condition is not None
                assert "no candidate node for preemption" in condition[1]

        run(scenario)

    def test_pods_without_an_extender_are_placed_meanwhile(self) -> None:
        async def scenario() -> None:
            gate = Gate(echo)
            extender = FakeExtender(preempt=gate)
            managed = (ExtenderManagedResource(name=FOO, ignored_by_scheduler=True),)
            settings = extender.settings(managed_resources=managed)
            async with cluster_with((extender, settings)) as harness:
                await fill(harness, "n0")
                await harness.add(urgent(foo=1))
                await harness.settle(0.1)
                assert gate.waiting == ["urgent"]
                await harness.add(a_pod("small"))
                await harness.settle(0.1)
                assert await harness.node_of("small") == "n0"
                gate.opened.set()
                await harness.settle(0.5)
                assert await leaving(harness) == ["on-n0"]

        run(scenario)

    def test_an_extender_that_hangs_evicts_no_pod(self) -> None:
        async def scenario() -> None:
            async def never(_: Json) -> Json:
                await asyncio.Event().wait()
                raise AssertionError

            extender = FakeExtender(preempt=never)
            settings = extender.settings(url_prefix="http://x:1", http_timeout_ns=SECOND)
            async with cluster_with((extender, settings)) as harness:
                await fill(harness, "n0", "n1")
                await harness.add(urgent())
                await harness.settle(1.1)
                assert await leaving(harness) == []
                condition = await harness.condition("urgent")
                assert condition is not None
                assert "preemption: Post" in condition[1]

        run(scenario)


@pytest.mark.parametrize("judged_by", ["own rows", "the whole cluster"])
def test_a_node_that_extenders_refused_is_not_taken_for_room(judged_by: str) -> None:
    """The extender's filter refuses n2 each time, so the victims are evicted all the same."""
    spread = [make_spread(HOSTNAME, max_skew=5, labels={"a": "b"})]
    wishes: Json = {} if judged_by == "own rows" else {"spread": spread, "labels": {"a": "b"}}

    async def scenario() -> None:
        def not_n2(arguments: Json) -> Json:
            names = [name for name in arguments["NodeNames"] if name != "n2"]
            return {"NodeNames": names, "FailedNodes": {"n2": "not there"}}

        extender = FakeExtender(filter=not_n2, preempt=only("n0"))
        async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
            await fill(harness, "n0", "n1")
            await harness.add(*nodes("n2"))
            await harness.add(urgent(**wishes))
            await harness.settle(0.5)
            assert await leaving(harness) == ["on-n0"]
            assert len(extender.called("preempt")) == 1

    run(scenario)


def test_pods_on_a_node_that_only_an_extender_refuses_are_not_changed() -> None:
    """Both pods fit, so an eviction would not change the extender's response.

    docs/reference/06 §3.6.
    """

    async def scenario() -> None:
        def refuse(arguments: Json) -> Json:
            names = arguments["NodeNames"]
            return {"NodeNames": [], "FailedNodes": dict.fromkeys(names, "extender says no")}

        extender = FakeExtender(filter=refuse, preempt=echo)
        async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
            await fill(harness, "n0", cpu="4")
            await harness.add(urgent())
            await harness.settle(0.5)
            assert await leaving(harness) == []
            assert extender.called("preempt") == []
            assert await harness.condition("urgent") == (
                "Unschedulable",
                "0/1 nodes are available: 1 extender says no. "
                'preemption: expected at least one victim pod on node "n0"',
            )

    run(scenario)
