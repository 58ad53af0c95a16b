"""A few storms in every run of the tests; `make torture SEEDS=1000 FROM=50000` has the rest."""

from __future__ import annotations

import pytest

from tests.torture.cluster_plan import Plan, Step, make_plan
from tests.torture.planted_bugs import PLANTED, planted
from tests.torture.run import run_plan
from tests.torture.shrinking import shrunk

SEEDS = 40
AT_ONCE = 5


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_what_must_hold_holds(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        outcome = run_plan(make_plan(seed))
        assert outcome.violations == [], f"python -m tests.torture --from {seed} --seeds 1"


def test_a_seed_runs_the_same_way_twice() -> None:
    assert run_plan(make_plan(3)).story == run_plan(make_plan(3)).story


def test_a_planted_bug_is_caught_and_told_in_few_steps() -> None:
    """Nodes that are filled without end: the smallest story has only pods in it."""
    with planted(PLANTED["nodes are filled without end"]):
        plan = next(plan for seed in range(40) if run_plan(plan := make_plan(seed)).violations)
        smaller = shrunk(plan)
        outcome = run_plan(smaller)
    assert outcome.violations
    assert len(smaller.steps) < len(plan.steps)


def test_shrinking_leaves_what_is_needed() -> None:
    steps = tuple(Step("create pod", f"p{number}") for number in range(20))
    plan = Plan(seed=0, replicas=3, nodes=2, steps=steps, plugin="raises")

    def fails(tried: Plan) -> str:
        return "broken" if any(step.name == "p13" for step in tried.steps) else ""

    smaller = shrunk(plan, fails)
    assert [step.name for step in smaller.steps] == ["p13"]
    assert (smaller.replicas, smaller.plugin) == (1, "")
