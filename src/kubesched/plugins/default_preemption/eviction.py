"""Evicting victims, beside the scheduling loop (spec 06 §3.9).

The scheduling loop does not wait for evictions. Until the last victim is on its way out, the
preemptor is kept out of the queue. Before a pod is deleted the need for it is looked at again:
if the preemptor is gone or would fit somewhere by now, those not yet evicted stay.
"""

from __future__ import annotations

import asyncio
import enum

from kubesched.api import Pod, PodCondition
from kubesched.api.access import ApiError
from kubesched.api.pods import is_terminating, pod_key, pod_priority
from kubesched.framework import Handle, Lister, Nominating, NominatingMode, PodInfo
from kubesched.framework.pod_status import PodStatusWriter
from kubesched.plugins.default_preemption.candidates import Candidate
from kubesched.util.logging import get_logger

__all__ = ["DISRUPTION_TARGET", "PREEMPTION_BY_SCHEDULER", "Evictions"]

log = get_logger(__name__)

DISRUPTION_TARGET = "DisruptionTarget"
PREEMPTION_BY_SCHEDULER = "PreemptionByScheduler"
_NOT_FOUND, _CONFLICT = 404, 409
_CLEAR = Nominating(NominatingMode.OVERRIDE, "")


class _Outcome(enum.Enum):
    """What became of an eviction."""

    EVICTED = enum.auto()
    GONE = enum.auto()  # the victim had left by itself
    FAILED = enum.auto()
    SPARED = enum.auto()  # nobody needs the room any more


class _Preemption:
    """A preemptor, the node it is to get, and whether it still needs that."""

    def __init__(self, handle: Handle, pods: Lister[Pod], preemptor: Pod, node_name: str) -> None:
        """Must be made in the attempt that found no node for the preemptor."""
        self.preemptor = preemptor
        self.node_name = node_name
        self._handle = handle
        self._pods = pods
        self._no_room_at = handle.moment

    def is_awaited(self) -> bool:
        """Whether the preemptor is still there and without a node."""
        metadata = self.preemptor.metadata
        current = self._pods.get(metadata.name, metadata.namespace)
        return (
            current is not None
            and current.metadata.uid == metadata.uid
            and not is_terminating(current)
            and not current.spec.node_name
        )

    def is_needed(self) -> bool:
        """Whether the preemptor waits and, by now, still fits nowhere."""
        if not self.is_awaited():
            return False
        if self._handle.has_room(PodInfo(self.preemptor), self._no_room_at):
            return False
        self._no_room_at = self._handle.moment
        return True


