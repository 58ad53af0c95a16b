"""Planted bugs in parts that the others do not touch: engine, answers, hand-overs, refusals."""

from __future__ import annotations

from kubesched.api import pod_status_writer
from kubesched.backend import cache as cache_module
from kubesched.backend.cache import Cache
from kubesched.backend.image_table import ImageTable
from kubesched.backend.queue.backoff import Backoff
from kubesched.backend.queue.in_flight import InFlight
from kubesched.backend.queue.nominator import Nominator
from kubesched.backend.queue.requeue_decision import RequeueDecisions
from kubesched.backend.queue.scheduling_queue import SchedulingQueue
from kubesched.backend.queue.unschedulable_pods import UnschedulablePods
from kubesched.backend.snapshot import ClusterSnapshot
from kubesched.client.event_recorder import EventBroadcaster
from kubesched.client.http_api import HttpApi
from kubesched.client.informer import Informer
from kubesched.client.informer_store import ObjectStore
from kubesched.client.leader_election import LeaderElector
from kubesched.client.lease_fence import LeaseFence
from kubesched.client.lease_view import LeaseView
from kubesched.engine.domain_counts import DomainCounts, RowCounts
from kubesched.engine.node_table import LabelColumn, NodeTable
from kubesched.engine.total_index import TotalIndex
from kubesched.framework import NodeInfo
from kubesched.framework.claim_cache import ClaimCache
from kubesched.framework.pod_index import PodIndex
from kubesched.plugins.default_preemption.evaluator import Evaluator
from kubesched.plugins.default_preemption.eviction import Evictions, _Preemption
from kubesched.plugins.default_preemption.known_rows import KnownRows
from kubesched.plugins.dynamic_resources.allocated import AllocatedDevices, PoolUsage
from kubesched.plugins.dynamic_resources.claim_writing import ClaimWriter
from kubesched.plugins.node_resources_fit import filtering as fit_filtering
from kubesched.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.plugins.volume_binding.binding import Binder
from kubesched.plugins.volume_restrictions import VolumeRestrictions
from kubesched.runtime.answer_cache import AnswerCache
from kubesched.runtime.binding_points import BindingPoints
from kubesched.runtime.cached_answers import CachedFilters
from kubesched.runtime.nominated_totals import NominatedPods
from kubesched.runtime.object_versions import ObjectVersions
from kubesched.runtime.waiting_pods import PodInPreBind, WaitingPodEntry
from kubesched.scheduler import failure, scheduling_cycle
from kubesched.scheduler import scheduler as scheduler_module
from kubesched.scheduler.binding_cycle import BindingCycle
from kubesched.scheduler.event_handlers import EventHandlers
from kubesched.scheduler.extender_attempt import ExtenderAttempt
from kubesched.scheduler.extender_cycle import _Review
from kubesched.scheduler.extender_tasks import ExtenderTasks
from kubesched.scheduler.extenders.chain import Extenders
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.scheduling_cycle import SchedulingCycle
from kubesched.util.components import BackgroundTasks
from tests.torture.planting import Patch, edited, no, no_filter, nothing, sometimes, yes, zero

__all__ = ["OTHERS"]

