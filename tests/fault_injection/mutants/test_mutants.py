"""The mutants fit the code, and the runs detect some of them.

`python -m tests.fault_injection --mutants` runs them all.
"""

from __future__ import annotations

import contextlib

import pytest

from tests.fault_injection.mutants.catalog import MUTANTS
from tests.fault_injection.mutants.mutant import (
    Mutant,
    MutantTargetError,
    Overlay,
    activate,
    forget_read_values,
    nothing,
    replace,
    replace_names,
    stale_targets,
    unread_values,
    with_value,
    without_call,
    wrap,
)
from tests.fault_injection.plan import make_plan
from tests.fault_injection.run import run_plan
from tests.fault_injection.shrinking import shrink_plan

HERE = "tests.fault_injection.mutants.test_mutants"


@pytest.mark.parametrize("name", MUTANTS)
def test_every_target_exists(name: str) -> None:
    assert stale_targets(MUTANTS[name]) == []


@pytest.mark.parametrize("name", MUTANTS)
def test_every_mutant_can_be_activated(name: str) -> None:
    with activate(MUTANTS[name]):
        pass


@pytest.mark.parametrize(
    "name",
    [
        "events do not requeue any pod",
        "an assumption leaks",
        "one in five changed rows is not written",
        "a valid lease is taken over",
    ],
)
def test_a_mutant_is_detected(name: str) -> None:
    with activate(MUTANTS[name]):
        assert any(run_plan(make_plan(seed)).violations for seed in range(20))


def test_a_violation_is_shrunk_to_few_steps() -> None:
    """Nodes without capacity: the smallest log has only pods in it."""
    with activate(MUTANTS["nodes have no capacity"]):
        plan = next(plan for seed in range(40) if run_plan(plan := make_plan(seed)).violations)
        smaller = shrink_plan(plan)
        outcome = run_plan(smaller)
    assert outcome.violations
    assert len(smaller.steps) < len(plan.steps)


class Counter:
    """A target with a method that a mutant can disable."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.total = 0

    def add(self, amount: int) -> int:
        self.log.append("add")
        self.total += doubled(amount)
        return self.total

    async def add_later(self, amount: int) -> int:
        return self.add(amount)

    @property
    def size(self) -> int:
        return len(self.log)


def doubled(amount: int) -> int:
    return 2 * amount


def test_a_call_inside_a_function_can_be_silenced() -> None:
    counter = Counter()
    with activate(Mutant(0, (without_call(f"{HERE}.Counter.add", "self.log.append"),))):
        assert counter.add(1) == 2
    assert (counter.log, counter.total) == ([], 2)
    assert counter.add(1) == 4
    assert counter.log == ["add"]


def test_a_name_of_a_module_can_be_replaced() -> None:
    with activate(Mutant(0, (replace_names(f"{HERE}.Counter.add", doubled=lambda _: 7),))):
        assert Counter().add(1) == 7
    assert doubled(1) == 2


def test_a_property_can_be_wrapped() -> None:
    patch = wrap(f"{HERE}.Counter.size", lambda original, self: original(self) + 1)
    with activate(Mutant(0, (patch,))):
        assert Counter().size == 1


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        (replace(f"{HERE}.Counter.subtract", nothing), "has no 'subtract'"),
        (replace(f"{HERE}.Gauge.add", nothing), "has no 'Gauge'"),
        (replace("kubesched.nowhere.add", nothing), "has no 'nowhere'"),
        (without_call(f"{HERE}.Counter.add", "self.history.append"), "does not use 'history'"),
        (without_call(f"{HERE}.Counter.add", "counter.log.append"), "has no parameter 'counter'"),
        (replace_names(f"{HERE}.Counter.add", halved=nothing), "does not use 'halved'"),
    ],
)
def test_a_missing_mutant_target_is_reported(patch: object, message: str) -> None:
    mutant = Mutant(0, (patch,))  # type: ignore[arg-type]
    (problem,) = stale_targets(mutant)
    assert message in problem
    assert "choose another target for this mutant" in problem


def test_a_missing_attribute_ends_the_run_even_if_the_code_catches_the_error() -> None:
    patch = with_value(f"{HERE}.Counter.add", "amount.total", lambda total: total)
    with pytest.raises(MutantTargetError, match="int has no attribute 'total'"):
        _add_and_ignore_errors(Mutant(0, (patch,)))


def _add_and_ignore_errors(mutant: Mutant) -> None:
    with activate(mutant), contextlib.suppress(MutantTargetError):
        Counter().add(1)


def test_an_overlay_of_an_attribute_that_does_not_exist_is_reported() -> None:
    with pytest.raises(MutantTargetError, match="Counter has no attribute 'sum'"):
        Overlay(Counter(), sum=5)


def test_values_that_the_code_does_not_read_are_reported() -> None:
    forget_read_values()
    overlay = Overlay(Counter(), total=5, size=2)
    assert unread_values() == ["Counter.size", "Counter.total"]
    assert overlay.total == 5
    assert unread_values() == ["Counter.size"]


def test_an_overlay_passes_assignments_on() -> None:
    counter = Counter()
    overlay = Overlay(counter, total=5)
    overlay.total = 9
    assert (overlay.total, counter.total) == (5, 9)
    assert isinstance(overlay, Counter)
