"""Mutants of preemption: the choice of victims, evictions, retries."""

from __future__ import annotations

from typing import Any

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_priority
from tests.fault_injection.mutants.mutant import (
    Mutant,
    Overlay,
    no,
    nothing,
    replace,
    replace_names,
    with_value,
    without_call,
    wrap,
    yes,
)

__all__ = ["MUTANTS"]

_EVICTION = "kubesched.scheduler.plugins.default_preemption.eviction"
_RUNNING = "kubesched.scheduler.plugins.default_preemption.running_preemption"
_EVALUATOR = "kubesched.scheduler.plugins.default_preemption.evaluator.Evaluator"
_BUDGETS = "kubesched.scheduler.plugins.default_preemption.eviction_budgets"
_TOTALS = "kubesched.scheduler.plugins.default_preemption.totals"
_CACHED = "kubesched.scheduler.plugins.default_preemption.dry_run_cache.CachedDryRuns"
_WAITING = "kubesched.scheduler.runtime.waiting_pods"


def _evict_all_less_important(original: Any, self: Any, preemption: Any, chosen: Any) -> None:
    node = self._handle.snapshot.get(preemption.node_name)
    if node is not None:
        chosen = [each for each in node.pods if pod_priority(each.pod) < preemption.priority]
    original(self, preemption, chosen)


def _ignore_policy(original: Any, self: Any, pod: Pod, diagnosis: Any) -> Any:
    spec = Overlay(pod.spec, preemption_policy="PreemptLowerPriority")
    return original(self, Overlay(pod, spec=spec), diagnosis)


def _ignore_terminating_victims(original: Any, self: Any, *args: Any) -> str:
    from kubesched.scheduler.plugins.default_preemption import evaluator

    found: str = original(self, *args)
    return "" if found == evaluator.VICTIM_TERMINATING else found


async def _delete_any_uid(original: Any, self: Any, *args: Any, **options: Any) -> None:
    await original(self, *args, **{**options, "uid": ""})


async def _clear_nothing(*_args: Any) -> bool:
    return True


def _writing_nothing(writer: Any) -> Any:
    async def write(*_args: Any) -> None:
        return None

    return lambda: Overlay(writer(), write=write)


def _none_violating(_original: Any, _self: Any, pods: Any) -> Any:
    return [], list(pods)


MUTANTS = {
    "a victim that is being deleted is evicted again": Mutant(
        232, (replace_names(f"{_EVICTION}.Evictions._start", is_terminating=no),)
    ),
    "a less important pod stays nominated when its node is emptied": Mutant(
        19, (replace(f"{_EVICTION}.Evictions._clear_lower_nominations", _clear_nothing),)
    ),
    "what preemption has stored about a node is never invalidated": Mutant(
        15, (replace(f"{_CACHED}.invalidate_changed", nothing),)
    ),
    "victims are evicted although nothing needs their room": Mutant(
        20,
        (
            replace(f"{_RUNNING}.PodPreemption.is_awaited", yes),
            replace(f"{_RUNNING}.PodPreemption.is_needed", yes),
        ),
    ),
    "victims get no DisruptionTarget condition": Mutant(
        0, (with_value(f"{_EVICTION}.Evictions._delete", "self._writer", _writing_nothing),)
    ),
    "an eviction does not name the uid": Mutant(
        0, (wrap("kubesched.foundation.client.http_api.HttpApi.delete", _delete_any_uid),)
    ),
    "every less important pod of the node is evicted": Mutant(
        41, (wrap(f"{_EVICTION}.Evictions._start", _evict_all_less_important),)
    ),
    "a pod with the policy Never preempts": Mutant(
        1, (wrap(f"{_EVALUATOR}._ineligible", _ignore_policy),)
    ),
    "a preemptor stays registered as preempting": Mutant(
        0, (without_call(f"{_EVICTION}.Evictions._carry_out", "self._preempting.discard"),)
    ),
    "failed evictions are not retried": Mutant(
        44, (without_call(f"{_EVICTION}.Evictions._carry_out", "self._requeue"),)
    ),
    "a preemptor does not wait until its victims have terminated": Mutant(
        17, (wrap(f"{_EVALUATOR}._ineligible", _ignore_terminating_victims),)
    ),
    "PreBind of an evicted pod goes on": Mutant(
        12, (without_call(f"{_WAITING}.PodInPreBindEntry.cancel", "self._task.cancel"),)
    ),
    "Permit of an evicted pod goes on": Mutant(
        174, (replace(f"{_WAITING}.WaitingPodEntry.preempt", yes),)
    ),
    "budgets do not matter for the choice of victims": Mutant(
        23,
        (
            wrap(f"{_BUDGETS}.DisruptionBudgets.split", _none_violating),
            replace(f"{_TOTALS}.TotalsDryRun._violating", nothing),
        ),
    ),
    "victims are evicted for a preemptor that has changed": Mutant(
        30, (replace(f"{_RUNNING}.PodPreemption._has_changed", no),)
    ),
    "a preemptor clears nominations of equal pods": Mutant(
        44,
        (
            replace_names(
                f"{_EVICTION}.Evictions._clear_lower_nominations",
                pod_priority=lambda pod: pod_priority(pod) - 1,
            ),
        ),
    ),
}
