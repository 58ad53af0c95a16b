"""A change of an object invalidates the cached answers that depend on its kind, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import Pod, ResourceClaim, Service
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeInfo,
    Plugin,
    PodInfo,
    PodPart,
    PodsOnNode,
    Reads,
    Status,
)
from kubesched.testing import make_node, make_pod
from tests.support import PluginHarness, plugin_class


def counting(objects: tuple[type[Any], ...] | None, calls: list[str]) -> type[Plugin]:
    """Return a filter whose answers depend on objects of these kinds."""

    def filter_(state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        calls.append(node.name)
        return SUCCESS

    reads = Reads(
        pod=PodPart.LABELS, pods_on_node=PodsOnNode.NOTHING, other_nodes=False, objects=objects
    )
    return plugin_class("Counting", filter=filter_, score=lambda *_: 1, reads=reads)


CASES: dict[str, tuple[tuple[type[Any], ...] | None, type[Any], bool]] = {
    "no kind is read": ((), Service, False),
    "another kind is read": ((ResourceClaim,), Service, False),
    "the kind is read": ((ResourceClaim, Service), Service, True),
    "any kind may be read": (None, Service, True),
}


@pytest.mark.parametrize(("objects", "changed", "again"), CASES.values(), ids=CASES)
def test_when_answers_are_dropped(
    objects: tuple[type[Any], ...] | None, changed: type[Any], again: bool
) -> None:
    calls: list[str] = []
    harness = PluginHarness(counting(objects, calls), nodes=[make_node("a"), make_node("b")])

    def attempt() -> list[str]:
        calls.clear()
        harness.cache.update_snapshot()
        pod_info = PodInfo(make_pod("p"))
        harness.search.schedule_pod(harness.framework, CycleState(), pod_info)
        return sorted(set(calls))

    assert attempt() == ["a", "b"]
    assert attempt() == []
    harness.services.object_versions.changed(changed)
    assert attempt() == (["a", "b"] if again else [])
