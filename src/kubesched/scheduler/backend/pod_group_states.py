"""The members of pod groups and the state of each (docs/reference/09 §3).

Plain classes: the event handlers and the cache add and remove pods. A group exists while some pod
names it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.framework.pod_groups import UnknownPodGroupError, group_name_of

__all__ = ["PodGroupState", "PodGroupStates"]


class PodGroupState:
    """One group. Every pod is unscheduled, assumed on a node, or assigned to one."""

    __slots__ = ("_all", "_assigned", "_assumed", "_unscheduled")

    def __init__(self) -> None:
        self._all: dict[str, Pod] = {}  # by uid, the latest version
        # Dicts instead of sets, because their order is the same in every run.
        self._unscheduled: dict[str, None] = {}
        self._assumed: dict[str, Pod] = {}  # with their nodes
        self._assigned: dict[str, None] = {}

    def __bool__(self) -> bool:
        return bool(self._all)

    @property
    def all_count(self) -> int:
        return len(self._all)

    @property
    def scheduled_count(self) -> int:
        return len(self._assumed) + len(self._assigned)

    @property
    def assumed(self) -> Collection[str]:
        return self._assumed.keys()

    def scheduled_pods(self) -> Collection[Pod]:
        return [*(self._all[uid] for uid in self._assigned), *self._assumed.values()]

    def unscheduled_pods(self) -> Mapping[str, Pod]:
        return {pod_key(self._all[uid]): self._all[uid] for uid in self._unscheduled}

    def add(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        self._all[uid] = pod
        (self._assigned if pod.spec.node_name else self._unscheduled)[uid] = None

    def update(self, new: Pod) -> None:
        uid = new.metadata.uid
        old = self._all.get(uid)
        if old is None:
            self.add(new)
            return
        self._all[uid] = new
        if new.spec.node_name and not old.spec.node_name:
            self._unscheduled.pop(uid, None)
            self._assumed.pop(uid, None)
            self._assigned[uid] = None

    def delete(self, uid: str) -> None:
        self._all.pop(uid, None)
        for part in (self._unscheduled, self._assumed, self._assigned):
            part.pop(uid, None)

    def assume(self, assumed: Pod) -> None:
        uid = assumed.metadata.uid
        pod = self._all.get(uid)
        if pod is None:
            return
        self._unscheduled.pop(uid, None)
        if pod.spec.node_name:
            self._assigned[uid] = None
        else:
            self._assumed[uid] = assumed

    def forget(self, uid: str) -> None:
        pod = self._all.get(uid)
        if pod is None:
            return
        self._assumed.pop(uid, None)
        (self._assigned if pod.spec.node_name else self._unscheduled)[uid] = None

    def check_invariants(self) -> None:
        parts = [*self._unscheduled, *self._assumed, *self._assigned]
        assert len(parts) == len(set(parts)), "a member is in two parts of its group"
        assert set(parts) == set(self._all), "a member is in no part of its group, or unknown"


class PodGroupStates:
    """The groups of all namespaces. Pods without a group are ignored by every method."""

    def __init__(self) -> None:
        self._states: dict[tuple[str, str], PodGroupState] = {}

    def __len__(self) -> int:
        return len(self._states)

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """Iterate over the namespaces and names of the groups."""
        return iter(self._states)

    def find(self, pod: Pod) -> PodGroupState | None:
        """Return the group of a pod."""
        return self._states.get((pod.metadata.namespace, group_name_of(pod)))

    def members(self, namespace: str, name: str) -> PodGroupState:
        found = self._states.get((namespace, name))
        if found is None:
            raise UnknownPodGroupError(namespace, name)
        return found

    def add(self, pod: Pod) -> None:
        if name := group_name_of(pod):
            self._states.setdefault((pod.metadata.namespace, name), PodGroupState()).add(pod)

    def update(self, new: Pod) -> None:
        """Update a pod that was added."""
        if state := self.find(new):
            state.update(new)

    def replace(self, old: Pod, new: Pod) -> None:
        """Replace a pod on a node by a newer version, or confirm an assumed pod."""
        self.delete(old)
        self.add(new)

    def delete(self, pod: Pod) -> None:
        if (state := self.find(pod)) is None:
            return
        state.delete(pod.metadata.uid)
        if not state:
            del self._states[pod.metadata.namespace, group_name_of(pod)]

    def assume(self, pod: Pod) -> None:
        if state := self.find(pod):
            state.assume(pod)

    def forget(self, pod: Pod) -> None:
        if state := self.find(pod):
            state.forget(pod.metadata.uid)

    def check_invariants(self) -> None:
        for key, state in self._states.items():
            assert state, f"group {key} has no members"
            state.check_invariants()
