"""Drains: evictions in which no pod waits, or the pods in the way."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.explain import ExplainError, Snapshot
from kubesched.plan import Drain, plan_drain
from tests.plan.clusters import budget, node, pod_of, replica_set


def workload(name: str, *nodes: str, **spec: Any) -> list[Any]:
    owner = replica_set(name, len(nodes), **spec)
    return [owner, *(pod_of(owner, number, there) for number, there in enumerate(nodes))]


def drain_of(objects: list[Any], *names: str, **options: Any) -> Drain:
    return plan_drain(Snapshot(objects), names, seconds=30, **options)


def test_pods_move_to_the_other_nodes() -> None:
    objects = [*map(node, "abc"), *workload("web", "a", "b", "a"), budget("web", maxUnavailable=1)]
    plan = drain_of(objects, "a", "b")
    assert plan.verified
    assert sorted(plan.nodes) == ["a", "b"]
    assert [(move.source, move.target) for move in plan.moves].count(("a", "c")) == 2
    assert [len(wave.evict) for wave in plan.waves] == [1, 1, 1]
    assert set(plan.uncordon).isdisjoint({"a", "b"})
    assert plan.longest_pending_seconds < 10


def test_pods_on_other_nodes_make_room() -> None:
    """The pod of `a` needs an SSD; the other SSD node is filled by a pod that needs none."""
    ssd = {"labels": {"disk": "ssd"}}
    objects = [
        node("a", **ssd),
        node("b", **ssd),
        node("c"),
        *workload("fast", "a", cpu="4", nodeSelector={"disk": "ssd"}),
        *workload("slow", "b", cpu="6"),
    ]
    plan = drain_of(objects, "a")
    assert plan.verified
    assert [(move.pod, move.target) for move in plan.moves] == [
        ("default/slow-0", "c"),
        ("default/fast-0", "b"),
    ]


def test_a_pod_without_a_place_is_named() -> None:
    objects = [node("a"), node("b"), *workload("web", "a", "b", cpu="5")]
    plan = drain_of(objects, "a")
    assert not plan.verified
    (blocked,) = plan.blocked
    assert (blocked.pod, blocked.node) == ("default/web-0", "a")
    assert "Insufficient cpu" in blocked.reason
    assert plan.moves == ()


def test_pods_that_may_not_move_are_named_and_the_others_leave() -> None:
    bare = pod_of(replica_set("bare", 1), 0, "a", ownerReferences=[])
    plan = drain_of([node("a"), node("b"), bare, *workload("web", "a")], "a")
    assert not plan.verified
    assert plan.nodes == ()
    (blocked,) = plan.blocked
    assert blocked.pod == "default/bare-0"
    assert blocked.help
    assert [(move.pod, move.target) for move in plan.moves] == [("default/web-0", "b")]


def test_an_unknown_node_is_an_error() -> None:
    with pytest.raises(ExplainError, match="no node named 'x'"):
        drain_of([node("a")], "x")
