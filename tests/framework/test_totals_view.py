"""Views with totals of their own."""

from __future__ import annotations

import numpy as np
import pytest

from kubesched.framework import NodeView, TotalsView
from kubesched.testing import make_node, make_pod, make_view

GPU = "example.com/gpu"


def view() -> NodeView:
    return make_view(
        make_node("a", cpu="4", extended={GPU: 2}),
        make_node("b", cpu="2"),
        pods=[make_pod("p", node_name="a", requests=[{"cpu": "1", GPU: 1}])],
    )


def totals_view() -> TotalsView:
    # The second node twice, once with another pod.
    requested = np.array([[500, 0, 250], [0, 0, 0], [0, 0, 0], [7, 8, 9]], dtype=np.int64)
    return TotalsView(view(), np.array([0, 1, 1]), requested, np.array([3, 0, 1]))


def test_totals_are_those_passed_and_all_else_is_that_of_the_table() -> None:
    nodes = totals_view()
    assert nodes.requested("cpu").tolist() == [500, 0, 250]
    assert nodes.requested(GPU).tolist() == [7, 8, 9]
    assert nodes.requested("example.com/unheard-of").tolist() == [0, 0, 0]
    assert nodes.pod_count.tolist() == [3, 0, 1]
    assert nodes.allocatable("cpu").tolist() == [4000, 2000, 2000]
    assert list(nodes.names) == ["a", "b", "b"]
    assert not nodes.is_whole


def test_a_selection_of_a_totals_view_has_its_totals() -> None:
    part = totals_view().subset(np.array([True, False, True]))
    assert part.requested("cpu").tolist() == [500, 250]
    assert part.pod_count.tolist() == [3, 1]
    assert list(part.names) == ["a", "b"]


def test_totals_of_unknown_resources_are_refused() -> None:
    nodes = totals_view()
    with pytest.raises(TypeError, match="requested amounts and pod counts only"):
        list(nodes)
    with pytest.raises(TypeError):
        nodes.info(0)
    with pytest.raises(TypeError):
        _ = nodes.nonzero_requested_cpu
    with pytest.raises(TypeError):
        _ = nodes.nonzero_requested_memory
