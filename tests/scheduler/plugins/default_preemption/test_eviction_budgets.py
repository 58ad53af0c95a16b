"""Disruption budgets: which evictions violate them."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kubesched.api import LabelSelector, LabelSelectorRequirement, Pod, PodDisruptionBudget
from kubesched.framework import PodInfo
from kubesched.scheduler.plugins.default_preemption.eviction_budgets import BudgetReader
from kubesched.testing import FakeObjects, make_pdb, make_pod
from tests.counted_calls import count_calls

WEB = {"app": "web"}
UNREADABLE = LabelSelector(
    match_expressions=(LabelSelectorRequirement(key="app", operator="Near", values=("web",)),)
)


def web(name: str, **more: str) -> Pod:
    return make_pod(name, labels={**WEB, **more})


class Case(NamedTuple):
    budgets: list[PodDisruptionBudget]
    pods: list[Pod]
    violating: list[str]


CASES = {
    "no budget": Case([], [web("a")], []),
    "the first pods use up what is allowed": Case(
        [make_pdb("x", selector=WEB, disruptions_allowed=2)],
        [web("a"), web("b"), web("c"), web("d")],
        ["c", "d"],
    ),
    "another namespace": Case([make_pdb("x", selector=WEB, namespace="other")], [web("a")], []),
    "other labels": Case([make_pdb("x", selector={"app": "db"})], [web("a")], []),
    "no labels": Case([make_pdb("x", selector={})], [make_pod("a")], []),
    "an empty selector matches no pod": Case([make_pdb("x", selector={})], [web("a")], []),
    "a missing selector matches no pod": Case([make_pdb("x", selector=None)], [web("a")], []),
    "a selector that cannot be read": Case([make_pdb("x", selector=UNREADABLE)], [web("a")], []),
    "a pod that the budget counted already": Case(
        [make_pdb("x", selector=WEB, disruptions_allowed=1, disrupted_pods={"a": None})],
        [web("a"), web("b"), web("c")],
        ["c"],
    ),
    "a pod uses up all its budgets, also when one is broken": Case(
        [
            make_pdb("x", selector={"tier": "1"}),
            make_pdb("y", selector=WEB, disruptions_allowed=1),
        ],
        [web("a", tier="1"), web("b")],
        ["a", "b"],
    ),
    "a budget that is overdrawn allows nothing": Case(
        [make_pdb("x", selector=WEB, disruptions_allowed=-1)], [web("a")], ["a"]
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_split(case: Case) -> None:
    budgets = BudgetReader(FakeObjects(case.budgets).lister(PodDisruptionBudget)).read()
    violating, others = budgets.split([PodInfo(pod) for pod in case.pods])
    assert [each.pod.metadata.name for each in violating] == case.violating
    names = [pod.metadata.name for pod in case.pods if pod.metadata.name not in case.violating]
    assert [each.pod.metadata.name for each in others] == names


def test_large_selectors_are_compiled_before_a_preemption_reads_them() -> None:
    """A preemption reads all budgets in one turn of the event loop."""
    objects = FakeObjects()
    reader = BudgetReader(objects.lister(PodDisruptionBudget))
    labels = {f"k{number}": "v" for number in range(10_000)}
    for number in range(5):
        objects.put(make_pdb(f"x{number}", selector=labels))
    assert count_calls(reader.read) < 500
    assert reader.read().matching("default", labels) == (0, 1, 2, 3, 4)


def test_budgets_are_reread_after_changes() -> None:
    objects = FakeObjects([make_pdb("x", selector=WEB, disruptions_allowed=1)])
    reader = BudgetReader(objects.lister(PodDisruptionBudget))
    first = reader.read()
    assert reader.read() is first
    objects.put(make_pdb("x", selector=WEB, disruptions_allowed=0))
    assert [budget.allowed for budget in reader.read().all] == [0]
    objects.put(make_pdb("x", selector={"app": "db"}, disruptions_allowed=0))
    assert not reader.read().matching("default", WEB)
    objects.remove(PodDisruptionBudget, "x", "default")
    assert not reader.read()
