"""NodeUnschedulable: a cordoned node accepts tolerating pods only."""

from __future__ import annotations

import pytest

from kubesched.api import Node, Pod
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    EventResource,
    QueueingHint,
    Status,
)
from kubesched.framework.causes import NodeCordoned
from kubesched.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kubesched.testing import check_plugin, make_node, make_pod, make_view, run_filter

CORDONED = Status.unresolvable("node(s) were unschedulable", causes=(NodeCordoned(),))
KEY = "node.kubernetes.io/unschedulable"

FILTER_CASES = {
    "a plain pod avoids the cordoned node": ((), [SUCCESS, CORDONED, SUCCESS]),
    "a toleration of another effect does not help": (
        [f"{KEY}:NoExecute"],
        [SUCCESS, CORDONED, SUCCESS],
    ),
    "a toleration of the cordon does": ([f"{KEY}:NoSchedule"], [SUCCESS] * 3),
    "a toleration of everything does": ([""], [SUCCESS] * 3),
}


@pytest.mark.parametrize(("tolerations", "want"), FILTER_CASES.values(), ids=FILTER_CASES)
def test_filter(tolerations: list[str], want: list[Status]) -> None:
    nodes = make_view(
        make_node("a"),
        make_node("b", unschedulable=True),
        # This plugin does not check the taint itself.
        make_node("c", taints=[f"{KEY}:NoSchedule"]),
    )
    assert run_filter(NodeUnschedulable(), make_pod("p", tolerations=tolerations), nodes) == want


OPEN, CLOSED = make_node("n"), make_node("n", unschedulable=True)

NODE_CASES = {
    "an open node appeared": (None, OPEN, QueueingHint.QUEUE),
    "a cordoned node appeared": (None, CLOSED, QueueingHint.SKIP),
    "a node was uncordoned": (CLOSED, OPEN, QueueingHint.QUEUE),
    "a node was cordoned": (OPEN, CLOSED, QueueingHint.SKIP),
    "an open node stayed open": (OPEN, OPEN, QueueingHint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CASES.values(), ids=NODE_CASES)
def test_node_hint(old: Node | None, new: Node, want: QueueingHint) -> None:
    registered = NodeUnschedulable().events_to_register()[0]
    for action in (ActionType.ADD, ActionType.UPDATE_NODE_TAINT):
        assert registered.event.matches(ClusterEvent(EventResource.NODE, action))
    assert registered.hint is not None
    assert registered.hint(make_pod("p"), old, new) is want


POD_CASES = {
    "the pod now tolerates the cordon": (make_pod("p", tolerations=[KEY]), QueueingHint.QUEUE),
    "the pod tolerates something else": (make_pod("p", tolerations=["x"]), QueueingHint.SKIP),
    "another pod tolerates the cordon": (make_pod("q", tolerations=[KEY]), QueueingHint.SKIP),
}


@pytest.mark.parametrize(("new", "want"), POD_CASES.values(), ids=POD_CASES)
def test_toleration_hint(new: Pod, want: QueueingHint) -> None:
    registered = NodeUnschedulable().events_to_register()[1]
    assert registered.event.label == "PodUpdatePodToleration"
    assert registered.hint is not None
    assert registered.hint(make_pod("p"), make_pod(new.metadata.name), new) is want


def test_contract() -> None:
    check_plugin(NodeUnschedulable)
