"""Statistics of a simulation run, collected from pods, nodes and failed attempts.

The observer performs no I/O: its callers pass objects and the time. Its size grows with the cluster
and the number of samples, not with the number of pods that were created and deleted.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any, Final

from kubesched.api import Node, Pod, PodGroup
from kubesched.api.pod_facts import pod_priority
from kubesched.api.pod_requests import node_amounts
from kubesched.api.resource_amounts import Resources
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.framework import Status
from kubesched.framework.diagnosis import main_reason
from kubesched.framework.pod_groups import group_name_of
from kubesched.sim.group_waits import GroupWaits
from kubesched.sim.histogram import Histogram
from kubesched.sim.pod_kinds import PodKinds
from kubesched.sim.scenario import GROUP_LABEL, WORKLOAD_LABEL
from kubesched.sim.templates import ZONE_LABEL

__all__ = ["Decision", "NodeState", "ObservedPod", "Observer"]

_FINISHED: Final = ("Succeeded", "Failed")
_UNNAMED: Final = "others"
_DISRUPTIONS: Final = {"PreemptionByScheduler": "preempted"}

# When (nanoseconds from the start), what, which pod, which node.
Decision = tuple[int, str, str, str]


class ObservedPod:
    """What the observer stores of a pod while it exists."""

    __slots__ = (
        "amounts",
        "bound_ns",
        "created_ns",
        "group",
        "is_disrupted",
        "is_gated",
        "is_over",
        "key",
        "node",
        "priority",
        "reason",
        "running_ns",
        "workload",
    )

    def __init__(self, pod: Pod, now_ns: int) -> None:
        metadata = pod.metadata
        self.key = f"{metadata.namespace}/{metadata.name}"
        group = group_name_of(pod)
        self.group = f"{metadata.namespace}/{group}" if group else ""
        self.workload = metadata.labels.get(WORKLOAD_LABEL, _UNNAMED)
        self.priority = pod_priority(pod)
        self.amounts = _amounts(node_amounts(pod)[0])
        self.created_ns = now_ns
        self.bound_ns = -1
        self.running_ns = -1
        self.node = ""
        self.reason = ""
        self.is_gated = False  # as of the last change of the pod
        self.is_over = False
        self.is_disrupted = False


class NodeState:
    """A node, and the sums of the requests of its pods."""

    __slots__ = (
        "allocatable",
        "group",
        "is_cordoned",
        "is_stopped",
        "pods",
        "requested",
        "since_ns",
        "used",
        "zone",
    )

    def __init__(self, node: Node, now_ns: int) -> None:
        self.group = node.metadata.labels.get(GROUP_LABEL, _UNNAMED)
        self.zone = node.metadata.labels.get(ZONE_LABEL, "")
        self.allocatable = _amounts(Resources.from_resource_list(node.status.allocatable))
        self.allocatable["pods"] = Resources.allowed_pods(node.status.allocatable)
        self.requested: defaultdict[str, int] = defaultdict(int)
        self.used: defaultdict[str, int] = defaultdict(int)  # requests of running pods
        self.pods = 0
        self.since_ns = now_ns
        self.is_stopped = STOPPED in node.metadata.annotations
        self.is_cordoned = node.spec.unschedulable


class Observer:
    """Counts events of a run. Every decision within the time span `window` is stored."""

    def __init__(self, start_ns: int, window: tuple[int, int] | None = None) -> None:
        self._start_ns = start_ns
        self._window = window
        self.decisions: list[Decision] = []
        self.pods: dict[str, ObservedPod] = {}  # by uid
        self.nodes: dict[str, NodeState] = {}
        self.waiting: dict[str, ObservedPod] = {}  # pods without a node, by uid
        self.counts: Counter[str] = Counter()
        self.reasons_met: Counter[str] = Counter()  # failed attempts by reason
        self.kinds = PodKinds()  # requests of pods
        self.to_bind: dict[tuple[str, int], Histogram] = {}  # by workload and priority
        self.to_run: dict[tuple[str, int], Histogram] = {}
        self.groups = GroupWaits()
        self.node_seconds: Counter[str] = Counter()  # of deleted nodes, in ns, by group
        # By resource, over all nodes: allocatable, requests of their pods, and of running pods.
        self.total: dict[str, int] = {}
        self.allocated: defaultdict[str, int] = defaultdict(int)
        self.used: defaultdict[str, int] = defaultdict(int)
        self._digest = hashlib.blake2b(digest_size=16)

    @property
    def digest(self) -> str:
        """A hash of all events so far with their times."""
        return self._digest.hexdigest()

    def note(self, now_ns: int, what: str, name: str, where: str = "") -> None:
        """Add an event to the digest."""
        elapsed_ns = now_ns - self._start_ns
        self._digest.update(f"{elapsed_ns} {what} {name} {where}\n".encode())
        if self._window is not None and self._window[0] <= elapsed_ns <= self._window[1]:
            self.decisions.append((elapsed_ns, what, name, where))

    # -- nodes -------------------------------------------------------------------------

    def node_changed(self, node: Node, now_ns: int) -> None:
        name = node.metadata.name
        known = self.nodes.get(name)
        if known is None:
            known = self.nodes[name] = NodeState(node, now_ns)
            _add(self.total, known.allocatable)
            self.note(now_ns, "node", name)
            for pod in self.pods.values():
                if pod.node == name and not pod.is_over:
                    self._place(known, pod, 1)
                    if pod.running_ns >= 0:
                        self._use(known, pod, 1)
            return
        now = NodeState(node, now_ns)
        if now.is_stopped != known.is_stopped:
            known.is_stopped = now.is_stopped
            self.note(now_ns, "fails" if now.is_stopped else "is back", name)
        if now.is_cordoned != known.is_cordoned:
            known.is_cordoned = now.is_cordoned
            self.note(now_ns, "cordoned" if now.is_cordoned else "uncordoned", name)
        allocatable = now.allocatable
        if allocatable != known.allocatable:
            _add(self.total, known.allocatable, -1)
            _add(self.total, allocatable)
            known.allocatable = allocatable

    def node_deleted(self, name: str, now_ns: int) -> None:
        known = self.nodes.pop(name, None)
        if known is not None:
            self.node_seconds[known.group] += now_ns - known.since_ns
            _add(self.total, known.allocatable, -1)
            _add(self.allocated, known.requested, -1)
            _add(self.used, known.used, -1)
            self.note(now_ns, "node-gone", name)

    # -- pods --------------------------------------------------------------------------

    def group_changed(self, group: PodGroup, now_ns: int) -> None:
        if self.groups.group_changed(group, now_ns):
            self.note(now_ns, "group-placed", f"{group.metadata.namespace}/{group.metadata.name}")

    def pod_changed(self, pod: Pod, now_ns: int) -> None:
        uid = pod.metadata.uid
        known = self.pods.get(uid)
        if known is None:
            known = self._new_pod(pod, now_ns)
        if known.is_over:
            return
        if pod.spec.node_name and not known.node:
            self._bound(known, uid, pod.spec.node_name, now_ns)
        status = pod.status
        if not known.node:
            known.is_gated = bool(pod.spec.scheduling_gates)
        if status.phase == "Running" and known.running_ns < 0:
            known.running_ns = now_ns
            _histogram(self.to_run, known).add(now_ns - known.created_ns)
            if (node := self.nodes.get(known.node)) is not None:
                self._use(node, known, 1)
        elif status.phase in _FINISHED:
            self._finished(known, uid, status.phase, now_ns)
        if not known.is_disrupted:
            for condition in status.conditions:
                if condition.type == "DisruptionTarget" and condition.status == "True":
                    known.is_disrupted = True
                    what = _DISRUPTIONS.get(condition.reason, "evicted")
                    self.counts[what] += 1
                    self.note(now_ns, what, known.key, known.node)

    def pod_deleted(self, pod: Pod, now_ns: int) -> None:
        uid = pod.metadata.uid
        known = self.pods.pop(uid, None)
        if known is None or known.is_over:
            return
        self.counts["deleted"] += 1
        self.note(now_ns, "deleted", known.key, known.node)
        self._leave(known, uid)

    def attempt_failed(self, uid: str, status: Status, now_ns: int) -> None:
        """Count an attempt in which the scheduler found no node for a pod."""
        known = self.pods.get(uid)
        self.counts["failed attempts"] += 1
        reason = main_reason(status)
        self.reasons_met[reason] += 1
        if known is not None:
            known.reason = reason
            self.note(now_ns, "waits", known.key, reason)

    def _new_pod(self, pod: Pod, now_ns: int) -> ObservedPod:
        uid = pod.metadata.uid
        known = self.pods[uid] = ObservedPod(pod, now_ns)
        self.counts["created"] += 1
        self.kinds.add(known.amounts)
        if known.group:
            self.groups.pod_created(known.group, now_ns)
        if not pod.spec.node_name:
            self.waiting[uid] = known
            self.note(now_ns, "created", known.key)
        return known

    def _bound(self, known: ObservedPod, uid: str, node_name: str, now_ns: int) -> None:
        known.node, known.bound_ns = node_name, now_ns
        if self.waiting.pop(uid, None) is not None:
            self.counts["bound"] += 1
            self.note(now_ns, "bound", known.key, node_name)
            _histogram(self.to_bind, known).add(now_ns - known.created_ns)
        if known.group and self.groups.pod_placed(known.group, now_ns):
            self.note(now_ns, "group-placed", known.group)
        if (node := self.nodes.get(node_name)) is not None:
            self._place(node, known, 1)

    def _finished(self, known: ObservedPod, uid: str, phase: str, now_ns: int) -> None:
        what = "finished" if phase == "Succeeded" else "failed"
        self.counts[what] += 1
        self.note(now_ns, what, known.key, known.node)
        self._leave(known, uid)
        known.is_over = True

    def _leave(self, known: ObservedPod, uid: str) -> None:
        self.waiting.pop(uid, None)
        if known.group:
            self.groups.pod_removed(known.group, had_node=bool(known.node))
        if (node := self.nodes.get(known.node)) is not None:
            self._place(node, known, -1)
            if known.running_ns >= 0:
                self._use(node, known, -1)

    def _place(self, node: NodeState, pod: ObservedPod, sign: int) -> None:
        node.pods += sign
        requested, allocated = node.requested, self.allocated
        for name, amount in pod.amounts.items():
            requested[name] += sign * amount
            allocated[name] += sign * amount

    def _use(self, node: NodeState, pod: ObservedPod, sign: int) -> None:
        of_node, of_all = node.used, self.used
        for name, amount in pod.amounts.items():
            of_node[name] += sign * amount
            of_all[name] += sign * amount

    def pending_reasons(self) -> dict[str, int]:
        """Count waiting pods by the reason of their last attempt."""
        found = Counter(
            "held back by a scheduling gate" if pod.is_gated else pod.reason or "not tried yet"
            for pod in self.waiting.values()
        )
        return dict(sorted(found.items()))


def _add(to: dict[str, int], amounts: Mapping[str, int], sign: int = 1) -> None:
    for name, amount in amounts.items():
        to[name] = to.get(name, 0) + sign * amount


def _histogram(table: dict[tuple[str, int], Histogram], pod: ObservedPod) -> Histogram:
    found = table.get((pod.workload, pod.priority))
    if found is None:
        found = table[pod.workload, pod.priority] = Histogram()
    return found


def _amounts(resources: Resources) -> dict[str, int]:
    """Return amounts by resource: cpu in thousandths, memory in bytes; without node storage."""
    amounts: dict[str, Any] = {"cpu": resources.milli_cpu, "memory": resources.memory}
    return {**amounts, **resources.scalar}
