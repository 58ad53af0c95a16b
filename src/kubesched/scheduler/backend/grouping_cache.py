"""A cache that also updates pod groups (docs/reference/09 §3).

It passes every change of pods on nodes to the groups. The event handlers add waiting pods to them.
"""

from __future__ import annotations

from kubesched.api import Pod
from kubesched.framework import PodInfo
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.pod_group_states import PodGroupStates

__all__ = ["GroupingCache"]


class GroupingCache(Cache):
    """The cache of a scheduler that schedules pod groups."""

    def __init__(self, *, pod_updates_change_rows: bool = True) -> None:
        super().__init__(pod_updates_change_rows=pod_updates_change_rows)
        self.groups = PodGroupStates()

    def assume_pod(self, pod_info: PodInfo) -> None:
        super().assume_pod(pod_info)
        self.groups.assume(pod_info.pod)

    def forget_pod(self, pod: Pod) -> None:
        super().forget_pod(pod)
        self.groups.forget(pod)

    # The groups are updated first: a pod that the cache rejects is a member as well.

    def add_pod(self, pod: Pod) -> None:
        self.groups.replace(pod, pod)
        super().add_pod(pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        self.groups.replace(old, new)
        super().update_pod(old, new)

    def remove_pod(self, pod: Pod) -> None:
        self.groups.delete(pod)
        super().remove_pod(pod)

    def check_invariants(self) -> None:
        super().check_invariants()
        self.groups.check_invariants()
