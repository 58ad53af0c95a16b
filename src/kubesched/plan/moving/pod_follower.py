"""Follows the pods of a cluster during waves: which are gone, and which pods replaced them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kubesched.api import Pod
from kubesched.api.pod_facts import controller_of, is_terminating, pod_key
from kubesched.foundation.util.clock import Clock
from kubesched.plan.reading.pod_budgets import BudgetRoom, budgets_of

__all__ = ["EvictedPod", "PodFollower"]

_ENDED = ("Succeeded", "Failed")


class EvictedPod(NamedTuple):
    """The values that identify an evicted pod and its replacement."""

    key: str  # namespace/name
    uid: str
    owner: str  # the uid of its controller
    target: str  # the node that the plan has for its replacement


class PodFollower:
    """Receives every change of a pod. Connect it with `add_handler` of an informer."""

    def __init__(
        self,
        budgets: Sequence[BudgetRoom],
        clock: Clock,
        planned: Collection[str] | None = None,
    ) -> None:
        """`planned` are the uids of pods whose deletion counts as a loss; by default all pods."""
        self.changed = asyncio.Event()
        self.pods: dict[str, Pod] = {}  # by uid
        # Pods that were deleted although no wave evicted them.
        self.lost: list[str] = []
        # Budgets that had fewer healthy pods than they need.
        self.violations: list[str] = []
        # The longest time that a replacement was pending, and its name.
        self.longest_wait = (0, "")
        self._clock = clock
        self._planned = planned
        self._since_ns: dict[str, int] = {}  # when a replacement appeared, by uid
        self._budgets = budgets
        self._healthy: Counter[int] = Counter()
        self._needed: dict[int, int] = {}
        self._evicted: dict[str, EvictedPod] = {}  # of this wave, by uid
        self._all_evicted: set[str] = set()
        self._owners: Counter[str] = Counter()
        self._new: dict[str, Pod] = {}  # new pods of these owners since the wave began

    def on_add(self, pod: Pod) -> None:
        self._count(pod, 1)
        self.pods[pod.metadata.uid] = pod
        self._note_replacement(pod)
        self.changed.set()

    def on_update(self, old: Pod, pod: Pod) -> None:
        if _is_healthy(old) != _is_healthy(pod):
            self._count(old, -1)
            self._count(pod, 1)
        self.pods[pod.metadata.uid] = pod
        if pod.metadata.uid in self._new:
            self._new[pod.metadata.uid] = pod
            self._measure(pod)
        self.changed.set()

    def on_delete(self, pod: Pod, _is_missed: bool) -> None:
        uid = pod.metadata.uid
        self._count(self.pods.pop(uid, pod), -1)
        self._new.pop(uid, None)
        matters = self._planned is None or uid in self._planned
        if matters and uid not in self._all_evicted and pod.status.phase not in _ENDED:
            self.lost.append(pod_key(pod))
        self.changed.set()

    def start_counting(self) -> None:
        """From now on, record budgets with fewer healthy pods than they require."""
        for number, budget in enumerate(self._budgets):
            self._needed[number] = self._healthy[number] - budget.allowed
        self.lost.clear()

    def begin_wave(
        self, evicted: Iterable[EvictedPod], known: Collection[str] | None = None
    ) -> None:
        """Expect replacements of these pods.

        If the wave has begun before, `known` are the uids of the pods before it.
        """
        self._evicted = {each.uid: each for each in evicted}
        self._all_evicted.update(self._evicted)
        self._owners = Counter(each.owner for each in self._evicted.values())
        self._new = {}
        if known is not None:
            for pod in list(self.pods.values()):
                if pod.metadata.uid not in known and pod.status.phase not in _ENDED:
                    self._note_replacement(pod)

    @property
    def is_done(self) -> bool:
        """Whether the evicted pods are gone, and each has a replacement that is ready."""
        if any(uid in self.pods for uid in self._evicted):
            return False
        ready = Counter(_owner(pod) for pod in self._new.values() if _is_ready(pod))
        return all(ready[owner] >= count for owner, count in self._owners.items())

    @property
    def placed_count(self) -> int:
        """Return the number of replacements on nodes."""
        return sum(bool(pod.spec.node_name) for pod in self._new.values())

    @property
    def is_placed(self) -> bool:
        """Whether each evicted pod has a replacement on a node."""
        placed = Counter(_owner(pod) for pod in self._new.values() if pod.spec.node_name)
        return all(placed[owner] >= count for owner, count in self._owners.items())

    def replacements(self) -> dict[str, Pod]:
        """Return the replacement of each evicted pod, by its name.

        Pods of one owner are interchangeable. Those on the planned nodes are matched first.
        """
        found: dict[str, Pod] = {}
        left = {uid: pod for uid, pod in self._new.items() if not is_terminating(pod)}
        waiting = list(self._evicted.values())
        for is_exact in (True, False):
            for each in list(waiting):
                for uid, pod in left.items():
                    is_there = pod.spec.node_name == each.target
                    if _owner(pod) == each.owner and (is_there or not is_exact):
                        found[each.key] = pod
                        del left[uid]
                        waiting.remove(each)
                        break
        return found

    def unready(self) -> frozenset[str]:
        """Return the names of the evicted pods without a ready replacement."""
        found = self.replacements()
        return frozenset(
            each.key
            for each in self._evicted.values()
            if each.key not in found or not _is_ready(found[each.key])
        )

    def _note_replacement(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        if self._owners[_owner(pod)] and uid not in self._evicted:
            self._new[uid] = pod
            self._since_ns[uid] = self._clock.monotonic_ns()

    def _measure(self, pod: Pod) -> None:
        """Record how long a replacement that now has a node was pending."""
        if pod.spec.node_name and pod.metadata.uid in self._since_ns:
            since_ns = self._since_ns.pop(pod.metadata.uid)
            waited = (self._clock.monotonic_ns() - since_ns, pod_key(pod))
            self.longest_wait = max(self.longest_wait, waited)

    def _count(self, pod: Pod, step: int) -> None:
        if not self._budgets or not _is_healthy(pod):
            return
        for number in budgets_of(pod, self._budgets):
            self._healthy[number] += step
            needed = self._needed.get(number)
            if step < 0 and needed is not None and self._healthy[number] < needed:
                self.violations.append(self._budgets[number].name)


def _owner(pod: Pod) -> str:
    owner = controller_of(pod)
    return "" if owner is None else owner.uid


def _is_ready(pod: Pod) -> bool:
    return bool(pod.spec.node_name) and any(
        each.type == "Ready" and each.status == "True" for each in pod.status.conditions
    )


def _is_healthy(pod: Pod) -> bool:
    return _is_ready(pod) and pod.status.phase not in _ENDED
