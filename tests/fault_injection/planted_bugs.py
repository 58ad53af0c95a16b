"""Bugs that are planted on purpose: if the net lets one through, it has a hole.

    python -m tests.fault_injection --planted

Each is a small change to the real code: a method that does nothing, or a line that is another one.
For each the first seed that notices it is printed; exit 1 if one is not noticed.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.strategies import pod_strategy as pod_rules
from kubesched.cluster.apiserver.store import object_store
from kubesched.cluster.apiserver.store.persistence import DataFile
from kubesched.foundation.client import http_api
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.informer_store import ObjectStore
from kubesched.foundation.client.leader_election import LeaderElector
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.components import BackgroundTasks
from kubesched.framework import NodeInfo
from kubesched.framework.engine.node_table import ChangeLog
from kubesched.framework.pod_status_writer import PodStatusWriter
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue.backoff_queue import BackoffQueue
from kubesched.scheduler.backend.queue.in_flight import InFlight
from kubesched.scheduler.backend.queue.nominator import Nominator
from kubesched.scheduler.backend.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.backend.snapshot import ClusterSnapshot
from kubesched.scheduler.cycles.binding_cycle import BindingCycle
from kubesched.scheduler.cycles.failure import FailureHandler
from kubesched.scheduler.events.event_handlers import EventHandlers
from kubesched.scheduler.plugins.default_preemption import eviction
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import (
    AllocatedDevices,
    InFlightClaims,
)
from kubesched.scheduler.plugins.inter_pod_affinity.filtering import RequiredTerms
from kubesched.scheduler.plugins.node_affinity import NodeAffinity
from kubesched.scheduler.plugins.node_ports import NodePorts
from kubesched.scheduler.plugins.node_resources_fit import NodeResourcesFit
from kubesched.scheduler.plugins.node_resources_fit import hints as fit_hints
from kubesched.scheduler.plugins.node_unschedulable import NodeUnschedulable
from kubesched.scheduler.plugins.pod_topology_spread.filtering import _Spread
from kubesched.scheduler.plugins.taint_toleration import TaintToleration
from kubesched.scheduler.plugins.volume_binding import column_volume_finder
from kubesched.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.scheduler.plugins.volume_binding.volume_finder import VolumeFinder
from kubesched.scheduler.runtime.waiting_pods import WaitingPods
from tests.fault_injection.late_planted_bugs import LATE
from tests.fault_injection.more_planted_bugs import MORE
from tests.fault_injection.other_planted_bugs import OTHERS
from tests.fault_injection.plan import make_plan
from tests.fault_injection.planting import (
    Patch,
    edited,
    no,
    no_filter,
    nothing,
    passes_all,
    planted,
    skip,
    sometimes,
    success,
    yes,
    zero,
)
from tests.fault_injection.run import run_plan

__all__ = ["PLANTED", "caught_by"]

# Name -> what is changed.
PLANTED: dict[str, tuple[Patch, ...]] = {
    # The queue
    "a lost wake-up: events wake nobody": (
        (SchedulingQueue, "move_all", zero),
        (SchedulingQueue, "flush_unschedulable", zero),
    ),
    "events that arrive during an attempt are missed": ((InFlight, "record", nothing),),
    "backoff never ends": ((SchedulingQueue, "flush_backoff", zero),),
    "a failed pod is not put back": ((FailureHandler, "_requeue", nothing),),
    "in-flight pods are never done": ((SchedulingQueue, "done", nothing),),
    "deleted pods stay in the queue": ((SchedulingQueue, "delete", nothing),),
    "changes of waiting pods are missed": ((SchedulingQueue, "update", nothing),),
    "a wrong hint: room that is given back helps nobody": ((fit_hints, "after_pod_change", skip),),
    "a wrong hint: taints that go away help nobody": ((TaintToleration, "_node_changed", skip),),
    "a nomination outlives its pod": ((Nominator, "delete_nominated_pod", nothing),),
    "the least important pod is tried first": (
        edited(
            SchedulingQueue,
            "_pop_first",
            "queued = self._active.pop_unless(busy)",
            "queued = self._active.pop_unless(busy) if len(self._active) < 2 else "
            "self._active.delete(min(self._active, key=lambda q: q.pod.spec.priority or 0).key)",
        ),
    ),
    # The cache, the table and the snapshot
    "a leaked assumption": ((Cache, "forget_pod", nothing),),
    "removals of pods are missed now and then": (sometimes(EventHandlers, "delete_pod", 3),),
    "new pods are missed now and then": (sometimes(EventHandlers, "add_pod", 7),),
    "changes of pods are missed now and then": (sometimes(EventHandlers, "update_pod", 4),),
    "new nodes are missed now and then": (sometimes(EventHandlers, "add_node", 3),),
    "removals of nodes are missed": ((EventHandlers, "delete_node", nothing),),
    "a remade pod is taken for the one before it": (
        edited(
            EventHandlers,
            "update_pod",
            "old.metadata.uid != new.metadata.uid",
            "False",
        ),
    ),
    "a stale row: not written now and then": (sometimes(Cache, "_write_row", 5),),
    "a stale row: changes of a node are not seen": (
        edited(
            Cache,
            "_write_row",
            "self._written_nodes.get(name) is not node",
            "name not in self._written_nodes",
        ),
    ),
    "a removed pod stays on its row": ((ClusterSnapshot, "hide_pod", nothing),),
    "other labels of a pod are not noticed": ((ClusterSnapshot, "relabel_pod", nothing),),
    "ports of pods that are gone stay taken": (
        edited(NodeInfo, "remove_pod", "self.used_ports =", "_unused ="),
    ),
    "cached answers are not refreshed now and then": (sometimes(ChangeLog, "append", 3),),
    # Decisions
    "ports are given twice": no_filter(NodePorts),
    "nodes are filled without end": no_filter(NodeResourcesFit),
    "taints are overlooked": no_filter(TaintToleration),
    "node selectors are overlooked": (
        *no_filter(NodeAffinity),
        (NodeAffinity, "pre_filter", success),
    ),
    "cordons are overlooked": (
        *no_filter(NodeUnschedulable),
        *no_filter(TaintToleration),
    ),
    "an off-by-one in topology spread": (
        edited(
            _Spread,
            "limit",
            "self._limit = minimum + standing.slack",
            "self._limit = minimum + standing.slack + 1",
        ),
    ),
    "pods that want to be apart are together": (
        (RequiredTerms, "verdict", success),
        (RequiredTerms, "verdicts", passes_all),
    ),
    # Binding
    "a double bind: a second binding is let through": (
        (
            object_store,
            "bind",
            edited(pod_rules, "bind", 'if taken := spec.get("nodeName"):', "if taken := None:")[2],
        ),
    ),
    "any answer to a binding is a good one": ((http_api, "_check_is_object", nothing),),
    "who waits on permit is never forgotten": ((WaitingPods, "remove", nothing),),
    "room is not given back when a binding fails": (
        edited(BindingCycle, "_fail", "self._cache.forget_pod(pod)", "pass"),
    ),
    # Leading
    "no fence around the lease": ((LeaseFence, "_age_ns", zero),),
    "a fence that closes too late": (
        edited(
            LeaseFence,
            "__init__",
            "self._begins_ns = renew_deadline_ns",
            "self._begins_ns = 2 * lease_duration_ns",
        ),
    ),
    "the lease is released while writes are under way": ((LeaseFence, "settled", nothing),),
    "a valid lease is taken over": (
        edited(
            LeaderElector,
            "_try",
            "if holder and not view.is_ours and view.is_valid(now_ns):",
            "if holder and not view.is_ours and view.is_valid(now_ns) and view is None:",
        ),
    ),
    # Watches
    "what went away during a gap stays": (
        edited(ObjectStore, "replace", "return gone + changes", "return changes"),
    ),
    "old events are taken in again": (
        edited(
            SharedInformer,
            "_take_in",
            "if is_older(event.resource_version, self._version):",
            "if False:",
        ),
    ),
    "a watch is resumed too late": (
        edited(
            SharedInformer,
            "_open_watch",
            "resource_version=self._version,",
            'resource_version=str(int(self._version or "0") + 3) if self._version else "",',
        ),
    ),
    # Preemption
    "victims go although nobody needs their room": (
        (eviction, "is_awaited", yes),
        (eviction._Preemption, "is_needed", yes),
    ),
    "victims are not told why": (
        edited(Evictions, "_delete", "await self._writer().write(current, mark, None)", "pass"),
    ),
    # Volumes and devices
    "a volume stays assumed": ((AssumeCache, "restore", nothing),),
    "a disk is used from another machine": (
        (VolumeFinder, "_bound_problem", zero),
        (column_volume_finder, "required_nodes", nothing),
    ),
    "a device is in two claims": ((AllocatedDevices, "take", nothing),),
    "devices are never given back": ((AllocatedDevices, "give_back", nothing),),
    "claims stay in flight": ((InFlightClaims, "remove", no),),
    # What is said and counted
    "a metric is not counted now and then": (sometimes(SchedulerMetrics, "observe_attempt", 3),),
    "a gauge is not counted down": (
        edited(
            BackoffQueue,
            "delete",
            "deleted = self.rejected.delete(key) or self.errored.delete(key)\n"
            "    if deleted is not None:\n        self._pending.dec()",
            "deleted = self.rejected.delete(key) or self.errored.delete(key)",
        ),
    ),
    "pods are said to be scheduled before they are": (
        edited(
            BindingCycle,
            "_fail",
            "now_ns = self._clock.now_ns()",
            "now_ns = self._clock.now_ns()\n"
            "    placement.framework.recorder.event(\n"
            '        pod, "Normal", "Scheduled", "Binding",\n'
            '        "Successfully assigned default/" + pod.metadata.name + " to nowhere",\n'
            "    )",
        ),
    ),
    "a condition is written once and never again": (
        edited(
            PodStatusWriter,
            "write",
            "if patch is None:",
            "if patch is None or (condition is not None and pod.status.conditions):",
        ),
    ),
    # Tasks and files
    "work in the background is not waited for": (
        edited(BackgroundTasks, "spawn", "self._tasks[task] = work", "pass"),
        (BackgroundTasks, "_ended", nothing),
    ),
    "what was deleted is back after a restart": (
        edited(DataFile, "write", 'if change.type == "DELETED":', 'if change.type == "GONE":'),
    ),
    **MORE,
    **OTHERS,
    **LATE,
}


def caught_by(name: str, seeds: int, first: int = 0) -> tuple[int, str] | None:
    """The first seed that notices the bug, and what it says."""
    for seed in range(first, first + seeds):
        with planted(PLANTED[name]):
            try:
                violations = run_plan(make_plan(seed)).violations
            except Exception as error:
                return seed, f"the run fails: {error!r}"
        if violations:
            return seed, violations[0]
    return None
