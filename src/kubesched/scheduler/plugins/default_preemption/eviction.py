"""Eviction of victims in the background (docs/reference/06 §3.9).

The scheduling loop does not wait for evictions. The preemptor is kept out of the queue until the
deletion of the last victim has begun. Before each deletion, the preemption checks whether it is
still needed: if the preemptor was deleted or fits a node by then, the remaining victims stay.
"""

from __future__ import annotations

import asyncio
import enum
from typing import NamedTuple

from kubesched.api import Pod, PodCondition
from kubesched.api.access import ApiError
from kubesched.api.pod_facts import is_terminating, pod_key, pod_priority
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Handle, Lister, PodInfo
from kubesched.framework.pod_groups import group_name_of
from kubesched.framework.pod_status_writer import PodStatusWriter
from kubesched.framework.status_writes import status_writes
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import PreemptionCandidate

__all__ = [
    "DISRUPTION_TARGET",
    "PREEMPTION_BY_SCHEDULER",
    "Evictions",
    "is_awaited",
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
    LEAVING = enum.auto()  # the victim ended by itself, and the informer has not reported it yet
    GONE = enum.auto()  # the victim ended by itself, and the informer has reported it
    FAILED = enum.auto()
    SPARED = enum.auto()  # the room is no longer needed


_SUCCESSFUL = frozenset({_Outcome.EVICTED, _Outcome.UNBOUND, _Outcome.LEAVING, _Outcome.GONE})
# The end of the victim will requeue the preemptor, or the preemptor is still gated until then. An
# end that was reported before may have come too early to requeue it.
_ANNOUNCED = frozenset({_Outcome.EVICTED, _Outcome.LEAVING})


class _FailedTries(NamedTuple):
    """Consecutive preemptions for one preemptor that did not succeed."""

    failed: int = 0
    spared: int = 0  # it seemed to fit elsewhere, and then did not

    @property
    def delay_ns(self) -> int:
        """How long to wait until the next try, to spare a server in trouble."""
        count = self.failed + self.spared
        return 0 if count < 2 else min(2 ** (count - 2) * SECOND, _MAX_DELAY_NS)


class _Preemption:
    """A preemptor and its node; decides whether evictions are still needed."""

    def __init__(
        self,
        handle: Handle,
        pods: Lister[Pod],
        preemptor: Pod,
        candidate: PreemptionCandidate,
        *,
        looks_for_room: bool,
        is_of_group: bool = False,
    ) -> None:
        """Create it in the attempt that found no node for the preemptor."""
        self.preemptor = preemptor
        self.node_name = candidate.node_name
        self._victims = candidate.victims
        self._pod_info = PodInfo(preemptor)
        self._handle = handle
        self._pods = pods
        self._looks_for_room = looks_for_room
        self._is_of_group = is_of_group
        self._no_room_at = handle.dry_run.version
        self._was_nominated = False
        self.sent: set[str] = set()  # uids of victims whose deletion was requested

    @property
    def uid(self) -> str:
        return self.preemptor.metadata.uid

    def begin(self) -> None:
        """Record whether the attempt has nominated the preemptor."""
        self._was_nominated = self._is_nominated

    @property
    def _is_nominated(self) -> bool:
        return self._handle.nominator.node_of(self.uid) == self.node_name

    def is_awaited(self) -> bool:
        """Whether the preemptor still exists and has no node."""
        return is_awaited(self.preemptor, self._pods)

    def _has_changed(self) -> bool:
        """Whether the preemptor's labels or spec changed since its victims were chosen."""
        metadata = self.preemptor.metadata
        current = self._pods.get(metadata.name, metadata.namespace)
        return current is not None and (
            current.metadata.labels != metadata.labels or current.spec != self.preemptor.spec
        )

    def is_needed(self, victim: Pod) -> bool:
        """Whether the preemptor still needs the victim's room.

        It must be unchanged, wait for this node, fit no node, and fit this one without its
        victims.
        """
        if not self.is_awaited() or self._has_changed():
            return False
        if self._is_of_group:
            return True
        # A more important preemptor that takes the node over clears lower nominations.
        if self._was_nominated and not self._is_nominated:
            return False
        dry_run = self._handle.dry_run
        if self._looks_for_room and dry_run.fits_now(self._pod_info, self._no_room_at):
            return False
        if not dry_run.fits_without(self._pod_info, self.node_name, self._victims):
            return False
        self._no_room_at = dry_run.version
        node = self._handle.snapshot.get(self.node_name)
        if node is None:
            return True
        if not node.has_pod(victim.metadata.uid):
            return False  # it was assumed there, and its binding failed
        leaving = [each for each in node.pods if self._is_leaving(each)]
        # The pods that terminate already may be enough, if others have ended since.
        return not leaving or not dry_run.fits_without(self._pod_info, self.node_name, leaving)

    def _is_leaving(self, other: PodInfo) -> bool:
        """Whether a pod terminates, or this preemption has requested its deletion."""
        is_lower = pod_priority(other.pod) < pod_priority(self.preemptor)
        return other.uid in self.sent or (is_lower and is_terminating(other.pod))


class Evictions:
    """Evicts the victims of chosen nodes, and tracks which preemptors wait for that."""

    def __init__(self, plugin: str, handle: Handle, *, is_gating: bool) -> None:
        """With `is_gating`, preemptors are kept out of the queue meanwhile."""
        self._plugin = plugin
        self._handle = handle
        self._is_gating = is_gating
        self._pods = handle.lister(Pod)
        self._preempting: set[str] = set()  # uids of preemptors
        self._last_victims: dict[str, Pod] = {}  # uid of the preemptor -> the last victim
        self._failed_tries: dict[str, _FailedTries] = {}  # by uid of the preemptor

    def is_running(self, uid: str) -> bool:
        """Whether victims of this preemptor are still to be evicted."""
        if uid not in self._preempting:
            return False
        last = self._last_victims.get(uid)
        if last is None:
            return True
        current = self._pods.get(last.metadata.name, last.metadata.namespace)
        return current is not None and not is_terminating(current)

    def start(self, candidate: PreemptionCandidate, preemptor: Pod) -> None:
        """Start to evict the victims; return at once."""
        victims = [each.pod for each in candidate.victims if not is_terminating(each.pod)]
        if self._is_gating and not victims:
            return
        self._handle.metrics.observe_preemption_victims(len(candidate.victims))
        uid = preemptor.metadata.uid
        if self._is_gating:
            self._preempting.add(uid)
        preemption = _Preemption(
            self._handle,
            self._pods,
            preemptor,
            candidate,
            # After too many tries that spared the victims, room elsewhere is no longer considered.
            looks_for_room=self._failed_tries.get(uid, _FailedTries()).spared < _MAX_SPARED,
            # The preemptor must fit beside other members, which the snapshot does not have then.
            is_of_group=self._handle.pod_groups is not None and bool(group_name_of(preemptor)),
        )
        work = self._carry_out(preemption, victims)
        self._handle.spawn(work, _task_name(preemptor))

    async def _carry_out(self, preemption: _Preemption, victims: list[Pod]) -> None:
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
            self._preempting.discard(preemption.uid)
            self._last_victims.pop(preemption.uid, None)
            delay_ns = self._count_try(preemption, outcome)
            if outcome is _Outcome.UNBOUND:
                delay_ns = _WATCH_DELAY_NS
            if outcome not in _ANNOUNCED and not delay_ns:
                self._requeue(preemption)
        if delay_ns:
            await self._handle.clock.sleep(delay_ns)
            self._requeue(preemption)

    def _count_try(self, preemption: _Preemption, outcome: _Outcome) -> int:
        """Count a failed try, or reset the count.

        Return how long to wait until the next try.
        """
        before = self._failed_tries.pop(preemption.uid, _FailedTries())
        if outcome in _SUCCESSFUL or not preemption.is_awaited():
            return 0
        if outcome is _Outcome.SPARED:
            after = before._replace(spared=before.spared + 1)
        else:
            after = before._replace(failed=before.failed + 1)
        self._failed_tries[preemption.uid] = after
        if len(self._failed_tries) > _MAX_TRACKED:  # pods may be deleted without another attempt
            del self._failed_tries[next(iter(self._failed_tries))]
        return after.delay_ns

    def _requeue(self, preemption: _Preemption) -> None:
        self._handle.activate({pod_key(preemption.preemptor): preemption.preemptor})

    async def _evict_in_turn(self, preemption: _Preemption, victims: list[Pod]) -> _Outcome:
        """Evict all but the last victim concurrently, and then the last one.

        The last victim ends the gate: once its deletion begins, the preemptor may be requeued.
        """
        *others, last = victims
        is_cleared = await self._clear_lower_nominations(preemption)
        outcome = await self._evict_all(preemption, others)
        if outcome is _Outcome.EVICTED:
            self._last_victims[preemption.uid] = last
            outcome = await self._evict(preemption, last, is_late=bool(others))
        return outcome if is_cleared else _Outcome.FAILED

    async def _evict_together(self, preemption: _Preemption, victims: list[Pod]) -> _Outcome:
        """Evict all victims concurrently."""
        outcome = await self._evict_all(preemption, victims)
        if outcome is _Outcome.EVICTED and not await self._clear_lower_nominations(preemption):
            return _Outcome.FAILED
        return outcome

    async def _evict_all(self, preemption: _Preemption, victims: list[Pod]) -> _Outcome:
        """Evict all; return the worst outcome.

        A victim that ended by itself counts as evicted.
        """
        async with asyncio.TaskGroup() as tasks:
            evictions = [
                tasks.create_task(
                    self._evict(preemption, victim),
                    name=f"{_task_name(preemption.preemptor)}: evict {pod_key(victim)}",
                )
                for victim in victims
            ]
        outcomes = {eviction.result() for eviction in evictions}
        for worse in (_Outcome.FAILED, _Outcome.SPARED):
            if worse in outcomes:
                return worse
        return _Outcome.EVICTED

    async def _evict(
        self, preemption: _Preemption, victim: Pod, *, is_late: bool = False
    ) -> _Outcome:
        """Evict a victim; with `is_late`, only if that is still needed."""
        if not (preemption.is_needed(victim) if is_late else preemption.is_awaited()):
            return _Outcome.SPARED
        preemptor = preemption.preemptor
        note = f"Preempted by pod {preemptor.metadata.uid} on node {preemption.node_name}"
        if self._stop_in_memory(victim):
            note += " (in kube-scheduler memory)."
            outcome = _Outcome.EVICTED
        else:
            outcome = await self._delete(preemption, victim)
            if outcome not in (_Outcome.EVICTED, _Outcome.UNBOUND):
                return outcome
        self._handle.recorder.event(victim, "Normal", "Preempted", "Preempting", note)
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

    async def _delete(self, preemption: _Preemption, victim: Pod) -> _Outcome:
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
            mark = _disrupted_by(preemption.preemptor, current)
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

    async def _clear_lower_nominations(self, preemption: _Preemption) -> bool:
        """Clear lower nominations to the node; return False if that could not be written."""
        priority = pod_priority(preemption.preemptor)
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


def _task_name(preemptor: Pod) -> str:
    return f"preemption for {pod_key(preemptor)}"


def is_awaited(pod: Pod, pods: Lister[Pod]) -> bool:
    """Whether the pod exists, is not terminating, and has no node."""
    current = pods.get(pod.metadata.name, pod.metadata.namespace)
    return (
        current is not None
        and current.metadata.uid == pod.metadata.uid
        and not is_terminating(current)
        and not current.spec.node_name
    )


def is_victim(pod: Pod) -> bool:
    """Whether a condition says that a scheduler preempted the pod."""
    return any(
        each.type == DISRUPTION_TARGET and each.reason == PREEMPTION_BY_SCHEDULER
        for each in pod.status.conditions
    )


def _disrupted_by(preemptor: Pod, victim: Pod) -> PodCondition:
    return PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTION_BY_SCHEDULER,
        message=f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod",
        observed_generation=victim.metadata.generation,
    )
