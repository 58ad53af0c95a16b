"""The requests to extenders, and the effects of their responses (docs/reference/04 §18, §21)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kubesched.api import Node, Pod
from kubesched.foundation.util.components import running
from kubesched.framework import CycleState, NodeInfo, Plugin
from kubesched.scheduler.config.types import ExtenderConfig, ExtenderManagedResource
from kubesched.testing import make_node
from kubesched.testing.fakes.fake_extender import FakeExtender, Reply, keep_nodes, score_nodes
from kubesched.testing.objects.builders import ZONE
from tests.scheduler.extender_harness import FOO, ExtenderHarness, a_pod, cluster_with, nodes, run

Json = dict[str, Any]
MANAGED = (ExtenderManagedResource(name=FOO, ignored_by_scheduler=True),)


def only(*names: str) -> Callable[[str], bool]:
    return lambda name: name in names


class Case(NamedTuple):
    """Extenders with their settings, in a cluster of n0, n1, n2; the expected node or condition."""

    extenders: list[tuple[FakeExtender, Json]]
    node: str = ""
    condition: tuple[str, str] | None = None


def error(text: str) -> Callable[[Json], Json]:
    return lambda _: {"Error": text}


FAILED = "FailedNodes"
HOPELESS = "FailedAndUnresolvableNodes"
BY_NAME: Json = {"node_cache_capable": True}
IGNORABLE: Json = {"ignorable": True}
# "no new claims" comes from DynamicResources, which runs before preemption.
NO_ROOM_TO_MAKE = "no new claims to deallocate, preemption: 0/3 nodes are available: "

CASES = {
    "a filter leaves one node": Case(
        [(FakeExtender(filter=keep_nodes(only("n1"))), {})],
        "n1",
    ),
    "a filter that knows the nodes leaves one by name": Case(
        [(FakeExtender(filter=keep_nodes(only("n2"))), BY_NAME)],
        "n2",
    ),
    "two filters leave what both leave": Case(
        [
            (FakeExtender(filter=keep_nodes(only("n0", "n1"))), {}),
            (FakeExtender(filter=keep_nodes(only("n1", "n2"))), BY_NAME),
        ],
        "n1",
    ),
    "scores decide between nodes that plugins find equal": Case(
        [(FakeExtender(prioritize=score_nodes(lambda name: 7 if name == "n2" else 6)), {})],
        "n2",
    ),
    "scores count by the weights of their extenders": Case(
        [
            (FakeExtender(prioritize=score_nodes(lambda name: 3 * (name == "n0"))), {"weight": 2}),
            (FakeExtender(prioritize=score_nodes(lambda name: 5 * (name == "n1"))), {"weight": 1}),
        ],
        "n0",
    ),
    "an answer with other case in its keys is understood": Case(
        [(FakeExtender(filter=lambda _: {"nodenames": ["n1"]}), BY_NAME)],
        "n1",
    ),
    "names from an extender that was sent nodes are no answer": Case(
        [(FakeExtender(filter=lambda _: {"NodeNames": ["n1"]}), {})],
        condition=(
            "Unschedulable",
            "0/3 nodes are available: "
            + NO_ROOM_TO_MAKE
            + "3 Preemption is not helpful for scheduling.",
        ),
    ),
    "an empty answer leaves no node and gives no reason": Case(
        [(FakeExtender(filter=lambda _: {}), BY_NAME)],
        condition=(
            "Unschedulable",
            "0/3 nodes are available: "
            + NO_ROOM_TO_MAKE
            + "3 Preemption is not helpful for scheduling.",
        ),
    ),
    "reasons are counted, and without hope is worse than failed": Case(
        [
            (
                FakeExtender(
                    filter=lambda _: {
                        "NodeNames": [],
                        FAILED: {"n0": "no disk", "n1": "no disk", "n2": "no disk"},
                        HOPELESS: {"n2": "no way"},
                    }
                ),
                BY_NAME,
            )
        ],
        condition=(
            "Unschedulable",
            "0/3 nodes are available: 1 no way, 2 no disk. "
            + NO_ROOM_TO_MAKE
            + "1 Preemption is not helpful for scheduling, "
            + "2 No preemption victims found for incoming pod.",
        ),
    ),
    "an error of a filter fails the attempt": Case(
        [(FakeExtender(filter=error("out of order")), {})],
        condition=("SchedulerError", "out of order"),
    ),
    "a status that is no success fails the attempt": Case(
        [(FakeExtender(filter=lambda _: Reply(503)), {"url_prefix": "http://x:1/e//"})],
        condition=(
            "SchedulerError",
            "failed filter with extender at URL http://x:1/e/filter, code 503",
        ),
    ),
    "a name that was not asked about fails the attempt": Case(
        [
            (
                FakeExtender(filter=lambda _: {"NodeNames": ["n9"]}),
                {**BY_NAME, "url_prefix": "http://x:1/"},
            )
        ],
        condition=(
            "SchedulerError",
            'extender "http://x:1/" claims a filtered node "n9" which is not found in the '
            "input node list",
        ),
    ),
    "an error of a filter that may be ignored changes nothing": Case(
        [
            (FakeExtender(filter=error("out of order")), IGNORABLE),
            (FakeExtender(filter=keep_nodes(only("n1"))), {}),
        ],
        "n1",
    ),
    "an error of a score changes nothing, whether it may be ignored or not": Case(
        [
            (FakeExtender(prioritize=lambda _: Reply(500)), {}),
            (FakeExtender(prioritize=score_nodes(lambda name: 9 * (name == "n1"))), {}),
        ],
        "n1",
    ),
    "an answer that is no JSON fails the attempt": Case(
        [(FakeExtender(filter=lambda _: Reply(200, b"<html>")), {})],
        condition=("SchedulerError", "invalid character '<' looking for beginning of value"),
    ),
    "an empty body fails the attempt": Case(
        [(FakeExtender(filter=lambda _: Reply(200)), {})],
        condition=("SchedulerError", "EOF"),
    ),
    "scores of nodes outside the request are ignored": Case(
        [
            (
                FakeExtender(
                    prioritize=lambda _: [
                        {"Host": "n9", "Score": 10},
                        {"Host": "n2", "Score": 1},
                    ]
                ),
                {},
            )
        ],
        "n2",
    ),
    "an extender that manages something else is not asked": Case(
        [
            (FakeExtender(filter=error("never")), {"managed_resources": MANAGED}),
            (FakeExtender(filter=keep_nodes(only("n1"))), {}),
        ],
        "n1",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_one_pod_is_placed_with_extenders(case: Case) -> None:
    async def scenario() -> None:
        extenders = [
            (fake, fake.settings(**{"url_prefix": f"http://extender:{number}", **changes}))
            for number, (fake, changes) in enumerate(case.extenders, start=1)
        ]
        async with cluster_with(*extenders) as harness:
            await harness.add(*nodes("n0", "n1", "n2"), a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p") == case.node
            if case.condition is not None:
                assert await harness.condition("p") == case.condition
                # The written condition is a change of the pod, so it may be tried once more.
                assert set(await harness.notes("p")) == {case.condition[1]}
            else:
                assert await harness.notes("p") == [
                    f"Successfully assigned default/p to {case.node}"
                ]

    run(scenario)


def test_extenders_are_called_for_pods_that_request_a_managed_resource() -> None:
    async def scenario() -> None:
        extender = FakeExtender(filter=keep_nodes(only("n1")))
        settings = extender.settings(managed_resources=MANAGED)
        async with cluster_with((extender, settings)) as harness:
            await harness.add(
                *nodes("n0", "n1"),
                a_pod("plain"),
                # No node has any, and NodeResourcesFit is not to look.
                a_pod("requests", foo=1),
            )
            await harness.settle()
            assert {call["Pod"]["metadata"]["name"] for call in extender.called("filter")} == {
                "requests"
            }
            assert await harness.node_of("requests") == "n1"
            assert await harness.node_of("plain")

    run(scenario)


def test_ignorable_extenders_are_called_last() -> None:
    async def scenario() -> None:
        order: list[str] = []

        def noted(name: str) -> Callable[[Json], Json]:
            def answer(arguments: Json) -> Json:
                order.append(name)
                return {"NodeNames": arguments["NodeNames"]}

            return answer

        first = FakeExtender(filter=noted("may fail"))
        second = FakeExtender(filter=noted("must not"))
        async with cluster_with(
            (first, first.settings("/1", ignorable=True, **BY_NAME)),
            (second, second.settings("/2", **BY_NAME)),
        ) as harness:
            await harness.add(*nodes("n0"), a_pod("p"))
            await harness.settle()
        assert order == ["must not", "may fail"]

    run(scenario)


def test_filters_evaluate_only_the_remaining_nodes() -> None:
    async def scenario() -> None:
        first = FakeExtender(filter=keep_nodes(only("n0", "n2")))
        second = FakeExtender(filter=keep_nodes(lambda _: False))
        third = FakeExtender(filter=keep_nodes(lambda _: True))
        fakes = enumerate((first, second, third))
        asked = [(fake, fake.settings(f"/{number}", **BY_NAME)) for number, fake in fakes]
        async with cluster_with(*asked) as harness:
            await harness.add(*nodes("n0", "n1", "n2"), a_pod("p"))
            await harness.settle()
        assert sorted(first.called("filter")[0]["NodeNames"]) == ["n0", "n1", "n2"]
        assert sorted(second.called("filter")[0]["NodeNames"]) == ["n0", "n2"]
        assert third.calls == []

    run(scenario)


@pytest.mark.parametrize("by_name", [True, False])
def test_nodes_are_shown_as_they_are_listed_and_ranked_as_the_filter_left_them(
    by_name: bool,
) -> None:
    """Nodes are listed zone by turn; an extender may have its own idea of order."""

    def shown(arguments: Json) -> list[str]:
        if by_name:
            return list(arguments["NodeNames"])
        return [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]

    def turn_round(arguments: Json) -> Json:
        if by_name:
            return {"NodeNames": arguments["NodeNames"][::-1]}
        return {"Nodes": {"items": arguments["Nodes"]["items"][::-1]}}

    async def scenario() -> None:
        extender = FakeExtender(filter=turn_round, prioritize=score_nodes(lambda _: 1))
        settings = extender.settings(node_cache_capable=by_name)
        zones = {"n0": "a", "n1": "a", "n2": "b", "n3": "c"}
        async with cluster_with((extender, settings)) as harness:
            labelled = [make_node(name, cpu="1", labels={ZONE: z}) for name, z in zones.items()]
            await harness.add(*labelled, a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p")
        listed = ["n0", "n2", "n3", "n1"]
        assert [shown(call) for call in extender.called("filter")] == [listed]
        assert [shown(call) for call in extender.called("prioritize")] == [listed[::-1]]

    run(scenario)


def test_other_extenders_get_a_node_that_an_extender_invented_but_no_pod_is_placed_there() -> None:
    async def scenario() -> None:
        first = FakeExtender(
            filter=lambda asked: {
                "Nodes": {"items": [{"metadata": {"name": "ghost"}}, asked["Nodes"]["items"][0]]}
            }
        )
        second = FakeExtender(
            filter=keep_nodes(lambda _: True),
            prioritize=score_nodes(lambda name: 10 * (name == "ghost")),
        )
        asked = [(first, first.settings("/0")), (second, second.settings("/1", **BY_NAME))]
        async with cluster_with(*asked) as harness:
            await harness.add(*nodes("n0", "n1"), a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p") == "n0"
        assert [call["NodeNames"] for call in second.called("filter")] == [["ghost", "n0"]]
        assert [set(call["NodeNames"]) for call in second.called("prioritize")] == [{"ghost", "n0"}]

    run(scenario)


def test_a_pod_with_only_invented_nodes_waits_for_an_event() -> None:
    async def scenario() -> None:
        made_up = {"Nodes": {"items": [{"metadata": {"name": "ghost"}}]}}
        extender = FakeExtender(filter=lambda _: made_up)
        async with cluster_with(extender) as harness:
            await harness.add(*nodes("n0"), a_pod("p"))
            await harness.settle(5)
            assert await harness.node_of("p") == ""
            assert harness.scheduler.queue.unschedulable_pods
            extender.verbs["filter"] = keep_nodes(lambda _: True)
            await harness.add(*nodes("n1"))
            await harness.settle(5)
            assert await harness.node_of("p")

    run(scenario)


def test_a_single_node_is_not_ranked() -> None:
    async def scenario() -> None:
        extender = FakeExtender(prioritize=score_nodes(lambda _: 1))
        async with cluster_with(extender) as harness:
            await harness.add(*nodes("n0"), a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p") == "n0"
        assert extender.calls == []

    run(scenario)


@pytest.mark.parametrize(("score", "winner"), [(5, "n1"), (4, "n0")])
def test_plugins_and_extenders_are_added_up(score: int, winner: str) -> None:
    """A plugin's 99 against an extender's score with weight 2, times ten (case 73)."""

    class PrefersNode(Plugin):
        name = "PrefersNode"

        def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
            return 99 if node.name == "n0" else 0

    async def scenario() -> None:
        extender = FakeExtender(prioritize=score_nodes(lambda name: score * (name == "n1")))
        settings = extender.settings(weight=2)
        # All other plugins give both nodes the same score.
        async with cluster_with((extender, settings), plugins=[PrefersNode]) as harness:
            await harness.add(*nodes("n0", "n1"), a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p") == winner

    run(scenario)


def test_nodes_that_an_extender_returned_are_scored_as_returned() -> None:
    """Without the pods on them, and with the returned labels (docs/reference/04 §18.3)."""

    async def scenario() -> None:
        seen: list[tuple[str, int, dict[str, str]]] = []

        class RecordsPods(Plugin):
            name = "RecordsPods"

            def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
                if pod.metadata.name == "p":
                    seen.append((node.name, len(node.pods), dict(node.labels)))
                return 100 if node.labels.get("bright") else 0

        def brighten(arguments: Json) -> Json:
            items = arguments["Nodes"]["items"]
            for node in items:
                if node["metadata"]["name"] == "n1":
                    node["metadata"]["labels"]["bright"] = "yes"
            return {"Nodes": {"items": items}}

        extender = FakeExtender(filter=brighten)
        async with cluster_with(extender, plugins=[RecordsPods]) as harness:
            await harness.add(*nodes("n0", "n1"))
            await harness.add(a_pod("before-0"), a_pod("before-1"))
            await harness.settle()
            await harness.add(a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p") == "n1"
        assert sorted((name, pods) for name, pods, _ in seen) == [("n0", 0), ("n1", 0)]
        assert {name: labels for name, _, labels in seen}["n1"]["bright"] == "yes"

    run(scenario)


def test_a_second_extender_gets_nodes_as_the_first_returned_them() -> None:
    async def scenario() -> None:
        def slim(arguments: Json) -> Json:
            names = [node["metadata"]["name"] for node in arguments["Nodes"]["items"]]
            return {"Nodes": {"items": [{"metadata": {"name": name}} for name in names]}}

        first, second = FakeExtender(filter=slim), FakeExtender(filter=keep_nodes(only("n1")))
        async with cluster_with(first, second) as harness:
            await harness.add(*nodes("n0", "n1"), a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p") == "n1"
        [arguments] = second.called("filter")
        for node in arguments["Nodes"]["items"]:
            assert node["spec"] == {}
            assert node["status"]["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}
            assert node["status"]["nodeInfo"]["kubeletVersion"] == ""
            assert "labels" not in node["metadata"]

    run(scenario)


class TestBinding:
    def test_the_interested_extender_binds(self) -> None:
        async def scenario() -> None:
            extender = FakeExtender(bind=lambda _: {})
            async with cluster_with(
                (extender, extender.settings(managed_resources=MANAGED))
            ) as harness:

                async def bind(arguments: Json) -> Json:
                    await harness.api.bind(
                        arguments["PodNamespace"],
                        arguments["PodName"],
                        arguments["PodUID"],
                        arguments["Node"],
                    )
                    return {"Error": ""}

                extender.verbs["bind"] = bind
                await harness.add(*nodes("n0"), a_pod("foo", foo=1), a_pod("plain"))
                await harness.settle()
                foo = await harness.pod("foo")
                assert foo.spec.node_name == "n0"
                assert await harness.node_of("plain") == "n0"
                assert extender.called("bind") == [
                    {
                        "PodName": "foo",
                        "PodNamespace": "default",
                        "PodUID": foo.metadata.uid,
                        "Node": "n0",
                    }
                ]
                assert await harness.notes("foo") == ["Successfully assigned default/foo to n0"]

        run(scenario)

    @pytest.mark.parametrize("ignorable", [True, False])
    def test_a_failing_binder_fails_the_pod_unless_it_may_be_ignored(self, ignorable: bool) -> None:
        async def scenario() -> None:
            extender = FakeExtender(bind=error("bind refused by extender"))
            async with cluster_with((extender, extender.settings(ignorable=ignorable))) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle()
                if ignorable:
                    assert await harness.node_of("p") == "n0"
                else:
                    assert await harness.node_of("p") == ""
                    assert await harness.notes("p") == ["bind refused by extender"]
                    assert await harness.condition("p") == (
                        "SchedulerError",
                        "bind refused by extender",
                    )
                    assert harness.scheduler.cache.assumed_count == 0

        run(scenario)

    def test_no_extender_binds_for_a_scheduler_without_the_lease(self) -> None:
        async def scenario() -> None:
            leads = True
            extender = FakeExtender(bind=lambda _: {})
            async with cluster_with(extender, may_act=lambda: leads) as harness:
                await harness.add(*nodes("n0"), a_pod("before"))
                await harness.settle(0.1)
                leads = False
                await harness.add(a_pod("after"))
                await harness.settle(0.1)
                assert [call["PodName"] for call in extender.called("bind")] == ["before"]

        run(scenario)


class TestWithoutInterest:
    def test_no_node_is_cached_as_json_for_an_extender_that_only_binds(self) -> None:
        async def scenario() -> None:
            extender = FakeExtender(bind=error("no"))
            async with cluster_with(extender) as harness:
                await harness.add(*nodes("n0"), a_pod("p"))
                await harness.settle()
                assert len(harness.scheduler._documents or ()) == 0

        run(scenario)

    def test_without_score_plugins_a_filter_is_shown_all_nodes_that_fit(self) -> None:
        """Case 8: with no Score plugin the search would end at the first node that fits."""

        async def scenario() -> None:
            extender = FakeExtender(filter=keep_nodes(lambda _: True))
            profile = {
                "plugins": {
                    "multiPoint": {
                        "enabled": [
                            {"name": name}
                            for name in ("PrioritySort", "NodeUnschedulable", "DefaultBinder")
                        ],
                        "disabled": [{"name": "*"}],
                    }
                }
            }
            settings = extender.settings(**BY_NAME)
            async with cluster_with((extender, settings), profiles=[profile]) as harness:
                await harness.add(*nodes("n0", "n1"), a_pod("p"))
                await harness.settle()
                assert await harness.node_of("p")
            assert sorted(extender.called("filter")[0]["NodeNames"]) == ["n0", "n1"]

        run(scenario)


def test_a_pod_rejected_by_an_extender_is_retried_after_any_relevant_event() -> None:
    async def scenario() -> None:
        refused = {"n0"}
        extender = FakeExtender(filter=keep_nodes(lambda name: name not in refused))
        async with cluster_with((extender, extender.settings(**BY_NAME))) as harness:
            await harness.add(*nodes("n0"), a_pod("p"))
            await harness.settle()
            assert await harness.node_of("p") == ""
            refused.clear()
            await harness.settle(20)
            assert await harness.node_of("p") == "", "nothing has happened that could help"
            patch = {"metadata": {"annotations": {"a": "b"}}}
            await harness.api.patch(Node, "n0", None, patch)
            await harness.settle(3)
            assert await harness.node_of("p") == "n0"

    run(scenario)


@pytest.mark.parametrize(
    ("leaves", "asked", "node"),
    [
        (only("n1"), [["n1"]], "n1"),
        (only("n0"), [["n1"], ["n0", "n1"]], "n0"),
    ],
    ids=["its node suits it", "its node is refused"],
)
def test_the_nominated_node_is_evaluated_first(
    leaves: Callable[[str], bool], asked: list[list[str]], node: str
) -> None:
    async def scenario() -> None:
        extender = FakeExtender(filter=keep_nodes(leaves), prioritize=score_nodes(lambda _: 0))
        harness = ExtenderHarness([(extender, extender.settings(**BY_NAME))])
        await harness.add(*nodes("n0", "n1"), a_pod("p"))
        status = {"status": {"nominatedNodeName": "n1"}}
        await harness.api.patch(Pod, "p", "default", status, subresource="status")
        async with running(harness.scheduler):
            await harness.settle()
            assert await harness.node_of("p") == node
        calls = extender.called("filter")
        assert [sorted(call["NodeNames"]) for call in calls] == asked
        assert extender.called("prioritize") == []

    run(scenario)


def test_an_error_about_the_nominated_node_is_no_error() -> None:
    async def scenario() -> None:
        def answer(arguments: Json) -> Json:
            names = arguments["NodeNames"]
            return {"Error": "hm"} if names == ["n1"] else {"NodeNames": ["n0"]}

        extender = FakeExtender(filter=answer)
        harness = ExtenderHarness([(extender, extender.settings(**BY_NAME))])
        await harness.add(*nodes("n0", "n1"), a_pod("p"))
        status = {"status": {"nominatedNodeName": "n1"}}
        await harness.api.patch(Pod, "p", "default", status, subresource="status")
        async with running(harness.scheduler):
            await harness.settle()
            assert await harness.node_of("p") == "n0"

    run(scenario)


def test_settings_of_a_fake_name_the_verbs_that_it_has() -> None:
    fake = FakeExtender(filter=keep_nodes(only()), prioritize=score_nodes(lambda _: 0))
    assert fake.settings("/x") == ExtenderConfig(
        url_prefix=f"{fake.url}/x", filter_verb="filter", prioritize_verb="prioritize", weight=1
    )