class Evictions:
    """Evicts the victims of chosen nodes, and knows who waits for that to be over."""

    def __init__(self, plugin: str, handle: Handle, *, is_gating: bool) -> None:
        """With `is_gating` preemptors are to be kept out of the queue meanwhile."""
        self._plugin = plugin
        self._handle = handle
        self._is_gating = is_gating
        self._pods = handle.lister(Pod)
        self._preempting: set[str] = set()  # uids of preemptors
        self._last_victims: dict[str, Pod] = {}  # uid of the preemptor -> who is evicted last

    def is_running(self, uid: str) -> bool:
        """Whether victims of this preemptor are still to be evicted."""
        if uid not in self._preempting:
            return False
        last = self._last_victims.get(uid)
        if last is None:
            return True
        current = self._pods.get(last.metadata.name, last.metadata.namespace)
        return current is not None and not is_terminating(current)

    def start(self, candidate: Candidate, preemptor: Pod) -> None:
        """Have the victims evicted; returns at once."""
        victims = [each.pod for each in candidate.victims if not is_terminating(each.pod)]
        if self._is_gating and not victims:
            return
        self._handle.metrics.observe_preemption_victims(len(candidate.victims))
        evict = self._evict_together
        if self._is_gating:
            self._preempting.add(preemptor.metadata.uid)
            evict = self._evict_in_turn
        preemption = _Preemption(self._handle, self._pods, preemptor, candidate.node_name)
        self._handle.spawn(evict(preemption, victims), f"preemption for {pod_key(preemptor)}")

    # -- the order of evictions --------------------------------------------------------

    async def _evict_in_turn(self, preemption: _Preemption, victims: list[Pod]) -> None:
        """Evict all but the last victim side by side, and the last when those are done.

        The last one stands for all: once it goes, the preemptor may be tried again.
        """
        # The reference reports the outcome as it stands when the work begins.
        self._handle.metrics.observe_background_preemption("success", 0)
        uid = preemption.preemptor.metadata.uid
        *others, last = victims
        retry = True
        try:
            is_cleared = await self._clear_lower_nominations(preemption)
            outcomes = await self._evict_all(preemption, others)
            if _Outcome.FAILED not in outcomes and _Outcome.SPARED not in outcomes:
                self._last_victims[uid] = last
                outcomes = [await self._evict(preemption, last, is_late=bool(others))]
            # If the last one had left by itself, that may have been announced too early for
            # the preemptor to hear of it.
            retry = not is_cleared or any(each is not _Outcome.EVICTED for each in outcomes)
        finally:
            self._preempting.discard(uid)
            self._last_victims.pop(uid, None)
            if retry:
                self._try_again(preemption)

    async def _evict_together(self, preemption: _Preemption, victims: list[Pod]) -> None:
        """Evict all victims side by side."""
        outcomes = await self._evict_all(preemption, victims)
        if _Outcome.FAILED in outcomes or _Outcome.SPARED in outcomes:
            self._try_again(preemption)
        else:
            await self._clear_lower_nominations(preemption)

    async def _evict_all(self, preemption: _Preemption, victims: list[Pod]) -> list[_Outcome]:
        async with asyncio.TaskGroup() as tasks:
            evictions = [
                tasks.create_task(self._evict(preemption, victim), name=f"evict {pod_key(victim)}")
                for victim in victims
            ]
        return [eviction.result() for eviction in evictions]

    def _try_again(self, preemption: _Preemption) -> None:
        self._handle.activate({pod_key(preemption.preemptor): preemption.preemptor})

    # -- one victim --------------------------------------------------------------------

    async def _evict(
        self, preemption: _Preemption, victim: Pod, *, is_late: bool = False
    ) -> _Outcome:
        """Evict a victim. `is_late` says that much may have changed since it was chosen."""
        if not (preemption.is_needed() if is_late else preemption.is_awaited()):
            return _Outcome.SPARED
        preemptor = preemption.preemptor
        note = f"Preempted by pod {preemptor.metadata.uid} on node {preemption.node_name}"
        if self._stop_in_memory(victim):
            note += " (in kube-scheduler memory)."
        else:
            outcome = await self._delete(preemption, victim)
            if outcome is not _Outcome.EVICTED:
                return outcome
        self._handle.recorder.event(victim, "Normal", "Preempted", "Preempting", note)
        log.detail(2, "Preemptor pod preempted victim pod", preemptor=preemptor, victim=victim)
        return _Outcome.EVICTED

    def _stop_in_memory(self, victim: Pod) -> bool:
        """Take a victim back that is not bound yet: the API server need not know."""
        uid = victim.metadata.uid
        waiting = self._handle.waiting_pod(uid)
        if waiting is not None and waiting.preempt(self._plugin, "preempted"):
            return True
        binding = self._handle.pod_in_pre_bind(uid)
        return binding is not None and binding.cancel(f"preempted by {self._plugin}")

    async def _delete(self, preemption: _Preemption, victim: Pod) -> _Outcome:
        """Mark the victim as disrupted, then delete it with its own grace period."""
        name, namespace, uid = (
            victim.metadata.name,
            victim.metadata.namespace,
            victim.metadata.uid,
        )
        current = self._pods.get(name, namespace)
        if current is None or current.metadata.uid != uid:
            return _Outcome.GONE
        try:
            mark = _disrupted_by(preemption.preemptor, current)
            await self._writer().write(current, mark, None)
        except ApiError as exc:
            if exc.code == _NOT_FOUND:
                return _Outcome.GONE
            log.error("Could not add the condition to a victim", exc=exc, pod=victim)
            return _Outcome.FAILED
        if not preemption.is_needed():
            # The mark stays: the disruption controller takes back those that led to nothing.
            return _Outcome.SPARED
        try:
            await self._handle.api.delete(Pod, name, namespace, uid=uid)
        except ApiError as exc:
            # A conflict says that another pod has taken the victim's name.
            if exc.code in (_NOT_FOUND, _CONFLICT):
                return _Outcome.GONE
            log.error("Could not delete a victim", exc=exc, pod=victim)
            return _Outcome.FAILED
        return _Outcome.EVICTED

    async def _clear_lower_nominations(self, preemption: _Preemption) -> bool:
        """Let pods that counted on the node look elsewhere; False if that could not be written."""
        priority = pod_priority(preemption.preemptor)
        is_cleared = True
        for other in list(self._handle.nominator.nominated_pods(preemption.node_name)):
            if pod_priority(other.pod) >= priority or not other.pod.status.nominated_node_name:
                continue
            try:
                await self._writer().write(other.pod, None, _CLEAR)
            except ApiError as exc:
                log.error("Cannot clear the nominated node of a pod", exc=exc, pod=other.pod)
                is_cleared = False
        return is_cleared

    def _writer(self) -> PodStatusWriter:
        return PodStatusWriter(self._handle.api, self._handle.clock, self._handle.random)


def _disrupted_by(preemptor: Pod, victim: Pod) -> PodCondition:
    return PodCondition(
        type=DISRUPTION_TARGET,
        status="True",
        reason=PREEMPTION_BY_SCHEDULER,
        message=f"{preemptor.spec.scheduler_name}: preempting to accommodate a higher priority pod",
        observed_generation=victim.metadata.generation,
    )
