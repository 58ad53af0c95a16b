"""The scenario runner: it sets up an obstacle, removes it, and checks that the pod is placed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from kubesched.cluster.apiserver import Store
from tests.fault_injection.accounting_checks import has_unschedulable_condition
from tests.fault_injection.answer_checks import answer_differences
from tests.fault_injection.liveness_scenarios import LivenessScenario
from tests.fault_injection.plan import Step
from tests.fault_injection.replica import ReplicaProcess
from tests.fault_injection.state_checks import stale_copies

__all__ = ["ScenarioRunner"]

_SYNCED_WITHIN_S = 0.2
_CONDITION_WITHIN_S = 3
# Pauses before the checks whether a scenario's pod is placed; backoff lasts ten seconds at most.
_PLACED_WITHIN_S = (16, 30)
_PODS_SEARCHED_AGAIN = 4


class ScenarioRunner:
    """Runs liveness scenarios.

    `leading` returns the processes that lead. `report` gets violations, `log` all that happens.
    """

    def __init__(
        self,
        leading: Callable[[], list[ReplicaProcess]],
        report: Callable[[str], None],
        log: Callable[[str], None],
    ) -> None:
        self._leading, self._report, self._log = leading, report, log

    async def run(self, step: Step, scenario: LivenessScenario, store: Store) -> None:
        self._log(f"scenario {scenario.kind}: {scenario.pod} waits for its obstacle to be removed")
        before, may_act = self._leading(), self._may_act()
        await anext(scenario.steps)
        may_act &= self._may_act()
        soon_s = min(_SYNCED_WITHIN_S, step.pause_s)
        await asyncio.sleep(soon_s)
        may_act &= self._may_act()
        is_synced = self._is_up_to_date(store)  # a watch may stall
        await asyncio.sleep(step.pause_s - soon_s)
        may_act &= before == self._leading() and self._may_act()
        if is_synced:
            is_due = may_act and step.pause_s >= _CONDITION_WITHIN_S
            self._check_before_removal(scenario, store, may_act=may_act, is_due=is_due)
        for process in self._leading():
            for text in answer_differences(process, most=_PODS_SEARCHED_AGAIN):
                self._report(text)
        self._log(f"scenario {scenario.kind}: the obstacle is removed")
        await anext(scenario.steps)
        for pause_s in _PLACED_WITHIN_S:
            await asyncio.sleep(pause_s)
            pod = store.find("pods", f"default/{scenario.pod}")
            if pod is None or pod["spec"].get("nodeName") or not self._is_up_to_date(store):
                break
            if scenario.needs_one_leader and not (may_act and before == self._leading()):
                break
        else:
            self._report(f"scenario {scenario.kind}: {scenario.pod} could be placed, and waits")
        # Only if one leader had all objects during the whole scenario.
        if is_synced and may_act and before == self._leading():
            for text in scenario.wrong:
                self._report(f"scenario {scenario.kind}: {text}")
            gone = [name for name in scenario.spared if not store.find("pods", f"default/{name}")]
            if len(gone) > scenario.victims:
                self._report(f"scenario {scenario.kind}: {gone} were evicted without need")
        await anext(scenario.steps, None)

    def _check_before_removal(
        self, scenario: LivenessScenario, store: Store, *, may_act: bool, is_due: bool
    ) -> None:
        """Check that the pod waits, and that its condition says why if `is_due`.

        As in the reference, a new leader does not have the nomination of a gated pod, nor pods
        that were about to be bound or evicted. A leader that could write all the time, and has no
        write in flight, has written the condition.
        """
        pod = store.find("pods", f"default/{scenario.pod}")
        if pod is None:
            return
        if pod["spec"].get("nodeName") and (may_act or not scenario.needs_one_leader):
            self._report(
                f"scenario {scenario.kind}: {scenario.pod} is placed although the obstacle is there"
            )
        should_have_condition = (
            is_due and scenario.gets_condition and self._is_idle() and self._is_up_to_date(store)
        )
        if should_have_condition and not has_unschedulable_condition(pod):
            self._report(f"scenario {scenario.kind}: {scenario.pod} waits and has no condition")

    def _may_act(self) -> bool:
        return len(self._leading()) == 1 and all(
            process.fence is not None and process.fence.may_begin() for process in self._leading()
        )

    def _is_idle(self) -> bool:
        return not any(
            process.fence is None or process.fence.under_way for process in self._leading()
        )

    def _is_up_to_date(self, store: Store) -> bool:
        """Whether one leader continues, and its informers have every object of the store.

        A leader that ends may keep the lease until none of its requests can take effect.
        """
        processes = self._leading()
        return (
            len(processes) == 1
            and not processes[0].scheduler.queue.is_closed
            and not any(stale_copies(processes[0].scheduler, store))
        )
