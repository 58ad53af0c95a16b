"""Plugins run as in an attempt, and their two forms give equal results."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from kubesched.api import Pod
from kubesched.framework import (
    SUCCESS,
    CycleState,
    NodeInfo,
    NodeView,
    OnlyNodes,
    Plugin,
    PodInfo,
    Rejections,
    Status,
)
from kubesched.testing import make_node, make_pod, make_view, run_filter, run_score
from tests.testing.plugins import HELD, Disks

SSD = make_node("ssd", labels={"disk": "ssd"})
HDD = make_node("hdd", labels={"disk": "hdd"})
NONE = make_node("none")
PICKY = make_pod("picky", labels={"tier": "a"})


def test_a_view_has_the_nodes_in_order_with_their_pods() -> None:
    view = make_view(SSD, HDD, pods=[make_pod("p", node_name="hdd", requests={"cpu": "1"})])
    assert list(view.names) == ["ssd", "hdd"]
    assert view.pod_count.tolist() == [0, 1]
    assert view.requested("cpu").tolist() == [0, 1000]


def test_a_filter_answers_for_every_node_in_order() -> None:
    assert run_filter(Disks(), PICKY, make_view(SSD, NONE, HDD)) == [SUCCESS, HELD, SUCCESS]


def test_a_filter_that_is_skipped_lets_all_pass() -> None:
    assert run_filter(Disks(), make_pod("plain"), make_view(SSD, NONE)) == [SUCCESS, SUCCESS]


class Narrow(Plugin):
    name = "Narrow"

    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        return OnlyNodes(frozenset({"hdd"}))


class Refuse(Plugin):
    name = "Refuse"

    def pre_filter(
        self, state: CycleState, pod_info: PodInfo, nodes: NodeView
    ) -> Status | OnlyNodes:
        return HELD


def test_nodes_that_pre_filter_excludes_have_its_status() -> None:
    out = Status.unresolvable("node(s) didn't satisfy plugin(s) [Narrow]")
    assert run_filter(Narrow(), PICKY, make_view(SSD, HDD)) == [out, SUCCESS]


def test_a_rejection_by_pre_filter_is_the_answer_of_every_node() -> None:
    assert run_filter(Refuse(), PICKY, make_view(SSD, HDD)) == [HELD, HELD]


def test_scores_come_normalised_and_in_order() -> None:
    assert run_score(Disks(), PICKY, make_view(HDD, SSD)) == [0, 100]


class FormsDisagree(Disks):
    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> Rejections:
        return Rejections.none()

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeView) -> NDArray[np.int64]:
        return np.zeros(len(nodes), dtype=np.int64)

    def normalize_score(
        self, state: CycleState, pod: Pod, nodes: NodeView, scores: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        return scores + 1


def test_two_forms_that_disagree_fail_the_test() -> None:
    with pytest.raises(AssertionError, match="Disks on none: filter says"):
        run_filter(FormsDisagree(), PICKY, make_view(NONE))
    with pytest.raises(AssertionError, match="score_nodes says"):
        run_score(FormsDisagree(), PICKY, make_view(SSD))


def test_normalising_can_be_left_out() -> None:
    assert run_score(FormsDisagree(), PICKY, make_view(HDD)) == [1]
    assert run_score(FormsDisagree(), PICKY, make_view(HDD), normalize=False) == [0]


class FailsInFilter(Plugin):
    name = "FailsInFilter"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return Status.failure("odd state")


def test_errors_with_equal_texts_are_equal_statuses() -> None:
    (status,) = run_filter(FailsInFilter(), PICKY, make_view(SSD))
    assert status.message == "odd state"
