"""Filters in a dry run: which plugins are called, and whose verdict counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from kubesched.api import Pod
from kubesched.errors import PluginError
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeInfo,
    NodeView,
    Plugin,
    PodInfo,
    PodsOnNode,
    Reads,
    Rejections,
    Status,
    TotalsView,
)
from kubesched.testing import make_node, make_pod
from tests.support import PluginHarness, plugin_class

NOTHING, TOTALS, SPECS, DETAIL = PodsOnNode

NODES = [make_node(name) for name in ("a", "b", "c")]


def filter_plugin(name: str, matter: PodsOnNode, *rejected: str, **more: Any) -> type[Plugin]:
    """A filter in both forms that rejects the nodes named, and every node with 5 pods."""
    status = Status.unschedulable(f"{name} says no")

    def filter_(state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return status if node.name in rejected or len(node.pods) == 5 else SUCCESS

    def filter_nodes(state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        held = np.isin(list(nodes.names), rejected) | (nodes.pod_count == 5)
        return Rejections.where(held, status)

    return plugin_class(
        name, filter=filter_, filter_nodes=filter_nodes, reads=Reads(pods_on_node=matter), **more
    )


def ask(
    harness: PluginHarness,
    *pod_counts: int,
    again: bool = False,
    in_full: bool = False,
    skip: str = "",
) -> list[str]:
    """Return each node's verdict with this many pods on it."""
    nodes = harness.cache.update_snapshot().nodes
    view = TotalsView(nodes, nodes.rows, np.zeros((3, 3), dtype=np.int64), np.array(pod_counts))
    state = CycleState()
    state.skip_filter = {skip}
    found = harness.framework.dry_run.filter_nodes(
        state, make_pod("p"), view, again=again, in_full=in_full
    )
    statuses = [found.status(place) for place in range(3)]
    return ["" if status is None else f"{status.plugin}: {status.message}" for status in statuses]


def test_the_first_filter_that_rejects_a_node_is_the_one_that_counts() -> None:
    harness = PluginHarness(
        filter_plugin("A", NOTHING, "a"),
        filter_plugin("B", TOTALS, "a", "b"),
        filter_plugin("C", TOTALS, "c", "b"),
        nodes=NODES,
    )
    assert ask(harness, 0, 0, 0) == ["A: A says no", "B: B says no", "C: C says no"]
    assert ask(harness, 0, 0, 0, skip="B") == ["A: A says no", "C: C says no", "C: C says no"]
    assert ask(harness, 0, 0, 0, again=True) == ["B: B says no", "B: B says no", "C: C says no"]


def test_totals_are_those_of_the_dry_run() -> None:
    harness = PluginHarness(filter_plugin("A", TOTALS), nodes=NODES)
    assert ask(harness, 5, 4, 5) == ["A: A says no", "", "A: A says no"]
    assert ask(harness, 0, 0, 0) == ["", "", ""]


def test_filters_behind_one_that_reads_single_pods_are_not_called() -> None:
    harness = PluginHarness(
        filter_plugin("A", TOTALS, "a"),
        filter_plugin("B", DETAIL),
        filter_plugin("C", TOTALS, "c"),
        nodes=NODES,
    )
    assert ask(harness, 0, 0, 0) == ["A: A says no", "", ""]
    assert ask(harness, 0, 0, 0, skip="B") == ["A: A says no", "", "C: C says no"]


def test_a_full_search_calls_all_filters_in_their_order() -> None:
    harness = PluginHarness(
        filter_plugin("A", TOTALS, "a"),
        filter_plugin("B", DETAIL, "a", "b"),
        filter_plugin("C", TOTALS, "b", "c"),
        nodes=NODES,
    )
    assert ask(harness, 0, 0, 0, in_full=True) == ["A: A says no", "B: B says no", "C: C says no"]
    # In the second call, filters that read single pods have accepted the nodes.
    assert ask(harness, 0, 0, 0, again=True) == ["A: A says no", "C: C says no", "C: C says no"]


def ignoring(name: str, **more: Any) -> type[Plugin]:
    """A filter that reads single pods, but ignores those with its own name."""
    return filter_plugin(
        name,
        DETAIL,
        ignores=lambda _state, _pod, other: other.pod.metadata.name == name,
        **more,
    )


def test_a_pod_makes_no_difference_if_all_plugins_that_read_single_pods_ignore_it() -> None:
    framework = PluginHarness(filter_plugin("A", TOTALS), ignoring("B"), nodes=NODES).framework
    is_ignored = framework.dry_run.ignored_pods(CycleState(), make_pod("p"))
    assert is_ignored is not None
    assert is_ignored(PodInfo(make_pod("B")))
    assert not is_ignored(PodInfo(make_pod("C")))
    both = PluginHarness(ignoring("B"), ignoring("C"), nodes=NODES).framework
    is_ignored = both.dry_run.ignored_pods(CycleState(), make_pod("p"))
    assert is_ignored is not None
    assert not is_ignored(PodInfo(make_pod("B")))


CANNOT_TELL: dict[str, type[Plugin]] = {
    "a plugin does not declare it": filter_plugin("B", DETAIL),
    "only the one-node form exists": plugin_class(
        "B", filter=lambda *_: SUCCESS, ignores=lambda *_: True
    ),
    "a plugin has hooks only": plugin_class(
        "B", pre_filter=lambda *_: SUCCESS, remove_pod=lambda *_: SUCCESS
    ),
}


@pytest.mark.parametrize("plugin", CANNOT_TELL.values(), ids=CANNOT_TELL)
def test_without_declarations_ignored_pods_are_unknown(plugin: type[Plugin]) -> None:
    framework = PluginHarness(plugin, nodes=NODES).framework
    state = CycleState()
    assert framework.dry_run.ignored_pods(state, make_pod("p")) is None
    state.skip_filter.add("B")
    assert framework.dry_run.ignored_pods(state, make_pod("p")) is not None


SUFFICE: dict[str, tuple[type[Plugin], bool]] = {
    "pods do not matter": (filter_plugin("B", NOTHING), True),
    "totals matter": (filter_plugin("B", TOTALS), True),
    "single pods matter": (filter_plugin("B", DETAIL), False),
    "a plugin does not declare it": (plugin_class("B", filter=lambda *_: SUCCESS), False),
    "only the one-node form exists": (
        plugin_class("B", filter=lambda *_: SUCCESS, reads=Reads(pods_on_node=TOTALS)),
        False,
    ),
    "hooks follow single pods": (
        filter_plugin("B", TOTALS, pre_filter=lambda *_: SUCCESS, add_pod=lambda *_: SUCCESS),
        False,
    ),
}


@pytest.mark.parametrize(("plugin", "want"), SUFFICE.values(), ids=SUFFICE)
def test_totals_suffice(plugin: type[Plugin], want: bool) -> None:
    framework = PluginHarness(filter_plugin("A", TOTALS), plugin, nodes=NODES).framework
    state = CycleState()
    assert framework.dry_run.reads_totals_only(state) is want
    state.skip_filter.add("B")
    assert framework.dry_run.reads_totals_only(state)


def test_a_failing_filter_is_reported() -> None:
    def fails(*_: object) -> Rejections:
        raise ValueError("no idea")

    broken = plugin_class(
        "A", filter=lambda *_: SUCCESS, filter_nodes=fails, reads=Reads(pods_on_node=TOTALS)
    )
    with pytest.raises(PluginError, match='running "A" filter plugin: no idea'):
        ask(PluginHarness(broken, nodes=NODES), 0, 0, 0)
