"""`kubesched explain podgroup`: what a pod group waits for."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import PodCondition
from kubesched.api.scheduling import PodGroupSchedulingConstraints, TopologyConstraint
from kubesched.explain import ExplainError, Snapshot
from kubesched.explain.group_text import render_group
from kubesched.testing import make_node
from tests.scheduler.pod_groups.group_harness import basic, gang, member

RACK = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key="rack"),))
NODES = (
    make_node("a0", cpu="2", labels={"rack": "a"}),
    make_node("b0", cpu="1", labels={"rack": "b"}),
)


def members(count: int, *nodes: str) -> list[Any]:
    bound = [member(f"on-{node}", uid=f"on-{node}", node_name=node) for node in nodes]
    return [*bound, *(member(f"p{n}", uid=f"p{n}") for n in range(count))]


CASES = {
    "a gang that fits": (gang(3), members(3), "fits", 3, {}),
    "a gang that is too large": (gang(4), members(4), "pending", 3, {}),
    "a gang that lacks a pod": (gang(3), members(2), "incomplete", 2, {}),
    "a gang that runs": (gang(2), members(0, "a0", "b0"), "scheduled", 0, {}),
    "no rack is large enough": (
        gang(3, scheduling_constraints=RACK),
        members(3),
        "pending",
        2,
        {"a": 2, "b": 1},
    ),
    "running members pin the rack": (
        gang(2, scheduling_constraints=RACK),
        members(1, "b0"),
        "pending",
        0,
        {"b": 0},
    ),
    "a basic group needs room for one": (basic(), members(5), "fits", 3, {}),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_group_explanation_names_what_is_missing(case: Any) -> None:
    group, pods, verdict, fits, domains = case
    answer = Snapshot([*NODES, group, *pods]).explain_group("g")
    assert (answer.verdict, answer.fits) == (verdict, fits)
    assert {each.name: each.fits for each in answer.domains} == domains
    assert render_group(answer).startswith(f"PodGroup default/g: {answer.summary}")


def test_the_model_is_not_changed() -> None:
    snapshot = Snapshot([*NODES, gang(3, scheduling_constraints=RACK), *members(3)])
    assert snapshot.explain_group("g") == snapshot.explain_group("g")
    assert snapshot.model.snapshot.placement is None


def test_a_group_that_does_not_exist() -> None:
    with pytest.raises(ExplainError) as caught:
        Snapshot([*NODES, *members(2)]).explain_group("g")
    assert str(caught.value) == "no PodGroup default/g among 0"
    assert caught.value.__notes__ == ["2 pods of the namespace name it and wait for it"]


def test_a_pod_that_fits_alone_refers_to_its_group() -> None:
    condition = PodCondition(
        type="PodScheduled", status="False", message="pod group is unschedulable"
    )
    pod = member("p0", creation_timestamp="2026-01-05T08:00:00Z")
    pod = replace(pod, status=replace(pod.status, conditions=(condition,)))
    summary = Snapshot([*NODES, gang(4), pod]).explain("default/p0").summary
    assert summary.startswith("It fits: it would go to ")
    assert summary.endswith(
        "A scheduler last said 'pod group is unschedulable'. Its pod group is placed together: "
        "kubesched explain podgroup default/g says what that needs"
    )
