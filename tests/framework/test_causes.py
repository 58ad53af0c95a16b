"""Statuses carry their causes as values."""

from __future__ import annotations

from kubesched.framework import Cause, FitError, Rejections, Status
from kubesched.framework.causes import InsufficientResource, TooManyPods, UntoleratedTaint
from kubesched.framework.wrong_answer import is_sound


class HeldAsSpare(Cause, frozen=True):
    label: str
    hours: tuple[int, ...] = ()


def test_a_cause_is_plain_data_with_its_type() -> None:
    assert InsufficientResource("cpu").to_dict() == {
        "type": "InsufficientResource",
        "resource": "cpu",
    }
    assert InsufficientResource("cpu", asked=100, free=0).to_dict() == {
        "type": "InsufficientResource",
        "resource": "cpu",
        "asked": 100,
        "free": 0,
    }


def test_a_user_defined_cause_needs_only_fields() -> None:
    assert HeldAsSpare("spare", (1, 2)).to_dict() == {
        "type": "HeldAsSpare",
        "label": "spare",
        "hours": (1, 2),
    }


def test_blame_preserves_the_causes_of_a_status() -> None:
    status = Status.unresolvable("no", causes=(UntoleratedTaint(),)).blame("TaintToleration")
    assert status.causes == (UntoleratedTaint(),)
    assert status.plugin == "TaintToleration"


def test_reasons_have_their_causes() -> None:
    two = (TooManyPods(), InsufficientResource("cpu"))
    assert Status.unschedulable("full", "short", causes=two).reasons_with_causes == (
        ("full", two[0]),
        ("short", two[1]),
    )
    assert Status.unschedulable("full").reasons_with_causes == (("full", None),)
    assert Status.failure("broken").reasons_with_causes == (("broken", None),)


def test_statuses_that_differ_in_their_cause_are_different_verdicts() -> None:
    one, other = (Status.unschedulable("no", causes=(HeldAsSpare(each),)) for each in "ab")
    rejections = Rejections.from_statuses([one, other, one])
    assert rejections.codes is not None
    assert rejections.codes.tolist() == [1, 2, 1]
    assert rejections.statuses == (one, other)


def test_a_status_has_one_cause_per_reason_or_no_causes() -> None:
    assert is_sound(Status.unschedulable("a", "b"))
    assert is_sound(Status.unschedulable("a", causes=(TooManyPods(),)))
    assert not is_sound(Status.unschedulable("a", "b", causes=(TooManyPods(),)))
    assert not is_sound(Status.unschedulable("a", causes=("TooManyPods",)))  # type: ignore[arg-type]


def test_a_fit_error_has_the_causes_of_its_nodes() -> None:
    status = Status.unschedulable("no", causes=(TooManyPods(),)).blame("Own")
    error = FitError.for_one_node("n", status)
    assert error.diagnosis.status_of("n", None).causes == (TooManyPods(),)
