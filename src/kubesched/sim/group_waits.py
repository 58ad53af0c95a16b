"""How long pod groups wait until enough of their pods have a node.

This class performs no I/O: the observer of a run passes PodGroups and pods. A group is removed with
its last pod.
"""

from __future__ import annotations

from kubesched.api import PodGroup
from kubesched.sim.histogram import Histogram

__all__ = ["GroupWaits"]


class _Group:
    __slots__ = ("created_ns", "is_placed", "least", "on_nodes", "pods")

    def __init__(self, now_ns: int) -> None:
        self.created_ns = now_ns
        self.least = 0  # 0: the PodGroup is not there yet
        self.pods = 0
        self.on_nodes = 0
        self.is_placed = False


class GroupWaits:
    """The groups of a run by namespace/name, with the times until they were placed."""

    def __init__(self) -> None:
        self._groups: dict[str, _Group] = {}
        self.placed = 0
        self.to_place = Histogram()

    @property
    def waiting(self) -> int:
        """How many groups have pods and were not placed yet."""
        return sum(not each.is_placed and each.pods > 0 for each in self._groups.values())

    @property
    def is_used(self) -> bool:
        return bool(self._groups or self.placed)

    def has_pods(self, key: str) -> bool:
        return key in self._groups and self._groups[key].pods > 0

    def group_changed(self, group: PodGroup, now_ns: int) -> bool:
        """Note what a group needs; return whether it is placed by that."""
        key = f"{group.metadata.namespace}/{group.metadata.name}"
        known = self._of(key, now_ns)
        gang = group.spec.scheduling_policy.gang
        known.least = 1 if gang is None else gang.min_count
        return self._check(known, now_ns)

    def pod_created(self, key: str, now_ns: int) -> None:
        self._of(key, now_ns).pods += 1

    def pod_placed(self, key: str, now_ns: int) -> bool:
        """Note that a pod got a node; return whether the group is placed by that."""
        known = self._of(key, now_ns)
        known.on_nodes += 1
        return self._check(known, now_ns)

    def pod_removed(self, key: str, *, had_node: bool) -> None:
        """Note that a pod has ended or was deleted."""
        known = self._groups.get(key)
        if known is None:
            return
        known.pods -= 1
        known.on_nodes -= had_node
        if not known.pods:
            del self._groups[key]

    def _of(self, key: str, now_ns: int) -> _Group:
        found = self._groups.get(key)
        if found is None:
            found = self._groups[key] = _Group(now_ns)
        return found

    def _check(self, group: _Group, now_ns: int) -> bool:
        if group.is_placed or not 0 < group.least <= group.on_nodes:
            return False
        group.is_placed = True
        self.placed += 1
        self.to_place.add(now_ns - group.created_ns)
        return True
