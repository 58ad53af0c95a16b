"""Shrinking: reduces a failing plan as long as it fails in the same way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from tests.fault_injection.plan import Plan
from tests.fault_injection.run import run_plan

__all__ = ["shrink_plan"]

_MOST_RUNS = 80
_SIMPLER: tuple[dict[str, Any], ...] = (
    {"replicas": 1},
    {"plugin": ""},
    {"volumes": False},
    {"devices": False},
    {"extender": False},
    {"workload": False},
    {"groups": False},
    {"preempts": False},
    {"profiles": 1},
    {"drift": False},
    {"in_file": False},
    {"verifies": False},
)


def shrink_plan(plan: Plan, fails: Callable[[Plan], str] | None = None) -> Plan:
    """Return a smaller plan whose first violation is of the same kind.

    It makes some 80 runs at most.
    """
    fails = fails or _first_violation
    wanted = fails(plan)
    if not wanted:
        return plan
    runs = 0
    for change in _SIMPLER:
        smaller = replace(plan, **change)
        runs += 1
        if fails(smaller) == wanted:
            plan = smaller
    size = max(1, len(plan.steps) // 2)
    while size and runs < _MOST_RUNS:
        start = 0
        while start < len(plan.steps) and runs < _MOST_RUNS:
            steps = plan.steps[:start] + plan.steps[start + size :]
            runs += 1
            smaller = replace(plan, steps=steps)
            if fails(smaller) == wanted:
                plan = smaller
            else:
                start += size
        size //= 2
    return plan


def _first_violation(plan: Plan) -> str:
    """Return the kind of the first violation: its words without names and numbers."""
    try:
        violations = run_plan(plan).violations
    except Exception as error:
        violations = [f"the run fails: {error!r}"]
    if not violations:
        return ""
    return " ".join(word for word in violations[0].split() if word.isalpha())
