"""Storms in every run of the tests; `make torture SEEDS=10000 FROM=50000` has the rest.

300 seeds are always the same, 50 are others each time; a failure says how to run one again.
"""

from __future__ import annotations

import os

import pytest

from tests.fault_injection.plan import Plan, Step, make_plan
from tests.fault_injection.planted_bugs import PLANTED
from tests.fault_injection.planting import planted
from tests.fault_injection.run import run_plan
from tests.fault_injection.shrinking import shrink_plan

SEEDS = 300
FRESH = 50
AT_ONCE = 10


def check(seed: int) -> None:
    again = f"python -m tests.fault_injection --from {seed} --seeds 1"
    assert run_plan(make_plan(seed)).violations == [], again


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_what_must_hold_holds(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        check(seed)


@pytest.mark.parametrize("part", range(0, FRESH, AT_ONCE))
def test_what_must_hold_holds_for_seeds_that_nobody_has_seen(part: int) -> None:
    first = int.from_bytes(os.urandom(5), "big")
    print(f"seeds from {first}")
    for seed in range(first, first + AT_ONCE):
        check(seed)


def test_a_seed_runs_the_same_way_twice() -> None:
    assert run_plan(make_plan(3)).log == run_plan(make_plan(3)).log


def test_a_seed_with_a_file_runs_the_same_way_twice() -> None:
    plan = next(plan for seed in range(100) if (plan := make_plan(seed)).in_file)
    assert run_plan(plan).log == run_plan(plan).log


@pytest.mark.parametrize(
    "name",
    [
        "a lost wake-up: events wake nobody",
        "a leaked assumption",
        "a stale row: not written now and then",
        "a valid lease is taken over",
    ],
)
def test_a_planted_bug_is_noticed(name: str) -> None:
    """The others: `python -m tests.fault_injection --planted`."""
    with planted(PLANTED[name]):
        assert any(run_plan(make_plan(seed)).violations for seed in range(20))


def test_every_bug_can_still_be_planted() -> None:
    for patches in PLANTED.values():
        with planted(patches):
            pass


def test_a_planted_bug_is_told_in_few_steps() -> None:
    """Nodes that are filled without end: the smallest story has only pods in it."""
    with planted(PLANTED["nodes are filled without end"]):
        plan = next(plan for seed in range(40) if run_plan(plan := make_plan(seed)).violations)
        smaller = shrink_plan(plan)
        outcome = run_plan(smaller)
    assert outcome.violations
    assert len(smaller.steps) < len(plan.steps)


def test_shrinking_leaves_what_is_needed() -> None:
    steps = tuple(Step("create pod", f"p{number}") for number in range(20))
    plan = Plan(seed=0, replicas=3, nodes=2, steps=steps, plugin="raises")

    def fails(tried: Plan) -> str:
        return "broken" if any(step.name == "p13" for step in tried.steps) else ""

    smaller = shrink_plan(plan, fails)
    assert [step.name for step in smaller.steps] == ["p13"]
    assert (smaller.replicas, smaller.plugin) == (1, "")