OTHERS: dict[str, tuple[Patch, ...]] = {
    # The queue
    "backoff is over at once": ((Backoff, "duration_ns", zero),),
    "the first event of an attempt is missed": (
        edited(InFlight, "events_since_pop", "- self._dropped :]", "- self._dropped + 1 :]"),
    ),
    "of many events only the last is looked at": (
        edited(RequeueDecisions, "replay", "for seen in events:", "for seen in events[-1:]:"),
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
    "a nomination follows its pod nowhere": ((Nominator, "update_nominated_pod", nothing),),
    "no nomination is noted": ((Nominator, "add_nominated_pod", nothing),),
    "changes of nominations are not noted": ((Nominator, "_note", nothing),),
    # The cache and the engine
    "a node that comes back is not written": ((Cache, "_forget_written", nothing),),
    "images of nodes that are gone are counted": ((ImageTable, "remove", nothing),),
    "a label that changes is not written": (
        edited(LabelColumn, "write", "if number != before:", "if before < 0:"),
    ),
    "a node that goes away stays in view": (
        edited(ClusterSnapshot, "hide_node", "self._view = None", "self._view = self._view"),
        edited(NodeTable, "remove_row", "self._live_rows = None", "pass"),
    ),
    "pods on their way out count": (
        edited(
            cache_module,
            "_look_different",
            "(before.deletion_timestamp is None) != (after.deletion_timestamp is None)",
            "False",
        ),
    ),
    "claims of pods that are gone are in use": (
        edited(NodeInfo, "remove_pod", "self._count_claims(claims, -1)", "pass"),
    ),
    "who wants to be alone is forgotten with another": (
        edited(
            NodeInfo,
            "remove_pod",
            "self.pods_with_required_anti_affinity = _without(\n"
            "            self.pods_with_required_anti_affinity, removed\n        )",
            "self.pods_with_required_anti_affinity = ()",
        ),
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
    "answers outlive what they were about": ((ObjectVersions, "changed", nothing),),
    "answers outlive a version of a plugin": (
        edited(AnswerCache, "_find", "elif entry.plugin_versions != versions:", "elif False:"),
    ),
    "one filter's answers are skipped for all": (
        edited(
            AnswerCache,
            "_valid_filters",
            "if filters is None or skipped != filters.skipped:",
            "if filters is None:",
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
    "who waited on permit in vain is bound": (
        edited(
            BindingCycle,
            "_bind",
            "if status.is_rejected:\n            return _one_node_rejection(node_name, status)\n"
            "        if not status.is_success:\n            return status",
            "pass",
        ),
    ),
    "a pod that is bound is in flight for ever": (
        edited(BindingCycle, "_bind", "self._queue.done(pod.metadata.uid)", "pass"),
    ),
    "who waits does not hear that a binding failed": (
        edited(
            BindingCycle,
            "_fail",
            "if not status.is_rejected and is_forgotten:",
            "if False:",
        ),
    ),
    "who is preempted before its binding is bound": (
        (PodInPreBind, "mark_prebound", yes),
        (PodInPreBind, "cancel", yes),
    ),
    "another node is published than was chosen": (
        edited(
            BindingCycle,
            "_publish_choice",
            "await self._writer.write(pod, None, node_name)",
            'await self._writer.write(pod, None, "n0")',
        ),
    ),
    "who is on its way out is tried": (
        (
            scheduler_module,
            "skip_reason",
            edited(
                scheduling_cycle,
                "skip_reason",
                "if pod.metadata.deletion_timestamp is not None:",
                "if False:",
            )[2],
        ),
    ),
    "who is deleted while it is bound keeps its room": (
        (EventHandlers, "_delete_assumed", nothing),
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
    "followers place pods": (
        edited(Scheduler, "_until_it_begins", "if self._begins is not None:", "if False:"),
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
    "a pod that changes while an extender thinks is placed": (
        (ExtenderAttempt, "_check_pod", nothing),
    ),
    "what an extender refused is remembered for ever": (
        (ExtenderTasks, "follow", nothing),
        edited(
            ExtenderTasks, "forget", "self._context.refused.pop(gone.metadata.uid, None)", "pass"
        ),
    ),
    "extenders are not asked about victims": (
        edited(Extenders, "review_victims", "for extender in extenders:", "for extender in ():"),
    ),
    "who fits by now evicts all the same": ((_Review, "fits_now", no),),
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
    "a renewal counts from when it was answered": (
        edited(
            LeaderElector,
            "_written",
            "self.fence.renewed(*began)",
            "self.fence.renewed(self._clock.monotonic_ns(), self._clock.now_ns())",
        ),
    ),
    "the fence is asked once, and not again when the write leaves": (
        edited(
            HttpApi,
            "_send_fenced",
            "before_send=lambda: fence.check(ends_ns),",
            "before_send=lambda: limit_ns,",
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
    "only the wall clock counts for the lease": (
        edited(LeaseFence, "_age_ns", "self._clock.monotonic_ns() - self._renewed_ns,", "0,"),
    ),
    "whoever has lost the lease goes on": ((LeaseFence, "close", nothing),),
    # Watches
    "a watch that breaks is taken for whole": (
        edited(
            Informer,
            "_stream_until_lost",
            "if not is_whole:\n        return False",
            "if not is_whole:\n        return True",
        ),
    ),
    "a pod made anew during a gap is taken for the one before": (
        edited(
            ObjectStore,
            "apply",
            "gone = known if is_another else new",
            "gone = new",
        ),
    ),
    "a bookmark is not noted": (
        edited(
            Informer,
            "_take_in",
            "self._version = event.resource_version or self._version",
            'self._version = self._version if event.type == "BOOKMARK" else event.resource_version',
        ),
    ),
    "one object of a list is lost": (
        edited(
            Informer, "_fetch_pages", "return listed, page", "return listed[:-1] or listed, page"
        ),
    ),
    # Preemption
    "what was known of a node is known for ever": ((KnownRows, "catch_up", nothing),),
    "room is made again while victims go": (
        edited(Evaluator, "_ineligible", "return VICTIM_TERMINATING", 'return ""'),
    ),
    "evictions that fail are not tried again": ((Evictions, "_try_again", nothing),),
    "lower nominations are not cleared": ((Evictions, "_clear_lower_nominations", yes),),
    "a preemptor is preempting for ever": (
        edited(Evictions, "_carry_out", "self._preempting.discard(preemption.uid)", "pass"),
    ),
    "whoever waits elsewhere has its victims evicted": (
        edited(
            _Preemption,
            "is_needed",
            "if self._was_nominated and not self._is_nominated:",
            "if False:",
        ),
    ),
    # Volumes and devices
    "a claim for one pod is given to two": no_filter(VolumeRestrictions),
    "a pod is bound before its volumes are": ((Binder, "_wait", nothing),),
    "an assumed volume is what an event says": (
        edited(
            AssumeCache,
            "_follow",
            "if stored is None or _version(stored) != _version(assumed):",
            "if False:",
        ),
    ),
    "volumes that could not be written stay assumed": (
        edited(Binder, "_write", "self._restore(left, reservation.claims[len(written) :])", "pass"),
        (Binder, "give_back", nothing),
    ),
    "a claim that is written is not taken for the truth": ((ClaimCache, "assume", nothing),),
    "an echo of a claim is older than what was written": (
        edited(ClaimCache, "watched", "if not _is_news(new, before):", "if False:"),
    ),
    "devices of a claim that has others now stay taken": (
        edited(
            AllocatedDevices,
            "claim_changed",
            "if before is not None:\n",
            "if before is not None and after is None:\n",
        ),
    ),
    "a device in flight is given back with another": (
        edited(PoolUsage, "give_back", "_count_down(self._flying, device)", "self._flying.clear()"),
    ),
    "a write whose answer was lost is taken for refused": (
        edited(ClaimWriter, "bind", "is_settled = not exc.is_outcome_unknown", "is_settled = True"),
    ),
    "who was bound after all loses its claim": ((ClaimWriter, "is_bound", no),),
    # What is said and counted
    "a pod is told of other conditions than its own": (
        edited(
            pod_status_writer,
            "_condition_change",
            '"conditions": [patch],',
            '"conditions": [{"$patch": "replace"}, patch],',
        ),
    ),
    "an event is sent twice": (
        edited(
            EventBroadcaster,
            "record",
            "self._queue.put(sending, now_ns)",
            "self._queue.put(sending, now_ns)\n        if not sending.is_series:\n"
            "            again = self._cache.add(key, name + 'b', note, now_ns)\n"
            "            self._queue.put(again, now_ns)",
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
