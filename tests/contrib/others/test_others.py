"""NodeResourcesAllocatable and PreemptionToleration."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from kubesched.api import PriorityClass
from kubesched.contrib.node_metadata import NodeMetadata, NodeMetadataArgs
from kubesched.contrib.node_resources_allocatable import (
    NodeResourcesAllocatable,
    NodeResourcesAllocatableArgs,
)
from kubesched.contrib.pod_state import PodState
from kubesched.contrib.preemption_toleration import (
    MINIMUM_PRIORITY,
    TOLERATION_SECONDS,
    PreemptionToleration,
)
from kubesched.contrib.qos_sort import QOSSort
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import QueuedPodInfo
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_container,
    make_node,
    make_pod,
    run_score,
)
from tests.contrib.harness import ContribHarness


@pytest.mark.parametrize(
    "plugin", [NodeMetadata, NodeResourcesAllocatable, PodState, PreemptionToleration, QOSSort]
)
def test_the_plugins_fulfil_the_contract(plugin: Any) -> None:
    check_plugin(plugin)


@pytest.mark.parametrize(("mode", "want"), [("Least", [100, 50, 0]), ("Most", [0, 50, 100])])
def test_small_or_large_nodes_score_highest(mode: str, want: list[int]) -> None:
    nodes = [make_node(f"n{size}", cpu=str(size), memory=f"{size}Gi") for size in (2, 4, 6)]
    args = msgspec.convert({"mode": mode}, NodeResourcesAllocatableArgs)
    plugin = NodeResourcesAllocatable(args, FakeHandle())
    pod, view = make_pod("p"), FakeHandle(nodes).snapshot.nodes
    found: Any = plugin.normalize_score(
        None,
        pod,
        view,
        plugin.score_nodes(None, pod, view),  # type: ignore[arg-type]
    )
    assert found.tolist() == want
    assert list(run_score(plugin, pod, view)) == list(run_score(plugin, pod, view))


def metadata_scores(values: list[str | None], **args: Any) -> list[int]:
    """Return the normalized scores of nodes with these labels."""
    nodes = [
        make_node(f"n{number}", labels={} if value is None else {"key": value})
        for number, value in enumerate(values)
    ]
    plugin = NodeMetadata(msgspec.convert({"metadataKey": "key", **args}, NodeMetadataArgs))
    pod, view = make_pod("p"), FakeHandle(nodes).snapshot.nodes
    raw = plugin.score_nodes(None, pod, view)  # type: ignore[arg-type]
    found: Any = plugin.normalize_score(None, pod, view, raw)  # type: ignore[arg-type]
    return list(found)


def test_node_metadata_scores_numbers_and_times() -> None:
    numbers: list[str | None] = ["1.5", "2.5", None, "many", "3.5"]
    assert metadata_scores(numbers) == [0, 50, 0, 0, 100]
    assert metadata_scores(numbers, scoringStrategy="Lowest") == [100, 50, 0, 0, 0]
    assert metadata_scores(numbers, defaultValue="2.5") == [0, 50, 50, 0, 100]
    times = {"metadataType": "Timestamp", "scoringStrategy": "Newest"}
    days: list[str | None] = ["2026-01-01", "2026-01-11", "2026-01-06"]
    assert metadata_scores(days, timestampFormat="2006-01-02", **times) == [0, 100, 50]
    moments: list[str | None] = ["2026-01-01T00:00:00Z", "2026-01-01T02:00:00+01:00"]
    assert metadata_scores(moments, **times) == [0, 100]
    with pytest.raises(msgspec.ValidationError, match="Newest or Oldest"):
        metadata_scores(days, metadataType="Timestamp")


def test_pod_state_prefers_nodes_that_pods_leave() -> None:
    nodes = [make_node(name) for name in "abc"]
    leaving = make_pod("leaving", node_name="b")
    leaving = replace(
        leaving, metadata=replace(leaving.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    )
    handle = FakeHandle([*nodes, leaving])
    plugin, pod, view = PodState(None, handle), make_pod("p"), handle.snapshot.nodes
    assert list(plugin.score_nodes(None, pod, view)) == [0, 1, 0]  # type: ignore[arg-type]


def test_qos_sort_puts_guaranteed_pods_first() -> None:
    amounts = {"cpu": "1", "memory": "1Gi"}
    pods = [
        make_pod("best-effort"),
        make_pod("burstable", requests={"cpu": "1"}),
        make_pod("guaranteed", containers=[make_container(requests=amounts, limits=amounts)]),
        make_pod("important", priority=5),
    ]
    queued = [QueuedPodInfo(pod, 1) for pod in pods]
    ordered = sorted(queued, key=QOSSort().sort_key)
    names = [each.pod.metadata.name for each in ordered]
    assert names == ["important", "guaranteed", "burstable", "best-effort"]


def test_wrong_arguments_are_refused() -> None:
    for wrong in ({"mode": "All"}, {"resources": [{"name": "cpu", "weight": 0}]}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, NodeResourcesAllocatableArgs)


def remaining(annotations: dict[str, str], preemptor: int, seconds: int = 60) -> set[str]:
    """Return the running pod after a while: a tolerating one of priority 10, or a preemptor."""

    async def main() -> set[str]:
        point = {"enabled": [{"name": "PreemptionToleration"}], "disabled": [{"name": "*"}]}
        harness = ContribHarness({"plugins": {"postFilter": point}}, [PreemptionToleration], [])
        await harness.node("n", cpu="1")
        document = {"metadata": {"name": "tolerant", "annotations": annotations}, "value": 10}
        await harness.api.create_document(PriorityClass, None, document)
        async with harness.live.running():
            await harness.pod("victim", priorityClassName="tolerant")
            await asyncio.sleep(5)
            await harness.pod("preemptor", priority=preemptor)
            await asyncio.sleep(seconds)
            return await harness.placed()

    return run(main)


@pytest.mark.parametrize(
    ("annotations", "preemptor", "want"),
    [
        ({}, 20, "preemptor"),
        ({MINIMUM_PRIORITY: "100"}, 20, "preemptor"),
        ({MINIMUM_PRIORITY: "100", TOLERATION_SECONDS: "-1"}, 20, "victim"),
        ({MINIMUM_PRIORITY: "100", TOLERATION_SECONDS: "-1"}, 100, "preemptor"),
        ({MINIMUM_PRIORITY: "100", TOLERATION_SECONDS: "3600"}, 20, "victim"),
        ({MINIMUM_PRIORITY: "100", TOLERATION_SECONDS: "3"}, 20, "preemptor"),
        ({MINIMUM_PRIORITY: "high"}, 20, "preemptor"),
    ],
)
def test_pods_tolerate_preemptors(annotations: dict[str, str], preemptor: int, want: str) -> None:
    assert remaining(annotations, preemptor) == {want}


def test_a_toleration_ends() -> None:
    annotations = {MINIMUM_PRIORITY: "100", TOLERATION_SECONDS: "120"}
    assert remaining(annotations, 20) == {"victim"}
    assert remaining(annotations, 20, seconds=600) == {"preemptor"}
