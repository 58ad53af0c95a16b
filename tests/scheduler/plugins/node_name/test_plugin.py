"""NodeName: a pod that names a node fits only that node."""

from __future__ import annotations

import pytest

from kubesched.framework import SUCCESS, Status
from kubesched.framework.causes import NodeNameMismatch
from kubesched.scheduler.plugins.node_name import NodeName
from kubesched.testing import check_plugin, make_node, make_pod, make_view, run_filter

OTHER = Status.unresolvable(
    "node(s) didn't match the requested node name", causes=(NodeNameMismatch(),)
)

CASES = {
    "a pod without a node name fits everywhere": ("", [SUCCESS, SUCCESS]),
    "a pod with a node name fits there only": ("b", [OTHER, SUCCESS]),
    "a pod that names an unknown node fits nowhere": ("c", [OTHER, OTHER]),
}


@pytest.mark.parametrize(("name", "want"), CASES.values(), ids=CASES)
def test_filter(name: str, want: list[Status]) -> None:
    nodes = make_view(make_node("a"), make_node("b"))
    assert run_filter(NodeName(), make_pod("p", node_name=name), nodes) == want


def test_every_added_node_requeues_the_pod() -> None:
    [registered] = NodeName().events_to_register()
    assert (registered.event.label, registered.hint) == ("NodeAdd", None)


def test_contract() -> None:
    check_plugin(NodeName)
