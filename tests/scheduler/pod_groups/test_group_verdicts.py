"""The effects of a group's verdict on its members, and its condition.

docs/reference/09 §11, §13.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kubesched.api import Condition, ObjectMeta, PodGroup, PodGroupStatus
from kubesched.framework import (
    SUCCESS,
    Code,
    CycleState,
    FitError,
    Nominating,
    NominatingMode,
    QueuedPodInfo,
    Status,
)
from kubesched.framework.diagnosis import Diagnosis
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.cycles.failure import CLEAR_NOMINATION
from kubesched.scheduler.pod_groups.group_condition import condition_of, condition_patch
from kubesched.scheduler.pod_groups.group_results import (
    WAITING_FOR_PREEMPTION,
    GroupResult,
    MemberResult,
    unschedulable,
)
from kubesched.scheduler.pod_groups.group_submission import failure_of
from tests.scheduler.pod_groups.group_harness import member

NOTHING_FITS = Status(Code.UNSCHEDULABLE, (), FitError(1, Diagnosis()))
BROKEN = Status.failure("broken")
OTHER = Status.failure("failed to schedule other pod from a pod group: broken")
WAIT = Status(Code.WAIT, ("not yet",))
TO_N = Nominating(NominatingMode.OVERRIDE, "n")
GROUP_ERROR = GroupResult(OTHER, [])
GROUP_FITS = GroupResult(SUCCESS, [])
GROUP_WAITS = GroupResult(unschedulable(WAITING_FOR_PREEMPTION), [], True)
GROUP_FAILS = GroupResult(unschedulable(), [])


def result(status: Status, nominating: Nominating | None = None, **fields: Any) -> MemberResult:
    framework: Any = None
    attempt = Attempt(framework, CycleState(), QueuedPodInfo(member("p"), 0), 0)
    return MemberResult(attempt, status, 0, nominating, **fields)


def fits() -> MemberResult:
    return result(SUCCESS, CLEAR_NOMINATION, node_name="n", permit=WAIT)


def preempts() -> MemberResult:
    return result(NOTHING_FITS, TO_N, node_name="n", permit=WAIT, needs_preemption=True)


class Case(NamedTuple):
    group: GroupResult
    member: MemberResult
    message: str
    nominating: Nominating | None


HELD = "pod group is unschedulable, not yet"
CASES = {
    "an error of its own": Case(GROUP_ERROR, result(BROKEN), "broken", CLEAR_NOMINATION),
    "an error of another": Case(GROUP_ERROR, fits(), OTHER.message, CLEAR_NOMINATION),
    "an error of another, and it does not fit": Case(
        GROUP_ERROR, result(NOTHING_FITS, TO_N), OTHER.message, CLEAR_NOMINATION
    ),
    "the group goes without it": Case(GROUP_FITS, result(NOTHING_FITS), NOTHING_FITS.message, None),
    "the group goes while it would preempt": Case(GROUP_FITS, preempts(), HELD, CLEAR_NOMINATION),
    "it fits and another preempts": Case(
        GROUP_WAITS, fits(), f"pod group is unschedulable, {WAITING_FOR_PREEMPTION}", TO_N
    ),
    "it preempts and the group waits": Case(GROUP_WAITS, preempts(), NOTHING_FITS.message, TO_N),
    "it fails while the group waits": Case(
        GROUP_WAITS, result(NOTHING_FITS), NOTHING_FITS.message, None
    ),
    "it fits and too few others do": Case(GROUP_FAILS, fits(), HELD, CLEAR_NOMINATION),
    "it preempts in vain": Case(GROUP_FAILS, preempts(), HELD, CLEAR_NOMINATION),
    "no pod fits": Case(GROUP_FAILS, result(NOTHING_FITS), NOTHING_FITS.message, None),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_messages_of_a_member(case: Case) -> None:
    status, nominating = failure_of(case.group, case.member)
    assert status.message == case.message
    assert nominating == case.nominating


# -- the condition -------------------------------------------------------------------------

BEFORE = "2026-01-01T00:00:00Z"
NOW_NS = 1_800_000_000 * 10**9
NOW = "2027-01-15T08:00:00Z"
FAILED = ("False", "Unschedulable", "pod group is unschedulable")


def known(*condition: str) -> PodGroup:
    conditions: tuple[Condition, ...] = ()
    if condition:
        status, reason, message = condition
        conditions = (
            Condition(
                type="PodGroupScheduled",
                status=status,
                reason=reason,
                message=message,
                last_transition_time=BEFORE,
            ),
        )
    return PodGroup(
        metadata=ObjectMeta(name="g", namespace="default"),
        status=PodGroupStatus(conditions=conditions),
    )


PATCHES: dict[str, tuple[tuple[str, ...], Status, dict[str, str] | None]] = {
    "new": (
        (),
        unschedulable(),
        {
            "lastTransitionTime": NOW,
            "message": "pod group is unschedulable",
            "reason": "Unschedulable",
            "status": "False",
        },
    ),
    "another reason": (
        FAILED,
        BROKEN,
        {"message": "broken", "reason": "SchedulerError"},
    ),
    "another message": (
        FAILED,
        unschedulable(WAITING_FOR_PREEMPTION),
        {"message": f"pod group is unschedulable, {WAITING_FOR_PREEMPTION}"},
    ),
    "scheduled at last": (
        FAILED,
        SUCCESS,
        {"lastTransitionTime": NOW, "message": "", "reason": "Scheduled", "status": "True"},
    ),
    "nothing new": (FAILED, unschedulable(), None),
    "scheduled before": (("True", "Scheduled", ""), unschedulable(), None),
    "broken after it was scheduled": (("True", "Scheduled", ""), BROKEN, None),
}


@pytest.mark.parametrize(("before", "status", "want"), PATCHES.values(), ids=PATCHES)
def test_only_changed_conditions_are_written(
    before: tuple[str, ...], status: Status, want: dict[str, str] | None
) -> None:
    patch = condition_patch(known(*before), condition_of(status), NOW_NS)
    if want is None:
        assert patch is None
        return
    assert patch is not None
    assert patch["status"]["conditions"] == [{"type": "PodGroupScheduled", **want}]
    order = patch["status"].get("$setElementOrder/conditions")
    assert order == ([{"type": "PodGroupScheduled"}] if before else None)
