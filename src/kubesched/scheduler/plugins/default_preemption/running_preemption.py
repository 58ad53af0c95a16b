"""Preemptions whose victims are being evicted: which are still needed, and by which preemptor.

`PodPreemption` is for one pod, `PodGroupPreemption` for a whole group. `Evictions` evicts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kubesched.api import Pod, PodGroup
from kubesched.api.base import ApiObject
from kubesched.api.pod_facts import is_terminating, pod_key, pod_priority
from kubesched.framework import Handle, Lister, PodInfo
from kubesched.scheduler.plugins.default_preemption.preemption_candidates import PreemptionCandidate

__all__ = [
    "OtherPreemptors",
    "PodGroupPreemption",
    "PodPreemption",
    "RunningPreemption",
    "is_awaited",
]


class RunningPreemption(Protocol):
    """A preemptor and the place where its victims are evicted."""

    @property
    def preemptor(self) -> Pod | PodGroup: ...

    @property
    def kind(self) -> str:
        """The kind of the preemptor, as in conditions and events."""
        ...

    @property
    def related(self) -> ApiObject | None:
        """What events about victims refer to; in the reference, only a group."""
        ...

    @property
    def node_name(self) -> str: ...

    @property
    def scheduler_name(self) -> str: ...

    @property
    def priority(self) -> int: ...

    @property
    def waiting_pods(self) -> Mapping[str, Pod]:
        """The pods that wait for the room, by "namespace/name"."""
        ...

    @property
    def sent(self) -> set[str]:
        """The uids of victims whose deletion was requested."""
        ...

    def begin(self) -> None:
        """Record the state at the beginning of the evictions."""
        ...

    def is_awaited(self) -> bool:
        """Whether the preemptor still exists and has no node."""
        ...

    def is_needed(self, victim: Pod) -> bool:
        """Whether the preemptor still needs the victim's room."""
        ...


class OtherPreemptors(Protocol):
    """Preemptors that wait for room at the same time."""

    def victims_on(self, node_name: str) -> Sequence[PodInfo]:
        """Return the victims on a node: those chosen, and those that are terminating."""
        ...

    def waiting_pods(self) -> Mapping[str, Pod]:
        """Return the preemptors, by "namespace/name"."""
        ...


class PodPreemption:
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
        others: OtherPreemptors | None = None,
    ) -> None:
        """Create it in the attempt that found no node for the preemptor."""
        self.preemptor = preemptor
        self.node_name = candidate.node_name
        self._victims = candidate.victims
        self._others = others
        self._pod_info = PodInfo(preemptor)
        self._handle = handle
        self._pods = pods
        self._looks_for_room = looks_for_room
        self._is_of_group = is_of_group
        self._no_room_at = handle.dry_run.version
        self._was_nominated = False
        self.sent: set[str] = set()  # uids of victims whose deletion was requested

    @property
    def kind(self) -> str:
        return "pod"

    @property
    def related(self) -> None:
        return None

    @property
    def scheduler_name(self) -> str:
        return self.preemptor.spec.scheduler_name

    @property
    def priority(self) -> int:
        return pod_priority(self.preemptor)

    @property
    def waiting_pods(self) -> Mapping[str, Pod]:
        return {pod_key(self.preemptor): self.preemptor}

    def begin(self) -> None:
        """Record whether the attempt has nominated the preemptor."""
        self._was_nominated = self._is_nominated

    @property
    def _is_nominated(self) -> bool:
        return self._handle.nominator.node_of(self.preemptor.metadata.uid) == self.node_name

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

        The preemptor must be unchanged, nominated to this node, fit no node, and fit this one
        without its victims.
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
        gone = self._victims
        if self._others is not None:
            # They are nominated to the node, so that it must have room for them, too.
            gone = (*gone, *self._others.victims_on(self.node_name))
        if not dry_run.fits_without(self._pod_info, self.node_name, gone):
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


class PodGroupPreemption:
    """A preemption for all pending members of a group, on any nodes."""

    kind: str = "podgroup"
    node_name: str = "cluster"  # victims may be on many nodes

    def __init__(
        self, pods: Lister[Pod], groups: Lister[PodGroup], group: PodGroup, members: Sequence[Pod]
    ) -> None:
        self.preemptor = self.related = group
        self.scheduler_name = members[0].spec.scheduler_name
        self.priority = group.spec.priority or 0
        self.waiting_pods = {pod_key(pod): pod for pod in members}
        self.sent: set[str] = set()
        self._pods = pods
        self._groups = groups

    def begin(self) -> None:
        pass

    def is_awaited(self) -> bool:
        """Whether the group exists, and some member still has no node."""
        metadata = self.preemptor.metadata
        current = self._groups.get(metadata.name, metadata.namespace)
        return (
            current is not None
            and current.metadata.uid == metadata.uid
            and any(is_awaited(pod, self._pods) for pod in self.waiting_pods.values())
        )

    def is_needed(self, victim: Pod) -> bool:
        """Whether the group still waits; where it fits depends on members that are not placed."""
        return self.is_awaited()


def is_awaited(pod: Pod, pods: Lister[Pod]) -> bool:
    """Whether the pod exists, is not terminating, and has no node."""
    current = pods.get(pod.metadata.name, pod.metadata.namespace)
    return (
        current is not None
        and current.metadata.uid == pod.metadata.uid
        and not is_terminating(current)
        and not current.spec.node_name
    )
