"""Planted bugs in parts that the others do not touch: engine, answers, hand-overs, refusals."""

from __future__ import annotations

from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.leader_election import LeaderElector
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.client.lease_view import LeaseView
from kubesched.foundation.util.components import BackgroundTasks
from kubesched.framework import NodeInfo, pod_status_writer
from kubesched.framework.engine.domain_counts import DomainCounts, RowCounts
from kubesched.framework.engine.node_table import LabelColumn
from kubesched.framework.engine.total_index import TotalIndex
from kubesched.framework.pod_index import PodIndex
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.image_table import ImageTable
from kubesched.scheduler.backend.queue.backoff import Backoff
from kubesched.scheduler.backend.queue.in_flight import InFlight
from kubesched.scheduler.backend.queue.nominator import Nominator
from kubesched.scheduler.backend.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.backend.queue.unschedulable_pods import UnschedulablePods
from kubesched.scheduler.cycles import failure
from kubesched.scheduler.cycles.binding_cycle import BindingCycle
from kubesched.scheduler.cycles.extender_attempt import ExtenderAttempt
from kubesched.scheduler.cycles.extender_tasks import ExtenderTasks
from kubesched.scheduler.cycles.failure import FailureHandler
from kubesched.scheduler.cycles.scheduling_cycle import SchedulingCycle
from kubesched.scheduler.events.event_handlers import EventHandlers
from kubesched.scheduler.extenders.chain import Extenders
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions
from kubesched.scheduler.plugins.node_resources_fit import filtering as fit_filtering
from kubesched.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.scheduler.plugins.volume_binding.volume_binder import VolumeBinder
from kubesched.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kubesched.scheduler.runtime.binding_points import BindingPoints
from kubesched.scheduler.runtime.cached_answers import CachedFilters
from kubesched.scheduler.runtime.nominated_totals import NominatedPods
from kubesched.scheduler.runtime.waiting_pods import WaitingPodEntry
from tests.fault_injection.planting import Patch, edited, no, no_filter, nothing, sometimes, zero

__all__ = ["OTHERS"]

