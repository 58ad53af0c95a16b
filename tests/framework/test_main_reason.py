"""The main reason of a failed attempt, from its statuses."""

from __future__ import annotations

import numpy as np

from kubesched.framework import Diagnosis, FitError, Status
from kubesched.framework.causes import InsufficientResource, UntoleratedTaint
from kubesched.framework.diagnosis import main_reason

SHORT = Status.unschedulable("Insufficient cpu", causes=(InsufficientResource("cpu"),))
TAINTED = Status.unresolvable("node(s) had untolerated taint(s)", causes=(UntoleratedTaint(),))


def failed(*statuses: Status, about_pod: str = "") -> Status:
    """The status of an attempt whose nodes were rejected with these statuses."""
    diagnosis = Diagnosis([f"n{number}" for number in range(len(statuses))])
    for row, status in enumerate(statuses):
        diagnosis.add_verdicts(np.array([row]), np.array([1]), (status.blame("Some"),))
    diagnosis.pre_filter_message = about_pod
    diagnosis.post_filter_message = "preemption: 0/3 nodes are available: 3 No victims found."
    return Status.failure(FitError(len(statuses), diagnosis))


def test_the_reason_of_most_nodes_is_the_main_reason() -> None:
    assert main_reason(failed(TAINTED, SHORT, SHORT)) == "Insufficient cpu"


def test_of_two_equal_reasons_the_first_by_name_is_the_main_reason() -> None:
    assert main_reason(failed(TAINTED, SHORT)) == "Insufficient cpu"


def test_a_reason_with_commas_and_full_stops_is_not_cut() -> None:
    odd = Status.unschedulable("held, e.g. by 3 owners. Ask them")
    assert main_reason(failed(odd)) == "held, e.g. by 3 owners. Ask them"


def test_a_reason_of_the_pod_as_a_whole_comes_first() -> None:
    missing = 'persistentvolumeclaim "data" not found'
    assert main_reason(failed(SHORT, about_pod=missing)) == missing


def test_an_error_is_shortened_to_its_first_sentence() -> None:
    assert main_reason(Status.failure("the server is away. Try later.")) == "the server is away"
