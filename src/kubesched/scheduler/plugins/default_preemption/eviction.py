"""Eviction of victims in the background (docs/reference/06 §3.9).

The scheduling loop does not wait for evictions. The preemptor is kept out of the queue until the
deletion of the last victim has begun. Before each deletion, the preemption checks whether it is
still needed: if the preemptor was deleted or fits a node by then, the remaining victims stay.
"""

from __future__ import annotations

import asyncio
import enum
from collections.abc import Sequence
from typing import NamedTuple

from kubesched.api import Pod, PodCondition, PodGroup
from kubesched.api.access import ApiError
from kubesched.api.pod_facts import is_terminating, pod_key, pod_priority
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Handle, PodInfo
from kubesched.framework.pod_groups import group_name_of
from kubesched.framework.pod_status_writer import PodStatusWriter
from kubesched.framework.status_writes import status_writes
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import PreemptionCandidate
from kubesched.scheduler.plugins.default_preemption.running_preemption import (
    OtherPreemptors,
    PodGroupPreemption,
    PodPreemption,
    RunningPreemption,
)

__all__ = [
    "DISRUPTION_TARGET",
    "PREEMPTION_BY_SCHEDULER",
    "Evictions",
    "is_victim",
]

log = get_logger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
_NOT_FOUND, _CONFLICT = 404, 409
# After its victims were spared this often, a preemptor evicts even if it seems to fit elsewhere.
_MAX_SPARED = 2
_MAX_TRACKED = 1_024  # preemptors with failed preemptions
_MAX_DELAY_NS = 10 * SECOND
_WATCH_DELAY_NS = SECOND  # a written change should be watched within this time


class _Outcome(enum.Enum):
    """The outcome of an eviction."""

    EVICTED = enum.auto()
    UNBOUND = enum.auto()  # the victim was on no node, so its deletion triggers no event
    # the victim ended without an eviction, not reported by the informer yet
    LEAVING = enum.auto()
    GONE = enum.auto()  # the victim ended without an eviction, and the informer reported it
    FAILED = enum.auto()
    SPARED = enum.auto()  # the room is no longer needed


_SUCCESSFUL = frozenset({_Outcome.EVICTED, _Outcome.UNBOUND, _Outcome.LEAVING, _Outcome.GONE})
# The deletion of the victim will requeue the preemptor, unless the preemptor is still gated then.
# If the deletion was reported earlier, the event may have come too early to requeue it.
_ANNOUNCED = frozenset({_Outcome.EVICTED, _Outcome.LEAVING})


class _FailedTries(NamedTuple):
    """Consecutive preemptions for one preemptor that did not succeed."""

    failed: int = 0
    spared: int = 0  # attempts in which it seemed to fit elsewhere and then did not

    @property
    def delay_ns(self) -> int:
        """How long to wait until the next try, to spare a server in trouble."""
        count = self.failed + self.spared
        return 0 if count < 2 else min(2 ** (count - 2) * SECOND, _MAX_DELAY_NS)