OTHERS: dict[str, tuple[Patch, ...]] = {
    # The queue
    "backoff is over at once": ((Backoff, "duration_ns", zero),),
    "the first event of an attempt is missed": (
        edited(InFlight, "events_since_pop", "- self._dropped :]", "- self._dropped + 1 :]"),
    ),
    "who is activated is lost from its backoff": (
        edited(
            SchedulingQueue,
            "_activate",
            "if queued is not None:\n        return self._move_to_active(queued, label, now_ns, "
            "is_checked=True)",
            "if queued is None:\n        return False",
        ),
    ),
    "who has waited too long is lost": (
        edited(UnschedulablePods, "take_older_than", "taken.append(oldest)", "taken = [oldest]"),
    ),
    "a changed pod is looked at as it was": (
        edited(SchedulingQueue, "_replace_pod", "queued.pod_info = PodInfo(new)", "pass"),
    ),
    "ready pods wait until something else happens": (
        edited(SchedulingQueue, "flush_backoff", "if completed:", "if False:"),
    ),
    "no nomination is noted": ((Nominator, "add_nominated_pod", nothing),),
    "changes of nominations are not noted": ((Nominator, "_note", nothing),),
    # The cache and the engine
    "a node that comes back is not written": ((Cache, "_forget_written", nothing),),
    "images of nodes that are gone are counted": ((ImageTable, "remove", nothing),),
    "a label that changes is not written": (
        edited(LabelColumn, "write", "if number != before:", "if before < 0:"),
    ),
    "claims of pods that are gone are in use": (
        edited(NodeInfo, "remove_pod", "self._count_claims(claims, -1)", "pass"),
    ),
    "what is asked for without a number is not counted": (
        edited(NodeInfo, "add_pod", "cpu, memory = pod_info.nonzero_requested", "cpu = memory = 0"),
    ),
    "pods of a domain are counted once and never again": ((DomainCounts, "add", nothing),),
    "domains are drawn once and never again": (
        edited(RowCounts, "by_domain", "elif counts.version != version:", "elif False:"),
    ),
    "groups of pods lose one now and then": (sometimes(PodIndex, "add", 6),),
    "room for the last pod is not given": (
        edited(
            fit_filtering, "_has_room", "< node.allowed_pod_number", "< node.allowed_pod_number - 1"
        ),
        edited(fit_filtering, "fit_status", "pods + 1 > allowed_pods", "pods + 2 > allowed_pods"),
        edited(
            fit_filtering,
            "find_rejections",
            "nodes.pod_count >= nodes.allowed_pods",
            "nodes.pod_count + 1 >= nodes.allowed_pods",
        ),
    ),
    # Answers that are kept
    "the best node stays the best": ((TotalIndex, "discard", nothing),),
    "changes of nodes are taken for changes of pods": (
        edited(
            CachedFilters,
            "to_call",
            "return self.reading_pods if only_pods else self.plugins",
            "return self.reading_pods",
        ),
    ),
    "what nominated pods ask for is not added up anew": (
        edited(NominatedPods, "_replace", "self._totals.clear()", "pass"),
    ),
    # From a decision to a binding
    "what a plugin refuses to reserve stays assumed": ((SchedulingCycle, "undo", nothing),),
    "only the first plugin takes back what it reserved": (
        edited(
            BindingPoints,
            "run_unreserve",
            "for plugin in reversed(self._reserve):",
            "for plugin in self._reserve[:1]:",
        ),
    ),
    "who waits on permit waits for ever": (
        edited(WaitingPodEntry, "__init__", "timeout_ns / SECOND,", "timeout_ns,"),
    ),
    "a pod that is bound is in flight for ever": (
        edited(BindingCycle, "_bind", "self._queue.done(pod.metadata.uid)", "pass"),
    ),
    "another node is published than was chosen": (
        edited(
            BindingCycle,
            "_publish_choice",
            "await self._writer.write(pod, None, node_name)",
            'await self._writer.write(pod, None, "n0")',
        ),
    ),
    "who has a node by now is tried on": (
        edited(EventHandlers, "update_pod", "self._queue.delete(old)", "pass"),
    ),
    "a pod that goes unseen stays on its node": (
        edited(
            EventHandlers,
            "delete_pod",
            "if pod.spec.node_name or is_tombstone:",
            "if pod.spec.node_name and not is_tombstone:",
        ),
    ),
    "a pod made anew is put back as the one before": ((failure, "_is_another", no),),
    "a pod that failed forgets who rejected it": (
        edited(
            FailureHandler,
            "handle",
            "queued.unschedulable_plugins |= diagnosis.unschedulable_plugins",
            "pass",
        ),
    ),
    "tasks that ended are kept": ((BackgroundTasks, "_ended", nothing),),
    # Extenders
    "an extender's refusal is overheard": (
        edited(Extenders, "filter", "left = filtered.nodes", "pass"),
    ),
    "an extender stays busy": ((ExtenderTasks, "_end", nothing),),
    "what changes while an extender thinks is not looked at": ((ExtenderAttempt, "_renew", no),),
    "what an extender refused is remembered for ever": (
        (ExtenderTasks, "follow", nothing),
        edited(
            ExtenderTasks, "forget", "self._context.refused.pop(gone.metadata.uid, None)", "pass"
        ),
    ),
    "extenders are not asked about victims": (
        edited(Extenders, "review_victims", "for extender in extenders:", "for extender in ():"),
    ),
    # Leading
    "a renewal by another is not noticed": (
        edited(
            LeaseView,
            "saw",
            "self.spec, self._changed_ns = lease.spec, now_ns",
            "self.spec = lease.spec",
        ),
    ),
    "the lease of another is released": (
        edited(
            LeaderElector,
            "_release",
            "if found.spec.holder_identity != self._settings.identity:",
            "if False:",
            "if not self._view.is_ours:",
            "if False:",
        ),
    ),
    "a fence that is an hour wide": (
        edited(
            LeaseFence,
            "__init__",
            "self._ends_ns = (renew_deadline_ns + lease_duration_ns) // 2",
            "self._ends_ns = 3600 * SECOND",
        ),
        edited(
            LeaseFence,
            "may_begin",
            "self._age_ns() < self._begins_ns",
            "self._age_ns() < self._ends_ns",
        ),
    ),
    # Watches
    "one object of a list is lost": (
        edited(
            SharedInformer,
            "_fetch_pages",
            "return listed, page",
            "return listed[:-1] or listed, page",
        ),
    ),
    # Preemption
    "a preemptor is preempting for ever": (
        edited(Evictions, "_carry_out", "self._preempting.discard(preemption.uid)", "pass"),
    ),
    # Volumes and devices
    "a claim for one pod is given to two": no_filter(VolumeRestrictions),
    "a pod is bound before its volumes are": ((VolumeBinder, "_wait", nothing),),
    "an assumed volume is what an event says": (
        edited(
            AssumeCache,
            "_follow",
            "if stored is None or _version(stored) != _version(assumed):",
            "if False:",
        ),
    ),
    # What is said and counted
    "a pod is told of other conditions than its own": (
        edited(
            pod_status_writer,
            "_condition_change",
            '"conditions": [patch],',
            '"conditions": [{"$patch": "replace"}, patch],',
        ),
    ),
    "those who reject are counted up and never down": (
        edited(
            SchedulingQueue,
            "_count_rejectors",
            ".inc(delta)",
            ".inc(max(delta, 0))",
        ),
    ),
    "bindings that end are not counted down": (
        edited(BindingCycle, "run", "self._running.value -= 1", "pass"),
    ),
    "a binding that failed counts as an attempt that went well": (
        edited(
            FailureHandler,
            "handle",
            '"unschedulable" if status.is_rejected else "error",',
            '"unschedulable" if status.is_rejected else "scheduled",',
        ),
    ),
}
