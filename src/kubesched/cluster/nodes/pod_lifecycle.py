"""The bound pods of all nodes, and the next step of each.

Plain state without I/O: it takes pods, stopped and started nodes, and the time, and returns the
steps that are due. `PodRun` has the progress of one pod, `pod_behavior.py` its behavior.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Literal, NamedTuple

from kubesched.api import Pod
from kubesched.api.host_ports import HostPort, host_ports, ports_conflict
from kubesched.cluster.nodes.pod_behavior import Behavior, behavior_of
from kubesched.cluster.nodes.pod_run import FINISHED, PodRun
from kubesched.cluster.nodes.pod_status import needs_report
from kubesched.foundation.util.heap import KeyedHeap

__all__ = ["PodLifecycles", "Step"]

_PORTS_IN_USE = (
    "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
)


class Step(NamedTuple):
    """A write to the API server: a report of a pod's status, or its removal."""

    kind: Literal["report", "remove"]
    run: PodRun


class _Due(NamedTuple):
    uid: str
    due_ns: int


class PodLifecycles:
    """The runs of all pods, and when the next step of each is due."""

    def __init__(
        self,
        *,
        start_delay_ns: int,
        stop_delay_ns: int,
        behavior: Callable[[Pod], Behavior] = behavior_of,
    ) -> None:
        self._start_delay_ns, self._stop_delay_ns = start_delay_ns, stop_delay_ns
        self._behavior = behavior
        self._runs: dict[str, PodRun] = {}
        self._on_node: dict[str, dict[str, None]] = {}
        # Host ports in use, by node and by the uid of the pod.
        self._ports: dict[str, dict[str, tuple[HostPort, ...]]] = {}
        self._stopped: set[str] = set()  # names of stopped nodes
        self._in_flight: set[str] = set()  # uids of pods whose step is being carried out
        self._due: KeyedHeap[str, _Due] = KeyedHeap(key=itemgetter(0), sort_key=itemgetter(1))

    def observe(self, pod: Pod, now_ns: int) -> bool:
        """Add or update a pod. Return whether a step may have become due."""
        node = pod.spec.node_name
        if not node:
            return False
        uid = pod.metadata.uid
        run = self._runs.get(uid)
        if run is None:
            if pod.status.phase in FINISHED and (
                pod.metadata.deletion_timestamp is None
                or pod.metadata.deletion_grace_period_seconds == 0
            ):
                return False  # it has finished, and no removal is pending
            run = PodRun(
                pod, self._behavior(pod), self._start_delay_ns, self._stop_delay_ns, now_ns
            )
            self._runs[uid] = run
            self._on_node.setdefault(node, {})[uid] = None
            if run.phase == "Running" and (ports := host_ports(pod)):
                self._ports.setdefault(node, {})[uid] = ports
        elif run.pod is pod:
            return False  # the response of a write had this version already
        if run.has_other_images(pod):
            run.change_images(pod, self._behavior(pod), self._start_delay_ns, now_ns)
        run.observe(pod, now_ns)
        if pod.status.phase in FINISHED:
            self._ports.get(node, {}).pop(uid, None)
            if pod.metadata.deletion_timestamp is None or run.is_held:
                self._drop(run)
                return False
        self._plan(run, now_ns)
        return True

    def _plan(self, run: PodRun, now_ns: int, *, is_reported: bool = False) -> None:
        uid = run.uid
        self._due.delete(uid)
        if run.pod.spec.node_name in self._stopped or uid in self._in_flight:
            return
        due_ns = run.next_ns(now_ns)
        is_due = not is_reported and run.pod.metadata.deletion_timestamp is None
        if is_due and needs_report(run, now_ns):
            due_ns = now_ns
        if due_ns is not None:
            self._due.add(_Due(uid, due_ns))

    def remove(self, uid: str) -> None:
        """Remove a deleted pod."""
        run = self._runs.get(uid)
        if run is not None:
            self._drop(run)

    def _drop(self, run: PodRun) -> None:
        uid, node = run.uid, run.pod.spec.node_name
        self._due.delete(uid)
        self._in_flight.discard(uid)
        del self._runs[uid]
        for by_node in (self._on_node, self._ports):
            entries = by_node.get(node)
            if entries is not None:
                entries.pop(uid, None)
                if not entries:
                    del by_node[node]

    def keep_only(self, uids: set[str]) -> None:
        """Remove all pods except these."""
        for uid in [uid for uid in self._runs if uid not in uids]:
            self.remove(uid)

    def stop_node(self, node: str) -> None:
        """Suspend the pods of a node."""
        self._stopped.add(node)
        for uid in self._on_node.get(node, ()):
            self._due.delete(uid)

    def start_node(self, node: str, now_ns: int) -> None:
        """Resume the pods of a stopped node; overdue steps become due now."""
        if node not in self._stopped:
            return
        self._stopped.remove(node)
        for uid in self._on_node.get(node, ()):
            self._plan(self._runs[uid], now_ns)

    def due(self, now_ns: int) -> list[Step]:
        """Return the steps that are due, the earliest first. Each is in flight until `done`."""
        steps = []
        while (due := self._due.peek()) is not None and due.due_ns <= now_ns:
            self._due.pop()
            run = self._runs[due.uid]
            step = self._step(run, now_ns)
            if step is None:
                self._plan(run, now_ns)
            else:
                self._in_flight.add(run.uid)
                steps.append(step)
        return steps

    def _step(self, run: PodRun, now_ns: int) -> Step | None:
        if run.pod.metadata.deletion_timestamp is not None:
            if run.removal_ns is None or run.removal_ns > now_ns:
                return None
            if run.pod.metadata.finalizers and run.pod.status.phase not in FINISHED:
                # The pod stays for its finalizers, so its final status is reported.
                run.terminate(now_ns)
                return Step("report", run)
            return Step("remove", run)
        was_pending = run.phase == "Pending"
        if was_pending and run.start_due_ns <= now_ns and (ports := host_ports(run.pod)):
            used = self._ports.setdefault(run.pod.spec.node_name, {})
            if ports_conflict(ports, {port for each in used.values() for port in each}):
                run.fail("NodePorts", _PORTS_IN_USE, now_ns)
                return Step("report", run)
            used[run.uid] = ports
        run.advance(now_ns)
        return Step("report", run) if needs_report(run, now_ns) else None

    def done(self, step: Step, now_ns: int, *, failed: bool, is_unchanged: bool = False) -> None:
        """Finish a step. After a failed step, only a newer version of the pod is tried again.

        A report that left the pod unchanged is not repeated before the pod's next step: the pod may
        come from a file, with a status that reports cannot correct.
        """
        uid = step.run.uid
        self._in_flight.discard(uid)
        if step.kind == "report" and not failed and uid in self._runs:
            self._plan(step.run, now_ns, is_reported=is_unchanged)

    def next_due_ns(self) -> int | None:
        due = self._due.peek()
        return None if due is None else due.due_ns
