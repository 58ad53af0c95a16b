"""Replays the changes of a cluster, and compares every decision of its scheduler with the shadow's.

The first write of a decision is the moment to compare at (decision 0046):

- `status.nominatedNodeName` without a failure: the scheduler publishes the node before it prepares
  volumes or devices. From then on the pod counts as placed, as it does for that scheduler.
- `spec.nodeName`: the binding.
- the condition `PodScheduled` is False with the reason Unschedulable: no node was found.

The pod is decided in the state before that write. If the decisions differ, other states in which
the other scheduler may have been are tried (`possible_states.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.api.time import format_time
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.shadow.decision_comparison import ComparedDecision, DecisionComparison
from kubesched.explain.shadow.ordered_changes import Change, OrderedChanges
from kubesched.explain.shadow.possible_states import (
    CREATED_WITH_PODS,
    AppliedChange,
    PodInFlight,
    PossibleStates,
    QueuePosition,
    could_matter,
)
from kubesched.explain.shadow.shadow_entries import (
    AGREEMENTS,
    AssumedState,
    ShadowEntry,
    ShadowVerdict,
)
from kubesched.explain.shadow.shadow_ledger import ShadowLedger
from kubesched.framework import ClusterChange, Removal
from kubesched.framework.pod_status_writer import POD_SCHEDULED

__all__ = ["ShadowReplay"]

_EXPLAINED: Final = AGREEMENTS | {ShadowVerdict.SAMPLED}
_HISTORY: Final = 1000  # number of changes; the window limits their age
_UNSCHEDULABLE: Final = "Unschedulable"


class _WaitingPod:
    """A pod without a node, in the state that the other scheduler has received."""

    __slots__ = ("arrival", "chosen", "has_failed", "pod")

    def __init__(self, pod: Pod, arrival: int) -> None:
        self.pod = pod
        self.arrival = arrival
        self.has_failed = _failure(pod) is not None
        self.chosen = ""  # the node that its scheduler has published

    @property
    def position(self) -> QueuePosition:
        return QueuePosition(-pod_priority(self.pod), self.arrival)


class ShadowReplay:
    """Applies changes to a model, and writes the ledger. It has no clock and performs no I/O."""

    def __init__(
        self,
        model: ClusterModel,
        comparison: DecisionComparison,
        ledger: ShadowLedger,
        window_ns: int,
    ) -> None:
        """`window_ns` is the delay of changes, and the maximum age of a decision.

        With 0 every decision is compared only in the state that the watch shows.
        """
        self._model = model
        self._comparison = comparison
        self.ledger = ledger
        self._window_ns = window_ns
        self._held = OrderedChanges(window_ns)
        self._waiting: dict[str, _WaitingPod] = {}  # by uid
        self._applied: deque[AppliedChange] = deque(maxlen=_HISTORY)
        # Waiting pods that were deleted, with the time.
        self._lost: deque[tuple[int, Pod]] = deque(maxlen=_HISTORY)
        self._count = 0

    @property
    def buffered_changes(self) -> int:
        """The number of changes that are buffered until their window has passed."""
        return len(self._held)

    @property
    def waiting(self) -> int:
        """The number of pods of the profiles without a node."""
        return len(self._waiting)

    def begin(self, present: Any) -> None:
        """Add an object that exists at the start."""
        if isinstance(present, Pod) and not present.spec.node_name:
            self._follow_new(present)
        self._model.objects.put(present)

    def take(self, change: Change) -> None:
        """Append a change in the order of arrival; `advance` applies it later."""
        self._held.add(change)

    def advance(self, now_ns: int, most: int | None = None) -> bool:
        """Apply the changes whose window has passed; return whether some are left.

        With `most`, stop after that many changes, so that other tasks run.
        """
        while (change := self._held.release(now_ns)) is not None:
            self._apply(change)
            if most is not None:
                most -= 1
                if most <= 0:
                    return True
        return False

    def _apply(self, change: Change) -> None:
        self._count += 1
        if isinstance(change.either, Pod):
            self._apply_pod(change)
        elif change.after is None:
            gone = change.gone
            self._remove(change, type(gone), gone.metadata.name, gone.metadata.namespace)
        else:
            self._put(change, change.after)

    def _apply_pod(self, change: Change) -> None:
        pod: Pod = change.either
        waiting = self._waiting.get(pod.metadata.uid)
        if change.after is None:
            if waiting is not None:
                del self._waiting[pod.metadata.uid]
                self._lost.append((change.seen_ns, waiting.pod))
            self._remove(change, Pod, pod.metadata.name, pod.metadata.namespace)
        elif waiting is None:
            if not pod.spec.node_name:
                self._follow_new(pod)
            self._put(change, pod)
        elif pod.spec.node_name:
            del self._waiting[pod.metadata.uid]
            if waiting.chosen != pod.spec.node_name:
                self._record(change, waiting, pod.spec.node_name)
            self._put(change, pod, waiting.position)
        else:
            self._apply_to_waiting(change, waiting, pod)

    def _apply_to_waiting(self, change: Change, waiting: _WaitingPod, pod: Pod) -> None:
        """Apply a change of a pod that still has no node afterwards."""
        position = None
        failure = _failure(pod)
        nominated = pod.status.nominated_node_name
        if failure is not None and failure != _failure(waiting.pod):
            # A failure after the choice is a failure of the binding, and does not revise the
            # choice.
            if not waiting.chosen and failure[0] == _UNSCHEDULABLE:
                self._record(change, waiting, "", message=failure[1])
            waiting.chosen = ""
            waiting.has_failed = True
            waiting.arrival = self._count
        elif nominated != waiting.pod.status.nominated_node_name:
            waiting.chosen = ""
            # A preemptor has failed before, and does not fit its nominated node yet.
            if nominated and (not waiting.has_failed or self._fits(waiting.pod, nominated)):
                self._record(change, waiting, nominated)
                waiting.chosen = nominated
                position = waiting.position
        waiting.pod = pod
        if waiting.chosen:
            pod = replace(pod, spec=replace(pod.spec, node_name=waiting.chosen))
        self._put(change, pod, position)

    def _fits(self, pod: Pod, node: str) -> bool:
        result = self._model.search(pod).result
        row = self._model.snapshot.table.row_of.get(node)
        return result is not None and row is not None and bool((result.feasible.rows == row).any())

    def _follow_new(self, pod: Pod) -> None:
        if pod.spec.scheduler_name in self._model.frameworks:
            self._waiting[pod.metadata.uid] = _WaitingPod(pod, self._count)

    def _put(self, change: Change, new: Any, placed: QueuePosition | None = None) -> None:
        before = self._model.objects.put(new)
        if could_matter(before, new):
            metadata = new.metadata
            undo = before or Removal(type(new), metadata.name, metadata.namespace)
            self._note(change, undo, placed)

    def _remove(self, change: Change, kind: type[Any], name: str, namespace: str) -> None:
        before = self._model.objects.remove(kind, name, namespace)
        if before is not None:
            self._note(change, before, None)

    def _note(self, change: Change, undo: Any, placed: QueuePosition | None) -> None:
        either, uid, kind, node = change.either, "", "", ""
        if isinstance(either, Pod):
            uid = either.metadata.uid
            node = either.spec.node_name or either.status.nominated_node_name
        elif isinstance(either, CREATED_WITH_PODS):
            kind = type(either).__name__
        self._applied.append(AppliedChange(change.seen_ns, undo, uid, kind, placed, node))

    def _record(
        self, change: Change, waiting: _WaitingPod, node: str, *, message: str = ""
    ) -> None:
        """Compare a decision in the state before the change, and add the result to the ledger."""
        pod = waiting.pod
        if change.is_late:
            self.ledger.leave_out("the watch delivered the decision too late")
            return
        if pod.spec.scheduling_group is not None:
            self.ledger.leave_out("pods of groups are decided together")
            return
        if waiting.chosen:
            self._model.objects.put(pod)  # without the node of an earlier choice
        found, state = self._compare(change, waiting, node)
        self.ledger.add(
            ShadowEntry(
                at=format_time(change.seen_ns),
                pod=f"{pod.metadata.namespace}/{pod.metadata.name}",
                profile=pod.spec.scheduler_name,
                verdict=found.verdict,
                state=state,
                node=node,
                own_node=found.own_node,
                summary=found.summary or message,
                plugin=found.plugin,
                points=found.points,
            )
        )

    def _compare(
        self, change: Change, waiting: _WaitingPod, node: str
    ) -> tuple[ComparedDecision, AssumedState]:
        pod, compare = waiting.pod, self._comparison.compare
        found = compare(pod, node)
        if found.verdict in _EXPLAINED or not self._window_ns:
            return found, AssumedState.AS_SEEN
        oldest_ns = change.seen_ns - self._window_ns
        while self._applied and self._applied[0].seen_ns < oldest_ns:
            self._applied.popleft()
        states = PossibleStates(
            waiting.position,
            pod.metadata.uid,
            tuple(self._applied),
            self._in_flight(),
            self._never_bound(oldest_ns),
        )
        last = found

        def compared(changes: Sequence[ClusterChange]) -> ComparedDecision | None:
            nonlocal last
            with self._model.changed(changes):
                last = compare(pod, node, explains=False)
            return None if last.verdict in _EXPLAINED else last

        state = states.find(node, compared)
        return (found, AssumedState.AS_SEEN) if state is None else (last, state)

    def _in_flight(self) -> list[PodInFlight]:
        """Return the waiting pods that were already decided, according to their next changes."""
        found = []
        for change in self._held.next_ones():
            waiting = self._waiting.get(change.either.metadata.uid)
            if waiting is None:
                continue
            before, after = waiting.pod, change.after
            nominated = before.status.nominated_node_name
            if waiting.chosen:
                # Its scheduler removes a pod that cannot be bound before it writes the failure.
                if after is None or not after.status.nominated_node_name:
                    gone = PodInFlight(waiting.position, waiting.chosen, True, "", before)
                    found.append(gone)
            elif (
                after is not None
                and (node := after.spec.node_name or after.status.nominated_node_name) != nominated
            ):
                found.append(PodInFlight(waiting.position, node, False, nominated, after))
        return found

    def _never_bound(self, oldest_ns: int) -> list[Pod]:
        """Return pods that may have been assumed on a node that no write contains."""
        while self._lost and self._lost[0][0] < oldest_ns:
            self._lost.popleft()
        found = [pod for _, pod in self._lost]
        for change in self._held.next_ones():
            waiting = self._waiting.get(change.either.metadata.uid)
            if waiting is None or waiting.chosen or change.either.spec.node_name:
                continue
            if change.after is None or _failure(change.after) != _failure(waiting.pod):
                found.append(waiting.pod)
        return found


def _failure(pod: Pod) -> tuple[str, str, str | None] | None:
    """Return the reason, the message and the time of the pod's last failure; None without one."""
    for each in pod.status.conditions:
        if each.type == POD_SCHEDULED and each.status == "False":
            return each.reason, each.message, each.last_transition_time
    return None
