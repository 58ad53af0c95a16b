"""Upgrades: rounds of new nodes and drains, or the pods in the way."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api.labels import Selector
from kubesched.explain import ExplainError, Snapshot
from kubesched.plan import Upgrade, plan_upgrade
from tests.plan.clusters import budget, node, pod_of, replica_set

POOL = {"labels": {"pool": "workers"}}


def workload(name: str, *nodes: str, **spec: Any) -> list[Any]:
    owner = replica_set(name, len(nodes), **spec)
    return [owner, *(pod_of(owner, number, there) for number, there in enumerate(nodes))]


def upgrade_of(objects: list[Any], surge: int, **options: Any) -> Upgrade:
    pool = Selector.parse("pool=workers")
    return plan_upgrade(Snapshot(objects), pool, surge=surge, seconds=30, **options)


def test_full_nodes_are_replaced_some_at_a_time() -> None:
    """Each pod fills a node, so it can only move to a new one, and it moves once."""
    names = ["a", "b", "c"]
    objects = [
        *(node(name, **POOL) for name in names),
        *workload("web", *names, cpu="6"),
        budget("web", maxUnavailable=1),
    ]
    plan = upgrade_of(objects, 2)
    assert plan.verified
    assert (plan.nodes, plan.upgraded) == (3, 3)
    assert [len(each.add) for each in plan.rounds] == [2, 1]
    assert sorted(name for each in plan.rounds for name in each.nodes) == names
    moves = [move for each in plan.rounds for move in each.moves]
    assert sorted(move.source for move in moves) == names
    assert all(move.target.endswith("-new") for move in moves)
    assert plan.longest_pending_seconds < 10


def test_nodes_of_other_pools_stay() -> None:
    objects = [node("a", **POOL), node("other"), *workload("web", "a", "other", cpu="1")]
    plan = upgrade_of(objects, 1)
    assert plan.verified
    assert [each.nodes for each in plan.rounds] == [("a",)]


def test_a_pod_in_the_way_is_named() -> None:
    bare = pod_of(replica_set("bare", 1), 0, "b", ownerReferences=[])
    objects = [node("a", **POOL), node("b", **POOL), bare]
    plan = upgrade_of(objects, 1)
    assert not plan.verified
    assert (plan.nodes, plan.upgraded) == (2, 1)
    (blocked,) = plan.blocked
    assert (blocked.pod, blocked.node) == ("default/bare-0", "b")
    assert blocked.help


def test_an_empty_pool_is_an_error() -> None:
    with pytest.raises(ExplainError, match="no node has these labels"):
        upgrade_of([node("a")], 1)
