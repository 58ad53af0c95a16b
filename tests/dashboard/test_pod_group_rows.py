"""Pod groups on the page: the rows of all groups, and of waiting ones."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from kubesched.api import Condition, PodGroup, PodGroupStatus
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.pod_group_rows import group_rows
from kubesched.dashboard.queue_view import queue_view
from kubesched.testing import make_pod
from tests.dashboard.page_harness import FixedPageState
from tests.scheduler.pod_groups.group_harness import basic, gang, member
from tests.scheduler.pod_groups.test_placements import ONE_RACK


def with_condition(group: PodGroup, status: str, reason: str, message: str) -> PodGroup:
    condition = Condition(type="PodGroupScheduled", status=status, reason=reason, message=message)
    return replace(group, status=PodGroupStatus(conditions=(condition,)))


def test_a_row_has_the_counts_and_the_condition_of_a_group() -> None:
    group = with_condition(
        gang(2, "g", scheduling_constraints=ONE_RACK), "False", "Unschedulable", "no room"
    )
    pods = [member("a", node_name="n"), member("b"), member("c", group="other"), make_pod("d")]
    assert group_rows([group], pods) == [
        {
            "key": "default/g",
            "policy": "gang",
            "needed": 2,
            "pods": 2,
            "placed": 1,
            "status": "Unschedulable",
            "message": "no room",
            "topology": "example.com/rack",
        },
        {
            "key": "default/other",
            "policy": "missing",
            "needed": 1,
            "pods": 1,
            "placed": 0,
            "status": "Pending",
        },
    ]


def test_the_queue_lists_groups_that_wait_the_unplaced_first() -> None:
    whole = with_condition(gang(1, "whole"), "True", "Scheduled", "")
    running = with_condition(gang(1, "a-running"), "True", "Scheduled", "")
    objects: list[Any] = [
        whole,
        running,
        basic("waiting"),
        member("w", group="whole", node_name="n"),
        member("r1", group="a-running", node_name="n"),
        member("r2", group="a-running"),
        member("p", group="waiting"),
    ]
    state = FixedPageState(*objects)
    view = queue_view(state.view, DecisionLog(lambda: 0), None, 0, state.of_kind(PodGroup))
    assert [each["key"] for each in view["groups"]] == ["default/waiting", "default/a-running"]
    assert view["groups"][1]["status"] == "Scheduled"
    assert {pod["key"]: pod["group"] for pod in view["pods"]} == {
        "default/r2": "default/a-running",
        "default/p": "default/waiting",
    }


def test_a_cluster_without_groups_has_no_list_of_them() -> None:
    state = FixedPageState(make_pod("p"))
    assert "groups" not in queue_view(state.view, DecisionLog(lambda: 0), None, 0)
