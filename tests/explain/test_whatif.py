"""Changes played in virtual time: who moves, who waits, what budgets refuse."""

from __future__ import annotations

import pytest

from kubesched.api import (
    Deployment,
    DeploymentSpec,
    LabelSelector,
    Node,
    ObjectMeta,
    Pod,
    PodDisruptionBudget,
    PodTemplateSpec,
)
from kubesched.explain import ExplainError, Plan, Snapshot
from kubesched.testing import make_node, make_pod
from kubesched.util.clock import ManualClock

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def cluster(*names: str) -> list[Node]:
    return [make_node(name, allocatable=ROOM) for name in names]


def deployment(name: str, replicas: int, cpu: str) -> Deployment:
    labels = {"app": name}
    template = make_pod("t", images=["web"], requests={"cpu": cpu})
    return Deployment(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"deployment.{name}"),
        spec=DeploymentSpec(
            replicas=replicas,
            selector=LabelSelector(match_labels=labels),
            template=PodTemplateSpec(metadata=ObjectMeta(labels=labels), spec=template.spec),
        ),
    )


def snapshot(*objects: object) -> Snapshot:
    return Snapshot(objects, clock=ManualClock())  # type: ignore[arg-type]


def test_a_deployment_moves_off_a_drained_node() -> None:
    asked = snapshot(*cluster("a", "b"), deployment("web", 2, "1"))
    answer = asked.whatif(drain=("a",))
    assert not answer.waiting
    assert {move.after for move in answer.moved} <= {"b"}
    assert {move.before for move in answer.moved} <= {"a"}
    assert answer.moved


def test_a_drain_that_leaves_pods_waiting_says_who_and_why() -> None:
    asked = snapshot(*cluster("a", "b"), deployment("web", 2, "3"))
    answer = asked.whatif(drain=("a",))
    (waiting,) = answer.waiting
    assert waiting.pod.startswith("default/web-")
    assert "Insufficient cpu" in waiting.reason


def test_a_bare_pod_on_a_drained_node_is_gone() -> None:
    asked = snapshot(*cluster("a", "b"), make_pod("one", node_name="a", phase="Running"))
    assert asked.whatif(drain=("a",)).gone == ("default/one",)


def test_more_nodes_take_what_waits() -> None:
    asked = snapshot(*cluster("a"), deployment("web", 3, "3"))
    answer = asked.whatif(add=2)
    assert len(answer.placed) == 2
    assert sorted(move.after for move in answer.placed) == ["a-new-1", "a-new-2"]


def test_scaling_beyond_the_room_there_is() -> None:
    asked = snapshot(*cluster("a"), deployment("web", 1, "1"))
    answer = asked.whatif(scale=(("deploy/web", 6),))
    assert len(answer.new) == 3
    assert len(answer.waiting) == 2


def test_a_budget_refuses_an_eviction() -> None:
    budget = PodDisruptionBudget(metadata=ObjectMeta(name="web", namespace="default"))
    spec = type(budget.spec)(min_available=1, selector=LabelSelector(match_labels={"app": "web"}))
    lone = make_pod("web-0", node_name="a", labels={"app": "web"}, phase="Running")
    answer = snapshot(
        *cluster("a", "b"), lone, PodDisruptionBudget(metadata=budget.metadata, spec=spec)
    ).whatif(drain=("a",))
    assert [each.pod for each in answer.blocked] == ["default/web-0"]


def test_nodes_are_drained_in_an_order_in_which_nothing_waits() -> None:
    large = make_node("large", allocatable={"cpu": "8", "pods": "10"})
    asked = snapshot(
        *cluster("a", "b"),
        large,
        make_pod("one", node_name="a", requests={"cpu": "4"}, phase="Running"),
        make_pod("two", node_name="b", requests={"cpu": "1"}, phase="Running"),
    )
    assert set(asked.whatif(drain=("a", "b")).drain_order) == {"a", "b"}


def test_the_same_question_gets_the_same_answer() -> None:
    objects = (*cluster("a", "b", "c"), deployment("web", 5, "1"))
    plan = Plan(drain=("b",), add=1)
    assert snapshot(*objects).whatif(plan) == snapshot(*objects).whatif(plan)


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(ExplainError, match="no node named 'x'"):
        snapshot(*cluster("a"), Pod(metadata=ObjectMeta(name="p", namespace="default"))).whatif(
            drain=("x",)
        )
