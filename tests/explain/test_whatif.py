"""Changes in virtual time: moved pods, pending pods, evictions that budgets refuse."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from kubesched.api import (
    Deployment,
    DeploymentSpec,
    Job,
    JobSpec,
    LabelSelector,
    Node,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodDisruptionBudget,
    PodGroup,
    PodTemplateSpec,
)
from kubesched.explain import ExplainError, Plan, Snapshot
from kubesched.explain.whatif.drain_order import drain_order
from kubesched.foundation.util.clock import ManualClock
from kubesched.testing import make_node, make_owner, make_pod, make_priority_class

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


def test_a_drain_that_leaves_pods_waiting_names_them_with_reasons() -> None:
    asked = snapshot(*cluster("a", "b"), deployment("web", 2, "3"))
    answer = asked.whatif(drain=("a",))
    (waiting,) = answer.waiting
    assert waiting.pod.startswith("default/web-")
    assert "Insufficient cpu" in waiting.reason


def test_a_bare_pod_on_a_drained_node_is_deleted() -> None:
    asked = snapshot(*cluster("a", "b"), make_pod("one", node_name="a", phase="Running"))
    assert asked.whatif(drain=("a",)).gone == ("default/one",)


def job(name: str, cpu: str) -> Job:
    """A job as a user writes it: the server would add its selector."""
    template = make_pod("t", images=["train"], requests={"cpu": cpu})
    spec = replace(template.spec, restart_policy="Never")
    return Job(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"job.{name}"),
        spec=JobSpec(
            parallelism=2,
            completions=2,
            template=PodTemplateSpec(metadata=ObjectMeta(labels={"app": name}), spec=spec),
        ),
    )


def test_the_pods_of_jobs_run_until_they_are_evicted() -> None:
    answer = snapshot(*cluster("a", "b"), job("train", "3")).whatif(drain=("a",))
    (waiting,) = answer.waiting
    assert waiting.pod.startswith("default/train-")
    assert answer.moved == ()


def test_a_job_without_a_selector_has_the_pods_that_name_it_as_their_owner() -> None:
    train = job("train", "3")
    owner = OwnerReference("batch/v1", "Job", "train", train.metadata.uid, controller=True)
    pods = [
        make_pod(
            f"train-{number}", requests={"cpu": "3"}, node_name=node, phase="Running", owner=owner
        )
        for number, node in enumerate("ab")
    ]
    answer = snapshot(*cluster("a", "b", "c"), train, *pods).whatif(drain=("a",))
    assert answer.waiting == ()
    (moved,) = answer.moved
    assert (moved.before, moved.after) == ("a", "c")


def test_more_nodes_take_what_waits() -> None:
    asked = snapshot(*cluster("a"), deployment("web", 3, "3"))
    answer = asked.whatif(add=2)
    assert len(answer.placed) == 2
    assert sorted(move.after for move in answer.placed) == ["a-new-1", "a-new-2"]


def test_a_pod_of_a_file_has_no_status_and_is_placed_all_the_same() -> None:
    written = make_pod("p", images=["web"], requests={"cpu": "1"})
    answer = snapshot(*cluster("a"), written).whatif(add=1)
    assert not answer.waiting
    assert not answer.moved


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


def owned(name: str, node: str, cpu: str) -> Pod:
    owner = make_owner("ReplicaSet", f"rs-{name}")
    return make_pod(name, node_name=node, requests={"cpu": cpu}, phase="Running", owner=owner)


def test_nodes_are_drained_in_an_order_in_which_nothing_waits() -> None:
    # The small pods would fill up the one node that is large enough for the large pod.
    asked = snapshot(
        *cluster("a", "b"),
        make_node("large", allocatable={"cpu": "4", "pods": "10"}),
        make_node("small", allocatable={"cpu": "3", "pods": "10"}),
        owned("s1", "a", "1500m"),
        owned("s2", "a", "1500m"),
        owned("big", "b", "4"),
    )
    assert drain_order(asked.model, ("a", "b")) == ("b", "a")


def test_if_no_order_works_the_waiting_pods_are_named() -> None:
    asked = snapshot(*cluster("a", "b", "c"), deployment("web", 3, "3"))
    answer = asked.whatif(drain=("a", "b"))
    assert set(answer.drain_order) == {"a", "b"}
    assert len(answer.waiting) == 2


def test_pods_that_have_to_make_room_are_named() -> None:
    low = make_pod("low", node_name="a", requests={"cpu": "3"}, priority=1, phase="Running")
    asked = snapshot(*cluster("a"), low)
    plain = make_pod("high", images=["web"], requests={"cpu": "3"})
    high = replace(plain, spec=replace(plain.spec, priority_class_name="urgent"))
    answer = asked.whatif(objects=(make_priority_class("urgent", 100), high))
    assert answer.preempted == ("default/low",)
    assert [(move.pod, move.after) for move in answer.new] == [("default/high", "a")]
    assert "1 pod is preempted" in answer.summary


def test_groups_are_distinguished_by_zone_and_pool() -> None:
    zone = "topology.kubernetes.io/zone"
    asked = snapshot(
        make_node("a", allocatable=ROOM, labels={zone: "z1", "pool": "main"}),
        make_node("b", allocatable=ROOM, labels={zone: "z2", "pool": "main"}),
        deployment("web", 2, "1"),
    )
    groups = {group.group: group for group in asked.whatif(remove=("b",)).groups}
    assert set(groups) == {"zone z1", "zone z2", "pool main"}
    assert (groups["pool main"].nodes_before, groups["pool main"].nodes_after) == (2, 1)
    assert (groups["zone z1"].pods_before, groups["zone z1"].pods_after) == (1, 2)
    assert groups["zone z2"].nodes_after == 0


def test_the_same_question_gets_the_same_answer() -> None:
    objects = (*cluster("a", "b", "c"), deployment("web", 5, "1"))
    plan = Plan(drain=("b",), add=1)
    assert snapshot(*objects).whatif(plan) == snapshot(*objects).whatif(plan)


def test_a_node_that_is_not_there_is_named() -> None:
    with pytest.raises(ExplainError, match="no node named 'x'"):
        snapshot(*cluster("a"), Pod(metadata=ObjectMeta(name="p", namespace="default"))).whatif(
            drain=("x",)
        )


def test_objects_of_a_kind_behind_a_gate_do_not_stop_the_copy() -> None:
    """The cluster serves PodGroups, and the gate is disabled for the scheduler of the copy."""
    group = PodGroup(metadata=ObjectMeta(name="training", namespace="default"))
    answer = snapshot(*cluster("a", "b"), group, deployment("web", 2, "1")).whatif(drain=("a",))
    assert not answer.waiting