class Evictions:
    """Evicts the victims of chosen nodes, and tracks which preemptors wait for that."""

    def __init__(
        self,
        plugin: str,
        handle: Handle,
        *,
        is_gating: bool,
        others: OtherPreemptors | None = None,
    ) -> None:
        """With `is_gating`, preemptors are kept out of the queue during evictions.

        `others` may wait for the same victims. They are retried if the victims stay.
        """
        self._plugin = plugin
        self._handle = handle
        self._is_gating = is_gating
        self._others = others
        self._pods = handle.lister(Pod)
        self._preempting: set[str] = set()  # uids of preemptors
        self._last_victims: dict[str, Pod] = {}  # uid of the preemptor -> the last victim
        self._failed_tries: dict[str, _FailedTries] = {}  # by uid of the preemptor
        self._deleted: dict[str, Pod] = {}  # see `unseen`

    def is_running(self, uid: str) -> bool:
        """Whether victims of this preemptor are still to be evicted."""
        if uid not in self._preempting:
            return False
        last = self._last_victims.get(uid)
        if last is None:
            return True
        current = self._pods.get(last.metadata.name, last.metadata.namespace)
        return current is not None and not is_terminating(current)

    def unseen(self) -> set[str]:
        """Return the uids of victims whose deletion succeeded and was not yet watched.

        Only with `others`.
        """
        self._deleted = {
            uid: victim
            for uid, victim in self._deleted.items()
            if (current := self._listed(victim)) is not None and not is_terminating(current)
        }
        return set(self._deleted)

    def start(self, candidate: PreemptionCandidate, preemptor: Pod) -> None:
        """Start to evict the victims; return at once."""
        uid = preemptor.metadata.uid
        preemption = PodPreemption(
            self._handle,
            self._pods,
            preemptor,
            candidate,
            # After too many attempts that spared the victims, room on other nodes is no longer
            # considered.
            looks_for_room=self._failed_tries.get(uid, _FailedTries()).spared < _MAX_SPARED,
            # The preemptor must fit together with other members, which the snapshot does not have
            # then.
            is_of_group=self._handle.pod_groups is not None and bool(group_name_of(preemptor)),
            others=self._others,
        )
        self._start(preemption, candidate.victims)

    def start_for_group(
        self, group: PodGroup, members: Sequence[Pod], victims: Sequence[PodInfo]
    ) -> None:
        """Start to evict the victims of a group; return at once."""
        groups = self._handle.lister(PodGroup)
        self._start(PodGroupPreemption(self._pods, groups, group, members), victims)

    def _start(self, preemption: RunningPreemption, chosen: Sequence[PodInfo]) -> None:
        victims = [each.pod for each in chosen if not is_terminating(each.pod)]
        if not victims and (self._is_gating or not chosen):
            return
        self._handle.metrics.observe_preemption_victims(len(chosen))
        if self._is_gating:
            self._preempting.add(preemption.preemptor.metadata.uid)
        self._handle.spawn(self._carry_out(preemption, victims), _task_name(preemption))

    async def _carry_out(self, preemption: RunningPreemption, victims: list[Pod]) -> None:
        preemption.begin()
        evict = self._evict_together
        if self._is_gating:
            evict = self._evict_in_turn
            # The reference reports the outcome at the start of the work.
            self._handle.metrics.observe_background_preemption("success", 0)
        outcome = _Outcome.FAILED
        try:
            outcome = await evict(preemption, victims)
        finally:
            self._preempting.discard(preemption.preemptor.metadata.uid)
            self._last_victims.pop(preemption.preemptor.metadata.uid, None)
            delay_ns = self._count_try(preemption, outcome)
            if outcome is _Outcome.UNBOUND:
                delay_ns = _WATCH_DELAY_NS
            if outcome not in _ANNOUNCED and not delay_ns:
                self._requeue(preemption, outcome)
        if delay_ns:
            await self._handle.clock.sleep(delay_ns)
            self._requeue(preemption, outcome)

    def _count_try(self, preemption: RunningPreemption, outcome: _Outcome) -> int:
        """Count a failed try, or reset the count.

        Return how long to wait until the next try.
        """
        before = self._failed_tries.pop(preemption.preemptor.metadata.uid, _FailedTries())
        if outcome in _SUCCESSFUL or not preemption.is_awaited():
            return 0
        if outcome is _Outcome.SPARED:
            after = before._replace(spared=before.spared + 1)
        else:
            after = before._replace(failed=before.failed + 1)
        self._failed_tries[preemption.preemptor.metadata.uid] = after
        if len(self._failed_tries) > _MAX_TRACKED:  # pods may be deleted without another attempt
            del self._failed_tries[next(iter(self._failed_tries))]
        return after.delay_ns

    def _requeue(self, preemption: RunningPreemption, outcome: _Outcome) -> None:
        waiting = preemption.waiting_pods
        if self._others and (outcome is _Outcome.SPARED or not preemption.is_awaited()):
            waiting = {**self._others.waiting_pods(), **waiting}
        self._handle.activate(waiting)

    async def _evict_in_turn(self, preemption: RunningPreemption, victims: list[Pod]) -> _Outcome:
        """Evict all but the last victim concurrently, and then the last one.

        The last victim ends the gate: once its deletion begins, the preemptor may be requeued.
        """
        *others, last = victims
        is_cleared = await self._clear_lower_nominations(preemption)
        outcome = await self._evict_all(preemption, others)
        if outcome is _Outcome.EVICTED:
            self._last_victims[preemption.preemptor.metadata.uid] = last
            outcome = await self._evict(preemption, last, is_late=bool(others))
        return outcome if is_cleared else _Outcome.FAILED

    async def _evict_together(self, preemption: RunningPreemption, victims: list[Pod]) -> _Outcome:
        """Evict all victims concurrently."""
        outcome = await self._evict_all(preemption, victims)
        if outcome is _Outcome.EVICTED and not await self._clear_lower_nominations(preemption):
            return _Outcome.FAILED
        return outcome

    async def _evict_all(self, preemption: RunningPreemption, victims: list[Pod]) -> _Outcome:
        """Evict all; return the worst outcome.

        A victim that ended without an eviction counts as evicted.
        """
        async with asyncio.TaskGroup() as tasks:
            evictions = [
                tasks.create_task(
                    self._evict(preemption, victim),
                    name=f"{_task_name(preemption)}: evict {pod_key(victim)}",
                )
                for victim in victims
            ]
        outcomes = {eviction.result() for eviction in evictions}
        for worse in (_Outcome.FAILED, _Outcome.SPARED):
            if worse in outcomes:
                return worse
        return _Outcome.EVICTED

    async def _evict(
        self, preemption: RunningPreemption, victim: Pod, *, is_late: bool = False
    ) -> _Outcome:
        """Evict a victim; with `is_late`, only if that is still needed."""
        if not (preemption.is_needed(victim) if is_late else preemption.is_awaited()):
            return _Outcome.SPARED
        preemptor = preemption.preemptor
        uid, node_name = preemptor.metadata.uid, preemption.node_name
        note = f"Preempted by {preemption.kind} {uid} on node {node_name}"
        if self._stop_in_memory(victim):
            note += " (in kube-scheduler memory)."
            outcome = _Outcome.EVICTED
        else:
            outcome = await self._delete(preemption, victim)
            if outcome not in (_Outcome.EVICTED, _Outcome.UNBOUND):
                return outcome
        self._handle.recorder.event(
            victim, "Normal", "Preempted", "Preempting", note, preemption.related
        )
        log.detail(2, "Preemptor pod preempted victim pod", preemptor=preemptor, victim=victim)
        return outcome

    def _stop_in_memory(self, victim: Pod) -> bool:
        """Cancel a victim that is not bound yet, without the API server."""
        uid = victim.metadata.uid
        waiting = self._handle.waiting_pod(uid)
        if waiting is not None and waiting.preempt(self._plugin, "preempted"):
            return True
        binding = self._handle.pod_in_pre_bind(uid)
        return binding is not None and binding.cancel(f"preempted by {self._plugin}")

    async def _delete(self, preemption: RunningPreemption, victim: Pod) -> _Outcome:
        """Add the disruption condition to the victim, then delete it."""
        name, namespace, uid = (
            victim.metadata.name,
            victim.metadata.namespace,
            victim.metadata.uid,
        )
        current = self._listed(victim)
        if current is None:
            return _Outcome.GONE
        try:
            mark = _disrupted_by(preemption, current)
            await self._writer().write(current, mark, None)
        except ApiError as exc:
            # A conflict can mean that another pod has taken the victim's name.
            is_gone = exc.code == _CONFLICT and self._listed(victim) is None
            if exc.code == _NOT_FOUND or is_gone:
                return self._ended_by_itself(victim)
            log.error("Could not add the condition to a victim", exc=exc, pod=victim)
            return _Outcome.FAILED
        if not preemption.is_needed(victim):
            # The condition stays: the disruption controller removes it.
            return _Outcome.SPARED
        preemption.sent.add(uid)
        try:
            await self._handle.api.delete(Pod, name, namespace, uid=uid)
        except ApiError as exc:
            # A conflict means that another pod has taken the victim's name.
            if exc.code in (_NOT_FOUND, _CONFLICT):
                return self._ended_by_itself(victim)
            log.error("Could not delete a victim", exc=exc, pod=victim)
            return _Outcome.FAILED
        if self._others:
            self.unseen()  # `unseen` drops the pods that were watched since
            self._deleted[uid] = victim
        latest = self._listed(victim) or current
        return _Outcome.EVICTED if latest.spec.node_name else _Outcome.UNBOUND

    def _ended_by_itself(self, victim: Pod) -> _Outcome:
        return _Outcome.GONE if self._listed(victim) is None else _Outcome.LEAVING

    def _listed(self, victim: Pod) -> Pod | None:
        """Return the victim from the informer; None if the informer has reported its end."""
        current = self._pods.get(victim.metadata.name, victim.metadata.namespace)
        if current is None or current.metadata.uid != victim.metadata.uid:
            return None
        return current

    async def _clear_lower_nominations(self, preemption: RunningPreemption) -> bool:
        """Clear lower nominations to the node; return False if that could not be written."""
        priority = preemption.priority
        is_cleared = True
        for other in list(self._handle.nominator.nominated_pods(preemption.node_name)):
            # A nomination that is still being written is cleared, too.
            if pod_priority(other.pod) >= priority:
                continue
            try:
                await self._writer().write(other.pod, None, "")
            except ApiError as exc:
                log.error("Cannot clear the nominated node of a pod", exc=exc, pod=other.pod)
                is_cleared = False
        return is_cleared

    def _writer(self) -> PodStatusWriter:
        handle = self._handle
        writes = status_writes(handle.shared, handle.lister)
        return PodStatusWriter(handle.api, handle.clock, handle.random, writes)


def _task_name(preemption: RunningPreemption) -> str:
    metadata = preemption.preemptor.metadata
    return f"preemption for {metadata.namespace}/{metadata.name}"


def is_victim(pod: Pod) -> bool:
    """Whether a condition says that a scheduler preempted the pod."""
    return any(
        each.type == DISRUPTION_TARGET and each.reason == PREEMPTION_BY_SCHEDULER
        for each in pod.status.conditions
    )


def _disrupted_by(preemption: RunningPreemption, victim: Pod) -> PodCondition:
    return PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTION_BY_SCHEDULER,
        message=(
            f"{preemption.scheduler_name}: preempting to accommodate a higher priority "
            f"{preemption.kind}"
        ),
        observed_generation=victim.metadata.generation,
    )
