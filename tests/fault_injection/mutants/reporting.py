"""Mutants of events, conditions and metrics."""

from __future__ import annotations

from typing import Any

from kubesched.api import Pod
from tests.fault_injection.mutants.mutant import (
    Mutant,
    replace,
    with_value,
    without_call,
    wrap,
)

__all__ = ["MUTANTS"]

_WRITER = "kubesched.framework.pod_status_writer"
_CYCLE = "kubesched.scheduler.cycles.binding_cycle.BindingCycle"
_FAILURES = "kubesched.scheduler.cycles.failure.FailureHandler"


def _report_success_of_failed_binding(
    original: Any, self: Any, placement: Any, status: Any
) -> None:
    pod = placement.pod
    note = f"Successfully assigned default/{pod.metadata.name} to nowhere"
    recorder = placement.framework.recorder
    recorder.event(pod, "Normal", "Scheduled", "Binding", note)
    original(self, placement, status)


async def _write_first_condition_only(
    original: Any, self: Any, pod: Pod, condition: Any, nominated_node: str | None
) -> None:
    if condition is None or not pod.status.conditions:
        await original(self, pod, condition, nominated_node)


def _observe_attempt_twice(original: Any, self: Any, attempt: Any) -> None:
    metrics, now_ns = self._services.metrics, self._clock.monotonic_ns()
    profile = attempt.framework.profile_name
    metrics.observe_attempt("scheduled", profile, now_ns - attempt.started_ns)
    original(self, attempt)


def _ignore_new_message(original: Any, pod: Pod, wanted: Any, now_ns: int) -> dict[str, Any]:
    for current in pod.status.conditions:
        if (current.type, current.status, current.reason) == (
            wanted.type,
            wanted.status,
            wanted.reason,
        ):
            return {}
    change: dict[str, Any] = original(pod, wanted, now_ns)
    return change


def _replace_all_conditions(original: Any, *args: Any) -> dict[str, Any]:
    change: dict[str, Any] = original(*args)
    if "conditions" in change:
        change["conditions"] = [{"$patch": "replace"}, *change["conditions"]]
    return change


def _counting_errors_as_scheduled(observe_attempt: Any) -> Any:
    def observe(result: str, *args: Any) -> None:
        observe_attempt("scheduled" if result == "error" else result, *args)

    return observe


MUTANTS = {
    "an event reports a failed binding as a success": Mutant(
        0, (wrap(f"{_CYCLE}._fail", _report_success_of_failed_binding),)
    ),
    "only the first condition of a pod is written": Mutant(
        0, (wrap(f"{_WRITER}.PodStatusWriter.write", _write_first_condition_only),)
    ),
    "a status patch reaches a pod that was recreated": Mutant(
        40, (replace(f"{_WRITER}.for_this_object", lambda _, patch: patch),)
    ),
    "no event reports why a pod is unschedulable": Mutant(
        21, (without_call(f"{_FAILURES}._handle", "attempt.framework.recorder.event"),)
    ),
    "no event reports that a pod is scheduled": Mutant(
        10, (without_call(f"{_CYCLE}._succeed", "placement.attempt.framework.recorder.event"),)
    ),
    "a successful attempt is counted twice": Mutant(
        0, (wrap(f"{_CYCLE}._observe_success", _observe_attempt_twice),)
    ),
    "a condition keeps its old message": Mutant(
        0, (wrap(f"{_WRITER}._condition_change", _ignore_new_message),)
    ),
    "a patch removes the other conditions of a pod": Mutant(
        210, (wrap(f"{_WRITER}._condition_change", _replace_all_conditions),)
    ),
    "an attempt that failed with an error is counted as scheduled": Mutant(
        415,
        (
            with_value(
                f"{_FAILURES}._handle",
                "attempt.framework.metrics.observe_attempt",
                _counting_errors_as_scheduled,
            ),
        ),
    ),
    "the write of a condition is not retried": Mutant(11, (replace(f"{_WRITER}._TRIES", 1),)),
}
