"""Poses a puzzle and solves it; then its pod must be placed with nothing else happening."""

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

_HEARD_WITHIN_S = 0.2
_TOLD_WITHIN_S = 3
_SOLVED_WITHIN_S = (16, 30)
"""When to look whether a puzzle's pod is placed; backoff lasts ten seconds at the most."""
_ASKED_AGAIN = 4


class ScenarioRunner:
    """`leading` are the processes that lead; `violated` hears what must not be, `tell` what is."""

    def __init__(
        self,
        leading: Callable[[], list[ReplicaProcess]],
        report: Callable[[str], None],
        log: Callable[[str], None],
    ) -> None:
        self._leading, self._report, self._log = leading, report, log

    async def pose(self, step: Step, scenario: LivenessScenario, store: Store) -> None:
        self._log(f"scenario {scenario.kind}: {scenario.pod} is posed")
        before, may_act = self._leading(), self._may_act()
        await anext(scenario.steps)
        may_act &= self._may_act()
        soon_s = min(_HEARD_WITHIN_S, step.pause_s)
        await asyncio.sleep(soon_s)
        may_act &= self._may_act()
        is_heard = self._is_up_to_date(store)  # a watch may stall
        await asyncio.sleep(step.pause_s - soon_s)
        may_act &= before == self._leading() and self._may_act()
        if is_heard:
            is_told = may_act and step.pause_s >= _TOLD_WITHIN_S
            self._look_before(scenario, store, may_act=may_act, is_told=is_told)
        for process in self._leading():
            for text in answer_differences(process, most=_ASKED_AGAIN):
                self._report(text)
        self._log(f"scenario {scenario.kind}: it is solved")
        await anext(scenario.steps)
        for pause_s in _SOLVED_WITHIN_S:
            await asyncio.sleep(pause_s)
            pod = store.find("pods", f"default/{scenario.pod}")
            if pod is None or pod["spec"].get("nodeName") or not self._is_up_to_date(store):
                break
            if scenario.needs_one_leader and not (may_act and before == self._leading()):
                break
        else:
            self._report(f"scenario {scenario.kind}: {scenario.pod} could be placed, and waits")
        # As far as one leader knew all the time what there was.
        if is_heard and may_act and before == self._leading():
            gone = [name for name in scenario.spared if not store.find("pods", f"default/{name}")]
            if len(gone) > scenario.victims:
                self._report(f"scenario {scenario.kind}: {gone} went though nobody needed that")
        await anext(scenario.steps, None)

    def _look_before(
        self, scenario: LivenessScenario, store: Store, *, may_act: bool, is_told: bool
    ) -> None:
        """See whether the pod waits, and is told why if `is_told`.

        Who begins to lead now does not know whom a gated pod keeps away, as in the reference, nor
        who was about to be bound or evicted. Who could write all the time, and has nothing under
        way any more, has told the pod.
        """
        pod = store.find("pods", f"default/{scenario.pod}")
        if pod is None:
            return
        if pod["spec"].get("nodeName") and (may_act or not scenario.needs_one_leader):
            self._report(f"scenario {scenario.kind}: {scenario.pod} is placed before it is solved")
        is_due = is_told and scenario.is_told_why and self._is_idle() and self._is_up_to_date(store)
        if is_due and not has_unschedulable_condition(pod):
            self._report(f"scenario {scenario.kind}: {scenario.pod} waits and is not told why")

    def _may_act(self) -> bool:
        return len(self._leading()) == 1 and all(
            process.fence is not None and process.fence.may_begin() for process in self._leading()
        )

    def _is_idle(self) -> bool:
        return not any(
            process.fence is None or process.fence.under_way for process in self._leading()
        )

    def _is_up_to_date(self, store: Store) -> bool:
        """Whether there is one leader that goes on, and its watches have brought it all there is.

        One that ends may keep the lease for long, until nothing that it sent can take effect.
        """
        processes = self._leading()
        return (
            len(processes) == 1
            and not processes[0].scheduler.queue.is_closed
            and not any(stale_copies(processes[0].scheduler, store))
        )
