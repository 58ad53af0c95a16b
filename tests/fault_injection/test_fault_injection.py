"""Fault injection with fixed seeds, so that a failure comes from a change of the code.

`make faults SEEDS=10000 FROM=50000` runs others, and the nightly workflow runs new ones every day.
A failure prints the command that runs a seed again.
"""

from __future__ import annotations

import pytest

from tests.fault_injection.plan import Plan, Step, make_plan
from tests.fault_injection.run import run_plan
from tests.fault_injection.shrinking import shrink_plan

SEEDS = 300
PER_TEST = 10
# Seeds that once failed because of bugs in the harness.
FOUND = {
    41000041: "a victim that was terminating already, and counts for the spread of its preemptor",
}


def check_seed(seed: int) -> None:
    again = f"python -m tests.fault_injection --from {seed} --seeds 1"
    assert run_plan(make_plan(seed)).violations == [], again


@pytest.mark.parametrize("first", range(0, SEEDS, PER_TEST))
def test_the_invariants_hold(first: int) -> None:
    for seed in range(first, first + PER_TEST):
        check_seed(seed)


@pytest.mark.parametrize("seed", FOUND, ids=str)
def test_the_harness_models_documented_reference_behavior(seed: int) -> None:
    check_seed(seed)


def test_a_seed_runs_the_same_way_twice() -> None:
    assert run_plan(make_plan(3)).log == run_plan(make_plan(3)).log


def test_a_seed_with_a_file_runs_the_same_way_twice() -> None:
    plan = next(plan for seed in range(100) if (plan := make_plan(seed)).in_file)
    assert run_plan(plan).log == run_plan(plan).log


def test_shrinking_keeps_the_step_that_fails() -> None:
    steps = tuple(Step("create pod", f"p{number}") for number in range(20))
    plan = Plan(seed=0, replicas=3, nodes=2, steps=steps, plugin="raises")

    def fails(tried: Plan) -> str:
        return "broken" if any(step.name == "p13" for step in tried.steps) else ""

    smaller = shrink_plan(plan, fails)
    assert [step.name for step in smaller.steps] == ["p13"]
    assert (smaller.replicas, smaller.plugin) == (1, "")
