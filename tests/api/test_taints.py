"""Matching of tolerations and taints (docs/reference/05 §4.2, §9.1, §11.5)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from kubesched.api import Taint, Toleration
from kubesched.api.taints import (
    NO_EXECUTE,
    NO_SCHEDULE,
    PREFER_NO_SCHEDULE,
    first_untolerated,
    tolerates,
    tolerates_unschedulable,
)


def taint(key: str = "k", value: str = "v", effect: str = NO_SCHEDULE) -> Taint:
    return Taint(key=key, value=value, effect=effect)


class Case(NamedTuple):
    toleration: Toleration
    taint: Taint
    want: bool


CASES = {
    "the key exists": Case(Toleration(key="k", operator="Exists"), taint(), True),
    "the key exists, another effect": Case(
        Toleration(key="k", operator="Exists", effect=NO_EXECUTE), taint(), False
    ),
    "any key with the effect": Case(
        Toleration(operator="Exists", effect=NO_SCHEDULE), taint(), True
    ),
    "anything at all": Case(Toleration(operator="Exists"), taint(effect="Odd"), True),
    "equal is the default": Case(Toleration(key="k", value="v"), taint(), True),
    "another value": Case(Toleration(key="k", operator="Equal", value="w"), taint(), False),
    "two empty values are equal": Case(Toleration(key="k"), taint(value=""), True),
    "another key": Case(Toleration(key="j", operator="Exists"), taint(), False),
    "no key, equal value": Case(Toleration(value="v"), taint(key="any"), True),
    "the wrong effect does not help": Case(
        Toleration(key="k", value="v", effect=PREFER_NO_SCHEDULE), taint(), False
    ),
    "seconds do not matter": Case(
        Toleration(key="k", operator="Exists", toleration_seconds=0), taint(effect=NO_EXECUTE), True
    ),
    "an unknown operator": Case(Toleration(key="k", operator="Odd", value="v"), taint(), False),
    "comparisons are off by default": Case(
        Toleration(key="k", operator="Gt", value="750"), taint(value="950"), False
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_tolerates(case: Case) -> None:
    assert tolerates(case.toleration, case.taint) is case.want


COMPARISONS = {
    "more": ("Gt", "750", "950", True),
    "not more": ("Gt", "950", "950", False),
    "less": ("Lt", "-3", "-4", True),
    "not less": ("Lt", "3", "3", False),
    "a word": ("Gt", "950", "high", False),
    "nothing": ("Gt", "", "1", False),
    "leading zeros": ("Gt", "0100", "200", False),
    "a plus sign": ("Gt", "1", "+2", False),
    "minus zero": ("Lt", "-0", "-5", False),
    "a fraction": ("Lt", "1.5", "1", False),
    "beyond 64 bits": ("Lt", "9223372036854775808", "1", False),
    "the largest number": ("Lt", "9223372036854775807", "1", True),
}


@pytest.mark.parametrize(
    ("operator", "limit", "value", "want"), COMPARISONS.values(), ids=COMPARISONS
)
def test_comparisons_with_the_gate_on(operator: str, limit: str, value: str, want: bool) -> None:
    toleration = Toleration(key="k", operator=operator, value=limit)
    assert tolerates(toleration, taint(value=value), comparison_operators=True) is want


def test_the_first_untolerated_taint() -> None:
    taints = (
        taint("soft", effect=PREFER_NO_SCHEDULE),
        taint("odd", effect=""),
        taint("a"),
        taint("b", effect=NO_EXECUTE),
    )
    tolerate_a = (Toleration(key="a", operator="Exists"),)
    assert first_untolerated(taints, ()) == taints[2]
    assert first_untolerated(taints, tolerate_a) == taints[3]
    assert first_untolerated(taints, (Toleration(operator="Exists"),)) is None
    assert first_untolerated(taints, (), effects=(PREFER_NO_SCHEDULE,)) == taints[0]


@pytest.mark.parametrize(("effect", "want"), [(NO_EXECUTE, False), (NO_SCHEDULE, True), ("", True)])
def test_a_cordoned_node(effect: str, want: bool) -> None:
    toleration = Toleration(
        key="node.kubernetes.io/unschedulable", operator="Exists", effect=effect
    )
    assert tolerates_unschedulable((toleration,)) is want
