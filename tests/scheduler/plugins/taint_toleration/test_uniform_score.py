"""The uniform score of TaintToleration: equal scores without evaluation."""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.framework import CycleState, NodeView, PodInfo
from kubesched.scheduler.plugins.taint_toleration import TaintToleration
from kubesched.testing import make_node, make_pod, make_view


def uniform(pod: Pod, view: NodeView) -> int | None:
    plugin, state = TaintToleration(), CycleState()
    plugin.pre_score(state, PodInfo(pod), view)
    return plugin.uniform_score(state, pod, view)


def test_nodes_without_soft_taints_have_equal_scores() -> None:
    view = make_view(make_node("a"), make_node("b", taints=["k:NoSchedule"]))
    assert uniform(make_pod("p"), view) == 100


def test_an_untolerated_soft_taint_changes_scores() -> None:
    view = make_view(make_node("a"), make_node("b", taints=["k:PreferNoSchedule"]))
    assert uniform(make_pod("p"), view) is None
    assert uniform(make_pod("p", tolerations=["k:PreferNoSchedule"]), view) == 100


def test_too_many_distinct_taints_are_not_evaluated() -> None:
    nodes = [make_node(f"n{number}", taints=[f"k{number}:NoSchedule"]) for number in range(100)]
    assert uniform(make_pod("p"), make_view(*nodes)) is None
