"""Queueing hints of NodeAffinity."""

from __future__ import annotations

import pytest

from kubesched.api import Node
from kubesched.errors import SelectorError
from kubesched.framework import QueueingHint
from kubesched.scheduler.config.args import NodeAffinityArgs
from kubesched.scheduler.plugins.node_affinity import NodeAffinity
from kubesched.testing import make_affinity, make_node, make_node_selector, make_node_term, make_pod

SSD, HDD = make_node("n", labels={"disk": "ssd"}), make_node("n", labels={"disk": "hdd"})
POD = make_pod("p", node_selector={"disk": "ssd"})

CASES = {
    "a matching node appeared": (None, SSD, QueueingHint.QUEUE),
    "another node appeared": (None, HDD, QueueingHint.SKIP),
    "a node came to match": (HDD, SSD, QueueingHint.QUEUE),
    "a node still matches": (SSD, SSD, QueueingHint.SKIP),
    "a node no longer matches": (SSD, HDD, QueueingHint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), CASES.values(), ids=CASES)
def test_hint(old: Node | None, new: Node, want: QueueingHint) -> None:
    [registered] = NodeAffinity().events_to_register()
    assert registered.hint is not None
    assert registered.hint(POD, old, new) is want


def test_hint_with_added_affinity() -> None:
    added = make_affinity(node=("disk", "In", "ssd")).node_affinity
    [registered] = NodeAffinity(NodeAffinityArgs(added_affinity=added)).events_to_register()
    assert registered.hint is not None
    plain = make_pod("p")
    assert registered.hint(plain, None, SSD) is QueueingHint.QUEUE
    assert registered.hint(plain, None, HDD) is QueueingHint.SKIP
    # Only the pod's own affinity is compared with the old node, and it has none.
    assert registered.hint(plain, HDD, SSD) is QueueingHint.SKIP


def test_an_invalid_selector_is_an_error_where_no_term_matches() -> None:
    broken = make_node_term(("disk", "Near", "ssd"))
    selector = make_node_selector(broken, ("disk", "In", "ssd"))
    pod = make_pod("p", affinity=make_affinity(node=selector))
    [registered] = NodeAffinity().events_to_register()
    assert registered.hint is not None
    assert registered.hint(pod, None, SSD) is QueueingHint.QUEUE
    with pytest.raises(SelectorError):
        registered.hint(pod, None, HDD)
