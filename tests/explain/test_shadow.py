"""Shadow mode for another kubesched scheduler, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from kubesched.api import Pod, ReplicaSet
from kubesched.api.codec import from_builtins
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.explain.shadow.decision_comparison import ComparedDecision
from kubesched.explain.shadow.ordered_changes import Change, OrderedChanges
from kubesched.explain.shadow.possible_states import (
    PodInFlight,
    PossibleStates,
    QueuePosition,
)
from kubesched.explain.shadow.shadow_entries import (
    AssumedState,
    ShadowEntry,
    ShadowReport,
    ShadowVerdict,
)
from kubesched.explain.shadow.shadow_ledger import ShadowLedger
from kubesched.explain.shadow.shadow_report import report_as_html, report_as_text
from kubesched.explain.shadow.shadow_watch import ShadowWatch
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MILLISECOND, SECOND, ManualClock
from kubesched.framework import ClusterChange
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.testing import make_node, make_pod, make_pvc
from tests.explain.shadow_harness import (
    Churn,
    ShadowHarness,
    completed,
    device_claim,
    device_objects,
    observe,
)

PACKING = configuration_from_builtins(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"score": {"disabled": [{"name": "NodeResourcesBalancedAllocation"}]}},
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"type": "MostAllocated"}},
                    }
                ],
            }
        ],
    }
)


def small_pod(name: str, **fields: object) -> Pod:
    return make_pod(name, requests={"cpu": "500m", "memory": "256Mi"}, images=["x"], **fields)


@pytest.mark.parametrize("seed", [1, 3])
def test_bindings_in_flight_and_churn_are_the_same_or_tied(seed: int) -> None:
    report = observe(seed, Churn(steps=80), latency_ms=5)
    assert report.compared > 100
    assert report.agreed == 1, report.differences
    assert report.states[AssumedState.QUEUE_ORDER] > 0  # overtaken bindings occurred


def test_a_scheduler_that_binds_at_once_needs_no_other_state() -> None:
    report = observe(7, Churn(steps=60), latency_ms=0, window_ns=0)
    assert report.compared > 50
    assert report.agreed == 1, report.differences
    assert report.states == {AssumedState.AS_SEEN: report.compared}


def test_the_shadow_only_lists_and_watches() -> None:
    async def main() -> set[str]:
        harness = ShadowHarness(0)
        await harness.run(_few_pods)
        return harness.requests

    assert virtual_loop.run(main) == {"list", "watch"}


async def _few_pods(harness: ShadowHarness) -> None:
    await harness.nodes(3)
    for number in range(4):
        await harness.create(small_pod(f"p{number}"))


def test_a_different_configuration_is_reported_with_the_points_of_both_nodes() -> None:
    async def step(harness: ShadowHarness) -> None:
        await harness.create(make_node("a", cpu="8"), make_node("b", cpu="8"))
        for number in range(2):
            await harness.create(small_pod(f"p{number}"))
            await asyncio.sleep(3)

    async def main() -> ShadowReport:
        return await ShadowHarness(0, own=PACKING, latency_ms=1).run(step)

    report = virtual_loop.run(main)
    # The first pod is tied. The other scheduler spreads the second one, the shadow packs it.
    assert report.compared == 2
    assert report.verdicts[ShadowVerdict.ANOTHER] == 1
    (difference,) = report.differences
    assert difference.pod == "default/p1"
    assert {difference.node, difference.own_node} == {"a", "b"}
    assert difference.plugin == "NodeResourcesFit"
    points = {each.plugin: each for each in difference.points}["NodeResourcesFit"]
    assert points.chosen > points.other


def test_a_filter_of_the_shadow_that_rejects_the_node_is_named() -> None:
    async def step(harness: ShadowHarness) -> None:
        tainted = make_node("a", taints=["team=x:NoSchedule"])
        await harness.create(tainted)
        await harness.create(small_pod("p"))

    other = configuration_from_builtins(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}},
                }
            ],
        }
    )

    async def main() -> ShadowReport:
        return await ShadowHarness(0, other=other, own=default_configuration()).run(step)

    report = virtual_loop.run(main)
    assert report.verdicts == {ShadowVerdict.ONLY_OTHER: 1}
    (difference,) = report.differences
    assert (difference.node, difference.plugin) == ("a", "TaintToleration")
    assert "untolerated taint" in difference.summary


def test_pods_that_only_the_shadow_places_are_found() -> None:
    async def step(harness: ShadowHarness) -> None:
        await harness.create(make_node("a", taints=["team=x:NoSchedule"]))
        await harness.create(small_pod("p"))

    own = configuration_from_builtins(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "default-scheduler",
                    "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}},
                }
            ],
        }
    )

    async def main() -> ShadowReport:
        return await ShadowHarness(0, own=own).run(step)

    report = virtual_loop.run(main)
    assert report.verdicts == {ShadowVerdict.ONLY_SHADOW: 1}
    assert report.differences[0].own_node == "a"


def test_a_sample_of_the_nodes_explains_a_worse_node() -> None:
    async def step(harness: ShadowHarness) -> None:
        # Every pod prefers the large nodes, which some samples lack.
        for number in range(130):
            await harness.create(make_node(f"n{number:03}", cpu="64" if number < 3 else "4"))
        for number in range(25):
            await harness.create(small_pod(f"p{number}"))
            await asyncio.sleep(0.5)

    sampling = replace(default_configuration(), percentage_of_nodes_to_score=50)

    async def main() -> ShadowReport:
        return await ShadowHarness(0, other=sampling, latency_ms=1).run(step)

    report = virtual_loop.run(main)
    assert report.compared == 25
    assert report.verdicts[ShadowVerdict.SAMPLED] > 0
    assert set(report.verdicts) <= {ShadowVerdict.SAME, ShadowVerdict.TIED, ShadowVerdict.SAMPLED}


def test_claims_are_compared_before_their_scheduler_prepares_them() -> None:
    async def step(harness: ShadowHarness) -> None:
        await harness.nodes(4)
        await harness.create(*device_objects(4))
        for number in range(6):
            await harness.create(make_pvc(f"v{number}", storage_class="standard"))
            await harness.create(device_claim(f"d{number}"))
            await harness.create(small_pod(f"v{number}", pvcs=[f"v{number}"]))
            await harness.create(small_pod(f"d{number}", resource_claims={"gpu": f"d{number}"}))
        await asyncio.sleep(20)

    async def main() -> tuple[ShadowReport, ShadowReport]:
        same = await ShadowHarness(0).run(step)
        packed = await ShadowHarness(0, own=PACKING, window_ns=0).run(step)
        return same, packed

    same, packed = virtual_loop.run(main)
    assert same.compared >= 12  # a binding that meets a conflict is decided again
    assert same.agreed == 1, same.differences
    # Compared with bound claims, only one node would be left.
    assert packed.agreed < 0.7


def test_a_scheduler_may_receive_a_pod_before_its_owner() -> None:
    """By default the pods of a ReplicaSet spread, once its selector is known."""

    def owned(app: str) -> ReplicaSet:
        document = {
            "metadata": {"name": app, "namespace": "default"},
            "spec": {
                "replicas": 3,
                "selector": {"matchLabels": {"app": app}},
                "template": {
                    "metadata": {"labels": {"app": app}},
                    "spec": {
                        "containers": [
                            {
                                "name": "main",
                                "image": "x",
                                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}},
                            }
                        ]
                    },
                },
            },
        }
        return from_builtins(document, ReplicaSet)

    async def step(harness: ShadowHarness) -> None:
        # Without spreading, the large node gets all pods.
        for number in range(6):
            cpu = "64" if number == 0 else "4"
            await harness.create(make_node(f"n{number}", zone=f"z{number % 3}", cpu=cpu))
        for number in range(8):
            await harness.create(owned(f"a{number}"))
            await asyncio.sleep(3)

    async def main() -> ShadowReport:
        harness = ShadowHarness(0, latency_ms=5, slow_watches=[ReplicaSet])
        return await harness.run(step)

    report = virtual_loop.run(main)
    assert report.compared == 24
    assert report.agreed == 1, report.differences
    assert report.states[AssumedState.EARLIER] > 0, "the watch was behind"


def changed(name: str, version: int, seen_ns: int) -> Change:
    return Change(seen_ns, make_node(name, resource_version=str(version)), None)


def test_changes_are_released_in_the_order_of_their_versions() -> None:
    held = OrderedChanges(10)
    for name, version, seen_ns in [("b", 6, 0), ("a", 5, 4), ("c", 7, 5)]:
        held.add(changed(name, version, seen_ns))
    # `a` arrived last of the first two and precedes `b`, so both wait for its window.
    assert held.release(13) is None
    found = [held.release(14), held.release(14), held.release(14)]
    assert [each and each.after.metadata.name for each in found] == ["a", "b", None]
    held.add(changed("late", 3, 14))
    late = held.release(30)
    assert late is not None
    assert late.is_late
    assert [each.after.metadata.name for each in held.next_ones()] == ["c"]


def entry(verdict: ShadowVerdict, number: int = 0) -> ShadowEntry:
    return ShadowEntry(
        at="2026-01-01T00:00:00Z",
        pod=f"default/p{number}",
        profile="default-scheduler",
        verdict=verdict,
        node="a",
        own_node="b",
        summary="b leads <a>",
        plugin="NodeResourcesFit",
    )


def test_the_ledger_stays_bounded_and_counts_everything() -> None:
    ledger = ShadowLedger(0)
    for number in range(5000):
        ledger.add(entry(ShadowVerdict.ANOTHER if number % 2 else ShadowVerdict.SAME, number))
    report = ledger.report(SECOND)
    assert report.compared == 5000
    assert report.verdicts == {ShadowVerdict.SAME: 2500, ShadowVerdict.ANOTHER: 2500}
    assert len(report.differences) == 1000
    assert report.differences[0].pod == "default/p4999"
    assert len(report.entries) == 200


def test_one_difference_among_many_decisions_is_not_rounded_to_100() -> None:
    ledger = ShadowLedger(0)
    ledger.add(entry(ShadowVerdict.ANOTHER))
    for _ in range(50_000):
        ledger.add(entry(ShadowVerdict.TIED))
    text = report_as_text(ledger.report(SECOND), 5)
    assert "99.99 % of 50001 decisions are the same or tied" in text
    assert "b leads <a>" in text
    assert "b leads &lt;a&gt;" in report_as_html(ledger.report(SECOND), 5)


def test_a_pod_that_came_later_was_not_placed_before_however_important_it_is() -> None:
    """Ten pods without importance came first, and their bindings are slower."""
    coming = [
        PodInFlight(QueuePosition(0, number), f"x{number}", False, "", make_pod(f"p{number}"))
        for number in range(10)
    ]
    states = PossibleStates(QueuePosition(-10, 99), "own", (), coming)

    def compare(changes: Sequence[ClusterChange]) -> ComparedDecision | None:
        return None if len(changes) == 10 else ComparedDecision(ShadowVerdict.ANOTHER, "other")

    assert states.find("chosen", compare) is AssumedState.QUEUE_ORDER


def test_other_tasks_run_between_decisions_that_take_long() -> None:
    clock = ManualClock(0)
    watch = ShadowWatch(LocalApi(Store(), clock), clock, completed(), IN_TREE_PLUGINS)
    turns = 0

    def advance(now_ns: int, most: int) -> bool:
        nonlocal turns
        turns += 1
        clock.advance(15 * MILLISECOND)
        return True

    watch.replay.advance = advance  # type: ignore[method-assign]
    assert watch._take_turn()
    assert turns == 2
