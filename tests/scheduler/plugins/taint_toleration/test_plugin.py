"""TaintToleration: a tainted node accepts tolerating pods only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import pytest

from kubesched.api import Node, Toleration
from kubesched.errors import KubeschedError
from kubesched.framework import SUCCESS, CycleState, QueueingHint, Status
from kubesched.framework.causes import UntoleratedTaint
from kubesched.scheduler.plugins.taint_toleration import TaintToleration
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_node,
    make_pod,
    make_view,
    run_filter,
    run_score,
)

UNTOLERATED = Status.unresolvable("node(s) had untolerated taint(s)", causes=(UntoleratedTaint(),))


class Case(NamedTuple):
    tolerations: list[str]
    taints: list[str]
    want: Status


FILTER_CASES = {
    "no taints": Case([], [], SUCCESS),
    "a taint that nothing tolerates": Case([], ["k=v:NoSchedule"], UNTOLERATED),
    "NoExecute keeps pods away too": Case([], ["k=v:NoExecute"], UNTOLERATED),
    "PreferNoSchedule does not": Case([], ["k=v:PreferNoSchedule"], SUCCESS),
    "an unknown effect does not": Case([], ["k=v:Whatever"], SUCCESS),
    "a toleration of another effect": Case(
        ["k=v:PreferNoSchedule"], ["k=v:NoSchedule"], UNTOLERATED
    ),
    "a toleration without effect": Case(["k=v"], ["k=v:NoSchedule"], SUCCESS),
    "a toleration of another value": Case(["k=w"], ["k=v:NoSchedule"], UNTOLERATED),
    "a toleration of any value": Case(["k"], ["k=v:NoSchedule"], SUCCESS),
    "a toleration of everything": Case([""], ["a:NoSchedule", "b:NoExecute"], SUCCESS),
    "one of two taints is tolerated": Case(["a"], ["a:NoSchedule", "b:NoExecute"], UNTOLERATED),
}


@pytest.mark.parametrize("case", FILTER_CASES.values(), ids=FILTER_CASES)
def test_filter(case: Case) -> None:
    nodes = make_view(make_node("plain"), make_node("tainted", taints=case.taints))
    pod = make_pod("p", tolerations=case.tolerations)
    assert run_filter(TaintToleration(), pod, nodes) == [SUCCESS, case.want]


NUMBERS = {
    "greater than the bound, gate on": ("Gt", "750", "950", True, SUCCESS),
    "greater than the bound, gate off": ("Gt", "750", "950", False, UNTOLERATED),
    "equal to the bound": ("Gt", "950", "950", True, UNTOLERATED),
    "not a number": ("Gt", "950", "high", True, UNTOLERATED),
    "less than the bound": ("Lt", "950", "-3", True, SUCCESS),
}


@pytest.mark.parametrize(
    ("operator", "bound", "value", "gate", "want"), NUMBERS.values(), ids=NUMBERS
)
def test_comparisons(operator: str, bound: str, value: str, gate: bool, want: Status) -> None:
    handle = FakeHandle(feature_gates={"TaintTolerationComparisonOperators": gate})
    toleration = Toleration(key="k", operator=operator, value=bound)
    nodes = make_view(make_node("n", taints=[f"k={value}:NoSchedule"]))
    plugin = TaintToleration(handle=handle)
    assert run_filter(plugin, make_pod("p", tolerations=[toleration]), nodes) == [want]


PREFER = [f"{key}=v:PreferNoSchedule" for key in "ab"]
SCORE_CASES: Mapping[str, tuple[list[str], list[list[str]], list[int]]] = {
    "the fewer intolerable taints the better": ([], [[], PREFER[:1], PREFER], [100, 50, 0]),
    "nodes that are equally bad are all worst": ([], [PREFER, PREFER], [0, 0]),
    "tolerated taints do not count": (["a"], [[], PREFER[:1], PREFER], [100, 100, 0]),
    "other effects do not count": ([], [["k:NoSchedule"], []], [100, 100]),
    "a toleration of NoSchedule does not help": (["a=v:NoSchedule"], [PREFER[:1], []], [0, 100]),
    "a toleration of PreferNoSchedule does": (["a:PreferNoSchedule"], [PREFER[:1], []], [100, 100]),
}


@pytest.mark.parametrize(("tolerations", "taints", "want"), SCORE_CASES.values(), ids=SCORE_CASES)
def test_score(tolerations: list[str], taints: list[list[str]], want: list[int]) -> None:
    nodes = make_view(*(make_node(f"n{i}", taints=each) for i, each in enumerate(taints)))
    assert run_score(TaintToleration(), make_pod("p", tolerations=tolerations), nodes) == want


def test_scoring_without_pre_score_is_an_error() -> None:
    nodes = make_view(make_node("n", taints=PREFER))
    plugin, message = TaintToleration(), 'failed to read "PreScoreTaintToleration" from cycleState'
    with pytest.raises(KubeschedError, match=f"^{message}: not found$"):
        plugin.score(CycleState(), make_pod("p"), nodes.info(0))
    with pytest.raises(KubeschedError, match=f"^{message}: not found$"):
        plugin.score_nodes(CycleState(), make_pod("p"), nodes)


FREE, BAD = make_node("n"), make_node("n", taints=["k:NoSchedule"])
NODE_CASES = {
    "a node without taints appeared": (None, FREE, QueueingHint.QUEUE),
    "a tainted node appeared": (None, BAD, QueueingHint.SKIP),
    "a taint went away": (BAD, FREE, QueueingHint.QUEUE),
    "a taint appeared": (FREE, BAD, QueueingHint.SKIP),
    "a tainted node stays tainted": (
        BAD,
        make_node("n", taints=["other:NoExecute"]),
        QueueingHint.SKIP,
    ),
    "a node without taints stays so": (FREE, FREE, QueueingHint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CASES.values(), ids=NODE_CASES)
def test_node_hint(old: Node | None, new: Node, want: QueueingHint) -> None:
    registered = TaintToleration().events_to_register()[0]
    assert registered.hint is not None
    assert registered.hint(make_pod("p"), old, new) is want


def test_toleration_hint_is_about_the_pod_itself() -> None:
    registered = TaintToleration().events_to_register()[1]
    assert registered.event.label == "PodUpdatePodToleration"
    assert registered.hint is not None
    pod = make_pod("p")
    assert registered.hint(pod, pod, make_pod("p", tolerations=["x"])) is QueueingHint.QUEUE
    assert registered.hint(pod, pod, make_pod("q", tolerations=["x"])) is QueueingHint.SKIP


def test_contract() -> None:
    check_plugin(TaintToleration)
