"""NodeResourcesAllocatable and PreemptionToleration."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from kubesched.api import PriorityClass
from kubesched.contrib.node_resources_allocatable import (
    NodeResourcesAllocatable,
    NodeResourcesAllocatableArgs,
)
from kubesched.contrib.preemption_toleration import (
    MINIMUM_PRIORITY,
    TOLERATION_SECONDS,
    PreemptionToleration,
)
from kubesched.foundation.util.virtual_loop import run
from kubesched.testing import FakeHandle, check_plugin, make_node, make_pod, run_score
from tests.contrib.harness import ContribHarness


@pytest.mark.parametrize("plugin", [NodeResourcesAllocatable, PreemptionToleration])
def test_the_plugins_keep_the_contract(plugin: Any) -> None:
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


def test_wrong_arguments_are_refused() -> None:
    for wrong in ({"mode": "All"}, {"resources": [{"name": "cpu", "weight": 0}]}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(wrong, NodeResourcesAllocatableArgs)


def remaining(annotations: dict[str, str], preemptor: int, seconds: int = 60) -> set[str]:
    """A pod of priority 10 with a tolerating class, and a preemptor; who runs after a while?"""

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
