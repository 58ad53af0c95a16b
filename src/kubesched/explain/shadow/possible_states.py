"""States in which another scheduler may have decided, besides the one that the watch shows.

The watch delivers writes, not decisions (decision 0046). A scheduler decides some time before its
write is stored. Meanwhile it decides for more pods and receives more events, and bindings in flight
overtake each other. So a possible state has two parts:

- a cut: all writes up to some moment within the window, and none after it;
- the pods in flight at that moment that were decided before: they count as placed already.

Pods that wait at the same time are decided in the order of the queue, by priority and then by age,
so that order is tried first. A queue that is nearly empty decides in the order of arrival, whatever
the priority: that is tried next. Neither is known for pods that were tried before, because their
time of the next attempt is not written anywhere. Where no order explains a decision, single pods in
flight are moved before or behind it: those on the node that the other scheduler chose, and those on
the node that the shadow prefers. A pod that is deleted before it is bound may have been on any
node, because no write names its node.

Each kind of objects has a watch of its own, so a scheduler may receive a pod before the ReplicaSet
that created it, whose selector decides where the pod spreads. So one of the kinds that are created
together with pods may be behind: its changes of the window count as not received.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kubesched.api import (
    Node,
    PersistentVolumeClaim,
    Pod,
    ReplicaSet,
    ReplicationController,
    ResourceClaim,
    Service,
    StatefulSet,
)
from kubesched.explain.shadow.decision_comparison import ComparedDecision
from kubesched.explain.shadow.shadow_entries import AssumedState
from kubesched.framework import ClusterChange
from kubesched.framework.object_changes import node_update_events

__all__ = [
    "CREATED_WITH_PODS",
    "AppliedChange",
    "PodInFlight",
    "PossibleStates",
    "QueuePosition",
    "could_matter",
]

_MOST_CUTS: Final = 64
_MOST_MOVES: Final = 8  # moves of single pods per cut
_MOST_STATES: Final = 500


# Of these only selectors are read; their status changes with each of their pods.
_SELECTING: Final = (ReplicaSet, ReplicationController, Service, StatefulSet)
CREATED_WITH_PODS: Final = (*_SELECTING, PersistentVolumeClaim, ResourceClaim)


# Makes a decision after some changes. Returns None if it matches the other scheduler's decision.
Compare = Callable[[Sequence[ClusterChange]], ComparedDecision | None]


class QueuePosition(NamedTuple):
    """The position of a waiting pod in the queue; the smallest is decided first."""

    less_important: int  # the negative priority
    arrival: int  # number of the change by which it arrived, or of its last failure


class AppliedChange(NamedTuple):
    """A change that is applied to the model, and the change that reverts it."""

    seen_ns: int
    undo: ClusterChange
    pod_uid: str = ""  # of a pod that changed
    kind: str = ""  # of another object that changed and may have been received later than a pod
    placed: QueuePosition | None = None  # position of a pod that the change placed on a node
    node: str = ""


class PodInFlight(NamedTuple):
    """A pod that was decided before or after the compared pod; the order is unknown."""

    position: QueuePosition
    node: str
    is_placed: bool  # in the model
    nominated: str  # the node that was reserved for it before
    other_way: ClusterChange  # removes the pod from the node, or places it there


class PossibleStates:
    """The states in which the decision for one pod may have been made."""

    def __init__(
        self,
        own: QueuePosition,
        own_uid: str,
        applied: Sequence[AppliedChange],
        coming: Sequence[PodInFlight],
        never_bound: Sequence[Pod] = (),
    ) -> None:
        """`applied` has the changes within the window, oldest first.

        `coming` has the pods whose decisions are delayed, `never_bound` those that waited within
        the window and were deleted or could not be bound.
        """
        self._own = own
        self._coming = coming
        self._never_bound = never_bound
        # The changes to undo if the watch of one kind is behind; first that none is.
        self._behind: list[list[AppliedChange]] = [[]]
        self._behind += _by_kind(applied)
        self._latest: list[AppliedChange] = []
        for change in reversed(applied):
            if change.pod_uid == own_uid:
                break  # the pod did not exist in this form before
            self._latest.append(change)
        # A pod without a node does not affect other pods, so no cut ends with such a change.
        ends = (
            number
            for number, change in enumerate(self._latest, start=1)
            if change.node or not change.pod_uid
        )
        self._cuts = [0, *itertools.islice(ends, _MOST_CUTS)]

    def find(self, node: str, compare: Compare) -> AssumedState | None:
        """Return the first state that explains the choice of the node; empty if no state does.

        `compare` makes a decision after some changes; it returns None if the decision is explained.
        """
        budget = _Budget(compare)
        cuts = self._cuts
        # Many pods may have been bound while one binding was slow, so a late cut comes before
        # moves at an early one.
        for some in (cuts[:1], cuts[1:]):
            for behind in self._behind:
                if (cut := self._cut_that_explains(some, behind, budget)) is not None:
                    return AssumedState.EARLIER if cut or behind else AssumedState.QUEUE_ORDER
            for behind in self._behind:
                states = self._states(some, behind)
                if any(self._moves_explain(node, each, budget) for each in states):
                    return AssumedState.IN_FLIGHT
        if any(self._single_move_explains(each, budget) for each in self._states(cuts, [])):
            return AssumedState.IN_FLIGHT
        return None

    def _states(self, cuts: Sequence[int], behind: Sequence[AppliedChange]) -> Iterator[_State]:
        return (state for cut in cuts for state in self._variants(cut, behind))

    def _cut_that_explains(
        self, cuts: Sequence[int], behind: Sequence[AppliedChange], budget: _Budget
    ) -> int | None:
        for cut in cuts:
            if any(budget.explains(each.changes()) for each in self._variants(cut, behind)):
                return cut
        return None

    def _moves_explain(self, node: str, state: _State, budget: _Budget) -> bool:
        """Move pods in flight one after another, as long as that improves the rank of the node."""
        budget.explains(state.changes())  # the node that the shadow prefers in this state
        lost: list[ClusterChange] = []
        for _ in range(_MOST_MOVES):
            own_node = budget.own_node
            moved = state.move_for(node, own_node)
            if moved is not None:
                state.flip(moved)
            elif own_node and len(lost) < len(self._never_bound):
                lost.append(_placed(self._never_bound[len(lost)], own_node))
            else:
                return False
            if budget.explains([*state.changes(), *lost]):
                return True
        return False

    def _single_move_explains(self, state: _State, budget: _Budget) -> bool:
        """Move each pod in flight alone: filters and scores may depend on pods on any node."""
        for number in range(min(len(state.is_placed), _MOST_MOVES)):
            state.flip(number)
            if budget.explains(state.changes()):
                return True
            state.flip(number)
        return False

    def _variants(self, cut: int, behind: Sequence[AppliedChange]) -> Iterator[_State]:
        """Yield the states at a cut: pods in flight by queue, by arrival, and as observed."""
        latest = self._latest[:cut]
        undone = [change.undo for change in latest if change.placed is None]
        undone += [change.undo for change in behind]
        pods = [
            PodInFlight(change.placed, change.node, True, "", change.undo)
            for change in latest
            if change.placed is not None
        ]
        pods += self._coming
        orders = (
            [each.position < self._own for each in pods],
            [each.position.arrival < self._own.arrival for each in pods],
            [each.is_placed for each in pods],
        )
        for number, is_placed in enumerate(orders):
            if is_placed not in orders[:number]:
                yield _State(undone, pods, list(is_placed))


class _Budget:
    """Compares in a limited number of states."""

    def __init__(self, compare: Compare) -> None:
        self._compare = compare
        self._left = _MOST_STATES
        self.own_node = ""  # result of the last comparison

    def explains(self, changes: Sequence[ClusterChange]) -> bool:
        if not self._left:
            return False
        self._left -= 1
        found = self._compare(changes)
        self.own_node = "" if found is None else found.own_node
        return found is None


class _State:
    """A cut, and the pods in flight that count as placed."""

    def __init__(
        self,
        undone: Sequence[ClusterChange],
        pods: Sequence[PodInFlight],
        is_placed: list[bool],
    ) -> None:
        self._undone, self._pods, self.is_placed = undone, pods, is_placed

    def changes(self) -> list[ClusterChange]:
        """Return the changes that convert the model to this state."""
        together = zip(self._pods, self.is_placed, strict=True)
        return [
            *self._undone,
            *(pod.other_way for pod, placed in together if placed is not pod.is_placed),
        ]

    def flip(self, number: int) -> None:
        self.is_placed[number] = not self.is_placed[number]

    def move_for(self, node: str, own_node: str) -> int | None:
        """Return a pod whose move improves `node` or worsens `own_node`; None without one."""
        for number, pod in enumerate(self._pods):
            if self.is_placed[number]:
                is_better = pod.node == node
            else:
                is_better = pod.node == own_node or (bool(node) and pod.nominated == node)
            if is_better and (pod.node or pod.nominated):
                return number
        return None


def _by_kind(applied: Sequence[AppliedChange]) -> list[list[AppliedChange]]:
    """Return the changes of each kind that may be behind, the latest first."""
    found: dict[str, list[AppliedChange]] = {}
    for change in reversed(applied):
        if change.kind:
            found.setdefault(change.kind, []).append(change)
    return list(found.values())


def _placed(pod: Pod, node: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name=node))


def could_matter(before: Any, after: Any) -> bool:
    """Whether a change of an object can affect a decision; a heartbeat cannot."""
    if before is None or after is None:
        return True
    if isinstance(after, Node):
        if before.spec != after.spec:
            return True
        return bool(node_update_events(before, after))
    if isinstance(after, Pod):
        return _placement_of(before) != _placement_of(after)
    if isinstance(after, _SELECTING):
        return bool(before.spec != after.spec)
    return True


def _placement_of(pod: Pod) -> tuple[Any, ...]:
    """Return the mutable fields of a pod that decisions for other pods read."""
    metadata = pod.metadata
    node, nominated = pod.spec.node_name, pod.status.nominated_node_name
    return node, nominated, metadata.labels, metadata.deletion_timestamp
