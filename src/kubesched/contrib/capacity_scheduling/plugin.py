"""CapacityScheduling: namespaces have quotas, and may borrow the unused part of other quotas.

An ElasticQuota guarantees `min` to its namespace and limits it to `max`. A namespace may use more
than its `min` while other namespaces use less than theirs. When those need their guarantee, pods of
the borrowing namespace are evicted. docs/contrib/capacity-scheduling.md describes the behaviour.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any, Final, NamedTuple

from kubesched.api import Pod, pod_priority, start_time_ns
from kubesched.api.custom_kinds import CustomObject
from kubesched.contrib.capacity_scheduling.elastic_quotas import (
    ELASTIC_QUOTA_KIND,
    ELASTIC_QUOTAS,
    ElasticQuotas,
    LeavingPod,
    Quota,
    QuotaTrial,
    pod_amounts,
)
from kubesched.contrib.capacity_scheduling.quota_causes import GuaranteesUsedUp, QuotaMaxExceeded
from kubesched.contrib.capacity_scheduling.quota_panel import quota_panel
from kubesched.contrib.capacity_scheduling.quota_status import QuotaStatusLoop
from kubesched.framework import (
    SKIP,
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    Diagnosis,
    EventResource,
    Explaining,
    Handle,
    NodeInfo,
    NodeView,
    Panel,
    Plugin,
    PodInfo,
    PostFilterResult,
    QueueingHint,
    StateNotFoundError,
    Status,
    VictimPreemption,
)

__all__ = ["CapacityScheduling"]

_STATE: Final = "PreFilterCapacityScheduling"
_RECLAIM: Final = "PostFilterCapacityScheduling"
_NOT_REACHED: Final = Status.unschedulable("preemption: a plugin before rejected the pod")
_GATED: Final = Status.unresolvable("waiting for the preemption for this pod to be finished")


class _QuotaState:
    """The quotas as a dry run modifies them, and the requests of the pod."""

    def __init__(
        self,
        trial: QuotaTrial,
        own: Counter[str],
        total: Counter[str],
        gone: frozenset[str] = frozenset(),
    ) -> None:
        self.trial = trial
        # Requests of the pod plus nominated pods: those of its namespace, and all that count.
        self.own, self.total = own, total
        self.gone = gone  # uids of pods that the trial has already subtracted

    def clone(self) -> _QuotaState:
        return _QuotaState(self.trial.clone(), self.own, self.total, self.gone)


class _Reclaim(NamedTuple):
    """The resources that a preemptor may reclaim from other namespaces; the same on all nodes."""

    is_borrowing: bool  # whether its namespace would use more than its min
    leaving: frozenset[str]  # uids of pods that do not count as borrowing
    waited_for: frozenset[str]  # the subset that other preemptors evict
    loans: QuotaTrial  # the usage without the pods that are leaving
    borrowers: dict[str, Quota]  # by namespace


class CapacityScheduling(Plugin):
    """Limit namespaces to their ElasticQuotas, and reclaim borrowed resources by preemption."""

    name = "CapacityScheduling"
    custom_kinds = (ELASTIC_QUOTA_KIND.kind,)

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        self._quotas = ElasticQuotas()
        self._preemption: VictimPreemption | None = None
        if handle is not None:
            self._quotas = handle.shared.get("elastic quotas", lambda: _follow(handle))
            self._preemption = handle.preemption(self.name, self)

    def pre_enqueue(self, pod: Pod) -> Status:
        preemption = self._preemption
        is_running = preemption is not None and preemption.is_running(pod.metadata.uid)
        return _GATED if is_running else SUCCESS

    def pre_filter(self, state: CycleState, pod_info: PodInfo, nodes: NodeView) -> Status:
        quota = self._quotas.of(pod_info.pod.metadata.namespace)
        if quota is None:
            return SKIP
        own, total = self._with_nominated(pod_info, quota)
        trial = QuotaTrial(self._quotas)
        state.write(_STATE, _QuotaState(trial, own, total))
        name = f"{quota.namespace}/{quota.name}"
        if resource := trial.over_max(quota, own):
            return Status.unschedulable(
                f"ElasticQuota {name} would exceed its max of {resource}",
                causes=(QuotaMaxExceeded(name, resource),),
            )
        if resource := trial.over_guaranteed(total):
            return Status.unschedulable(
                f"all ElasticQuotas together would exceed their min of {resource}",
                causes=(GuaranteesUsedUp(name, resource),),
            )
        return SUCCESS

    def _with_nominated(self, pod_info: PodInfo, quota: Quota) -> tuple[Counter[str], Counter[str]]:
        """Add the nominated pods that precede the pod to the requests of the pod."""
        own = Counter(pod_amounts(pod_info))
        total = Counter(own)
        nominator = self.handle.nominator
        priority = pod_priority(pod_info.pod)
        for node_name in nominator.nominated_nodes():
            for other in nominator.nominated_pods(node_name):
                theirs = self._quotas.of(other.pod.metadata.namespace)
                if other.uid == pod_info.uid or theirs is None:
                    continue
                if theirs is quota:
                    if pod_priority(other.pod) >= priority:
                        own.update(pod_amounts(other))
                        total.update(pod_amounts(other))
                elif not QuotaTrial(self._quotas).is_over_min(theirs, {}):
                    total.update(pod_amounts(other))
        return own, total

    def add_pod(self, state: CycleState, pod: Pod, added: PodInfo, node: NodeInfo) -> Status:
        if added.pod.spec.node_name:  # PreFilter has counted nominated pods
            _change(state, added, 1)
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: PodInfo, node: NodeInfo) -> Status:
        _change(state, removed, -1)
        return SUCCESS

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        assert self._preemption is not None, "a plugin in a profile has a handle"
        quota = self._quotas.of(pod_info.pod.metadata.namespace)
        if quota is not None:
            try:
                found: _QuotaState = state.read(_STATE)
            except StateNotFoundError:
                return PostFilterResult(_NOT_REACHED)
            self._prepare_preemption(state, found, quota)
        return self._preemption.preempt(state, pod_info, diagnosis)

    def _prepare_preemption(self, state: CycleState, found: _QuotaState, quota: Quota) -> None:
        """Compute the state that the dry runs of all nodes share.

        Pods that are terminating or chosen as victims do not count as borrowing: otherwise several
        preemptors would reclaim the same resources. The victims of other preemptors also count as
        gone. The preemptor waits for them, together with the preemptors for which they are evicted,
        and evicts only what it needs in addition. Pods that users have deleted do not count as
        gone, because they may take long to terminate.
        """
        assert self._preemption is not None, "a plugin in a profile has a handle"
        leaving = dict(self._quotas.leaving)
        for victim in self._preemption.chosen():
            amounts = pod_amounts(victim)
            leaving[victim.uid] = LeavingPod(victim.pod.metadata.namespace, amounts, True)
        waited_for = frozenset(uid for uid, each in leaving.items() if each.is_preempted)
        loans = QuotaTrial(self._quotas)
        for uid, each in leaving.items():
            loans.change(each.namespace, each.amounts, -1)
            if uid in waited_for:
                found.trial.change(each.namespace, each.amounts, -1)
        found.gone = waited_for
        borrowers = {
            other.namespace: other
            for other in self._quotas
            if other.namespace != quota.namespace and loans.is_over_min(other, {})
        }
        is_borrowing = found.trial.is_over_min(quota, found.own)
        reclaim = _Reclaim(is_borrowing, frozenset(leaving), waited_for, loans, borrowers)
        state.write(_RECLAIM, reclaim)

    def leaving(self, state: CycleState, preemptor: PodInfo) -> Collection[str]:
        if self._quotas.of(preemptor.pod.metadata.namespace) is None:
            return ()
        reclaim: _Reclaim = state.read(_RECLAIM)
        return reclaim.waited_for

    def potential_victims(
        self, state: CycleState, preemptor: PodInfo, node: NodeInfo
    ) -> Sequence[PodInfo]:
        """Return the pods on a node that may be evicted.

        If the namespace of the preemptor borrows, these are less important pods of the same
        namespace. If it does not, these are pods of namespaces that borrow, whatever their
        priority, up to the borrowed amount. A preemptor without a quota may evict less important
        pods without a quota.
        """
        namespace = preemptor.pod.metadata.namespace
        quota, priority = self._quotas.of(namespace), pod_priority(preemptor.pod)
        if quota is None:
            return [
                other
                for other in node.pods
                if pod_priority(other.pod) < priority
                and self._quotas.of(other.pod.metadata.namespace) is None
            ]
        reclaim: _Reclaim = state.read(_RECLAIM)
        if reclaim.is_borrowing:
            return [
                other
                for other in node.pods
                if pod_priority(other.pod) < priority
                and other.pod.metadata.namespace == namespace
                and other.uid not in reclaim.waited_for
            ]
        return self._borrowed(reclaim, node)

    def _borrowed(self, reclaim: _Reclaim, node: NodeInfo) -> list[PodInfo]:
        """Return pods of other namespaces, least important first, until these no longer borrow."""
        borrowers = reclaim.borrowers
        pods = [
            other
            for other in node.pods
            if other.pod.metadata.namespace in borrowers and other.uid not in reclaim.leaving
        ]
        if not pods:
            return []
        found, trial = [], reclaim.loans.clone()
        now_ns = self.handle.clock.now_ns()
        pods.sort(key=lambda each: (pod_priority(each.pod), -start_time_ns(each.pod, now_ns)))
        for other in pods:
            quota = borrowers[other.pod.metadata.namespace]
            if trial.is_over_min(quota, {}):
                found.append(other)
                trial.change(quota.namespace, pod_amounts(other), -1)
        return found

    def admits(self, state: CycleState, preemptor: PodInfo) -> bool:
        """Whether the quotas admit the preemptor after the dry run has removed its victims."""
        quota = self._quotas.of(preemptor.pod.metadata.namespace)
        if quota is None:
            return True
        found: _QuotaState = state.read(_STATE)
        return not (
            found.trial.over_max(quota, found.own) or found.trial.over_guaranteed(found.total)
        )

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self._quotas.add(pod)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self._quotas.remove(pod)

    def events_to_register(self) -> tuple[ClusterEventWithHint, ...]:
        return (
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.DELETE), self._after_pod_deleted
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.UPDATE_POD_SCALE_DOWN),
                self._after_pod_shrunk,
            ),
            ClusterEventWithHint(
                ClusterEvent(EventResource.POD, ActionType.ADD), self._after_pod_added
            ),
            ClusterEventWithHint(
                ClusterEvent(ELASTIC_QUOTAS, ActionType.ALL), self._after_quota_changed
            ),
        )

    def _after_pod_deleted(self, pod: Pod, old: Pod | None, new: Any) -> QueueingHint:
        """Requeue if the deleted pod had a quota.

        All namespaces with a quota share the unused guarantees.
        """
        helps = (
            old is not None
            and bool(old.spec.node_name)
            and self._quotas.of(old.metadata.namespace) is not None
            and self._fits_quota(pod)
        )
        return QueueingHint.QUEUE if helps else QueueingHint.SKIP

    def _after_pod_shrunk(self, pod: Pod, old: Any, new: Pod) -> QueueingHint:
        """The pod itself requests less now, or one that has a node."""
        if new.metadata.uid == pod.metadata.uid:
            return QueueingHint.QUEUE
        return self._after_pod_deleted(pod, new, None)

    def _after_pod_added(self, pod: Pod, old: Any, new: Pod) -> QueueingHint:
        """Requeue if the waiting pod may evict the placed pod.

        The added pod may also be another preemptor that no longer needs its victims. A nominated
        pod may be waiting for these.
        """
        namespace, theirs = pod.metadata.namespace, new.metadata.namespace
        own, other = self._quotas.of(namespace), self._quotas.of(theirs)
        if not new.spec.node_name or own is None or other is None:
            return QueueingHint.SKIP
        if pod.status.nominated_node_name:
            return QueueingHint.QUEUE
        if namespace == theirs:
            may_evict = pod_priority(new) < pod_priority(pod)
        else:
            trial = QuotaTrial(self._quotas)
            may_evict = trial.is_over_min(other, {}) and not trial.is_over_min(
                own, pod_amounts(PodInfo(pod))
            )
        return QueueingHint.QUEUE if may_evict else QueueingHint.SKIP

    def _fits_quota(self, pod: Pod) -> bool:
        """Whether the pod is within the `max` of its quota.

        Deletions in other namespaces do not change it.
        """
        quota = self._quotas.of(pod.metadata.namespace)
        if quota is None:
            return True
        return not QuotaTrial(self._quotas).over_max(quota, pod_amounts(PodInfo(pod)))

    def _after_quota_changed(
        self, pod: Pod, old: CustomObject | None, new: CustomObject | None
    ) -> QueueingHint:
        is_same = old is not None and new is not None and old.spec == new.spec
        return QueueingHint.SKIP if is_same else QueueingHint.QUEUE

    async def work_as_leader(self) -> None:
        """Write the status of quotas. One profile writes it for all profiles."""
        loop = self.handle.shared.get(
            "elastic quota status", lambda: QuotaStatusLoop(self._quotas, self.handle)
        )
        await loop.run_once()

    def panels(self) -> Sequence[Panel]:
        return (quota_panel(self._quotas),)

    def explaining(self) -> Explaining:
        from kubesched.contrib.capacity_scheduling.explaining import CapacityExplaining

        return CapacityExplaining(self._quotas)


def _change(state: CycleState, pod_info: PodInfo, sign: int) -> None:
    found: _QuotaState = state.read(_STATE)
    if pod_info.uid not in found.gone:
        found.trial.change(pod_info.pod.metadata.namespace, pod_amounts(pod_info), sign)


def _follow(handle: Handle) -> ElasticQuotas:
    quotas = ElasticQuotas()
    handle.lister(ELASTIC_QUOTA_KIND.type).follow(quotas.quota_changed)
    handle.lister(Pod).follow(quotas.pod_changed)
    return quotas
