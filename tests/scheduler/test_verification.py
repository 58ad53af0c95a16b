from __future__ import annotations

import random

import pytest

from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeInfo,
    Plugin,
    PodInfo,
    PodPart,
    Reads,
    Status,
)
from kubesched.scheduler.search.verification import EngineMismatchError, VerifyingSearch
from kubesched.testing import make_node, make_pod
from tests.support import PluginHarness

NODES = [make_node(f"n{number}") for number in range(6)]


class CountsPodsOfNode(Plugin):
    """Reads the node only, as it declares."""

    name = "CountsPodsOfNode"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if len(node.pods) < 2 else Status.unschedulable("full")

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        return 100 - len(node.pods)


class CountsPodsOfAllNodes(CountsPodsOfNode):
    """Declares that it reads the node only, and counts the pods of all nodes."""

    name = "CountsPodsOfAllNodes"

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        everywhere = sum(len(each.pods) for each in self.handle.snapshot.nodes)
        return 100 - everywhere * (node.name == "n0")


def place_all(plugin: type[Plugin], pods: int) -> list[str]:
    harness = PluginHarness(plugin, nodes=NODES)
    algorithm = VerifyingSearch(harness.cache.snapshot, random.Random(0))
    placed = []
    for number in range(pods):
        harness.cache.update_snapshot()
        pod_info = PodInfo(make_pod(f"p{number}"))
        result = algorithm.schedule_pod(harness.framework, CycleState(), pod_info)
        harness.cache.assume_pod(pod_info.placed_on(result.node_name))
        placed.append(result.node_name)
    return placed


def test_an_honest_plugin_passes() -> None:
    placed = place_all(CountsPodsOfNode, 12)
    assert sorted(placed) == sorted([node.metadata.name for node in NODES] * 2)


def test_a_plugin_that_reads_more_than_it_declares_is_found() -> None:
    with pytest.raises(EngineMismatchError, match="differ in totals") as mismatch:
        place_all(CountsPodsOfAllNodes, 6)
    assert any("reads more than it declares" in note for note in mismatch.value.__notes__)
