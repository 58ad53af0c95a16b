"""Planted bugs that the net once let through, and others beside them."""

from __future__ import annotations

from kubesched.foundation.client.http_api import HttpApi
from kubesched.framework import NodeInfo, pod_status_writer
from kubesched.framework.engine.domain_counts import Domains
from kubesched.framework.engine.node_table import NodeTable
from kubesched.framework.events import ClusterEvent
from kubesched.scheduler import scheduler
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.backend.queue.backoff_queue import BackoffQueue
from kubesched.scheduler.backend.queue.in_flight import InFlight
from kubesched.scheduler.backend.queue.requeue_decision import RequeueDecisions
from kubesched.scheduler.backend.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.cycles import scheduling_cycle
from kubesched.scheduler.cycles.binding_cycle import BindingCycle
from kubesched.scheduler.cycles.extender_attempt import ExtenderAttempt
from kubesched.scheduler.cycles.failure import FailureHandler
from kubesched.scheduler.cycles.scheduling_cycle import SchedulingCycle
from kubesched.scheduler.events.event_handlers import EventHandlers
from kubesched.scheduler.plugins.default_preemption.evaluator import Evaluator
from kubesched.scheduler.plugins.default_preemption.eviction import Evictions
from kubesched.scheduler.plugins.inter_pod_affinity.filtering import RequiredTerms
from kubesched.scheduler.plugins.inter_pod_affinity.hints import AffinityHints
from kubesched.scheduler.plugins.node_ports import NodePorts
from kubesched.scheduler.plugins.node_resources_fit import filtering as fit_filtering
from kubesched.scheduler.plugins.pod_topology_spread.filtering import _Standing
from kubesched.scheduler.plugins.pod_topology_spread.hints import SpreadHints
from kubesched.scheduler.pod_groups import group_cycle
from kubesched.scheduler.runtime.answer_cache import AnswerCache
from kubesched.scheduler.runtime.waiting_pods import PodInPreBind, WaitingPodEntry
from kubesched.scheduler.scheduler import Scheduler
from tests.fault_injection.planting import Patch, edited, skip, yes

__all__ = ["LATE"]

_no_skip = edited(
    scheduling_cycle, "skip_reason", "if pod.metadata.deletion_timestamp is not None:", "if False:"
)[2]

LATE: dict[str, tuple[Patch, ...]] = {
    # Answers that are kept
    "kept answers outlive an object that they depend on": (
        edited(
            AnswerCache,
            "_valid_filters",
            "objects = self._objects.of(filters.kinds)",
            "objects = max(entry.filter_objects, 0)",
        ),
    ),
    "kept answers outlive the version of a plugin": (
        edited(AnswerCache, "_find", "elif entry.plugin_versions != versions:", "elif False:"),
    ),
    "a changed node is one whose pods changed": (
        edited(NodeTable, "write_node", "self.node_version += 1", "pass"),
    ),
    # The queue
    "of several events during an attempt only the last counts": (
        edited(InFlight, "events_since_pop", "- self._dropped :]", "- self._dropped :][-1:]"),
    ),
    "events during an attempt count up to the first that does not help": (
        edited(
            RequeueDecisions,
            "replay",
            "if strategy is Strategy.IMMEDIATELY:",
            "if strategy is not Strategy.AFTER_BACKOFF:",
        ),
    ),
    "events are kept for attempts only if others wait for them": (
        edited(
            SchedulingQueue,
            "move_all",
            "self._in_flight.record(event, old, new)",
            "if candidates:\n        self._in_flight.record(event, old, new)",
        ),
    ),
    "nobody is told that pods are ready": (
        edited(SchedulingQueue, "move_all", "if moved:", "if False:"),
    ),
    "a pod that waits its turn stays as it was": (
        edited(
            SchedulingQueue,
            "update",
            "self._replace_pod(queued, old, new)\n            heap.update(queued)",
            "pass",
        ),
    ),
    "of a change in two ways only the first counts": (
        edited(
            SchedulingQueue,
            "_requeue_updated",
            "for event in pod_update_events(old, new):",
            "for event in pod_update_events(old, new)[:1]:",
        ),
    ),
    "errors in a row are never over": (
        edited(
            SchedulingQueue,
            "add_unschedulable_if_not_present",
            "queued.consecutive_errors_count = 0",
            "pass",
        ),
    ),
    "a backoff is reckoned once": (
        edited(
            SchedulingQueue,
            "add_unschedulable_if_not_present",
            "queued.backoff_expiration_ns = None",
            "pass",
        ),
    ),
    "a backoff begins with the first failure": (
        edited(
            SchedulingQueue,
            "add_unschedulable_if_not_present",
            "queued.timestamp_ns = now_ns",
            "pass",
        ),
    ),
    "whose attempt ended in an error is never tried again": (
        edited(
            BackoffQueue,
            "pop_completed",
            "for heap in (self.rejected, self.errored):",
            "for heap in (self.rejected,):",
        ),
    ),
    "one kind of update is taken for another": (
        edited(
            ClusterEvent,
            "matches",
            "and int(incoming.action) <= int(self.action)",
            "and incoming.action == self.action",
        ),
    ),
    # Hints
    "NodePorts sees no use in a pod that goes": ((NodePorts, "_pod_deleted", skip),),
    "InterPodAffinity sees no use in other labels": (
        edited(
            AffinityHints,
            "after_pod_change",
            "or (_matches_all(apart, before) and not _matches_all(apart, after))",
            "",
        ),
    ),
    "InterPodAffinity does not see who wanted to be alone": (
        edited(
            AffinityHints,
            "after_pod_change",
            "or _matches_all(self._parsed(before).required_anti_affinity_terms, pod)",
            "",
        ),
    ),
    "InterPodAffinity sees no use in other labels of a node": (
        edited(
            AffinityHints,
            "after_node_change",
            "labels_before = before.metadata.labels",
            "return queue_if(False)",
        ),
    ),
    "PodTopologySpread sees no use in a node that goes": (
        edited(
            SpreadHints,
            "after_node_change",
            "return queue_if(matched or matches)",
            "return QueueingHint.SKIP",
        ),
    ),
    "PodTopologySpread sees no use in other labels of a node": (
        edited(
            SpreadHints,
            "after_node_change",
            "labels_before, labels = before.metadata.labels, after.metadata.labels",
            "return QueueingHint.SKIP",
        ),
    ),
    "PodTopologySpread sees no use in other labels of a pod": (
        edited(
            SpreadHints,
            "after_pod_change",
            "_counts_differently(before, after, constraints)",
            "False",
        ),
    ),
    # Decisions
    "one part of a thousand too much": (
        edited(
            fit_filtering,
            "_has_room",
            "taken.milli_cpu <= there_is.milli_cpu - cpu",
            "taken.milli_cpu <= there_is.milli_cpu - cpu + 1",
        ),
    ),
    "one pod too many": (
        edited(
            fit_filtering,
            "_has_room",
            "len(node.pods) < node.allowed_pod_number",
            "len(node.pods) <= node.allowed_pod_number",
        ),
    ),
    "what is full now is full for ever": (
        edited(
            fit_filtering,
            "fit_status",
            "unresolvable |= amount > there_is",
            "unresolvable = True",
        ),
    ),
    "the first of its kind needs no kind": (
        edited(
            RequiredTerms,
            "_is_first_of_its_kind",
            "self.affinity.is_empty and self.satisfies_itself",
            "self.affinity.is_empty",
        ),
    ),
    "who wants to be alone is not asked about one node": (
        edited(RequiredTerms, "verdict", "if self.existing.any_on(node):", "if False:"),
    ),
    "who wants to be alone is not asked about many nodes": (
        edited(
            RequiredTerms, "verdicts", "existing = _any_on(self.existing, nodes)", "existing = None"
        ),
    ),
    "a newcomer does not count in topology spread": (
        edited(
            _Standing,
            "__init__",
            "- constraint.selector.matches(pod.metadata.labels)",
            "- 0",
        ),
    ),
    "racks are where they were": (edited(Domains, "refresh", "seen != self._seen", "False"),),
    # The cache
    "who wanted to be alone wants it still when it is gone": (
        edited(NodeInfo, "remove_pod", "if removed.required_anti_affinity_terms:", "if False:"),
    ),
    "a bound pod is assumed for ever": (
        edited(Cache, "add_pod", "self._assumed.discard(uid)", "pass"),
    ),
    "who is bound can be forgotten": (
        edited(Cache, "forget_pod", "if uid not in self._assumed:", "if False:"),
    ),
    # From a decision to a binding
    "who is on its way out is tried": (
        (scheduler, "skip_reason", _no_skip),
        (group_cycle, "skip_reason", _no_skip),
    ),
    "what Permit waited for in vain is bound": (
        edited(
            BindingCycle,
            "_bind",
            "if status.is_rejected:\n            return _one_node_rejection(node_name, status)\n"
            "        if not status.is_success:\n            return status",
            "pass",
        ),
    ),
    "what Reserve refuses is bound": (
        edited(
            SchedulingCycle,
            "place",
            "status = binding.run_reserve(state, pod, node_name)",
            "binding.run_reserve(state, pod, node_name)\n    status = SUCCESS",
        ),
    ),
    "what Permit refuses is bound": (
        edited(
            SchedulingCycle,
            "place",
            "status = binding.run_permit(state, pod, node_name)",
            "status = binding.run_permit(state, pod, node_name)\n"
            "        if status.code is not Code.WAIT:\n            status = SUCCESS",
        ),
    ),
    "who waits does not hear that a binding failed": (
        edited(BindingCycle, "_fail", "if not status.is_rejected and is_forgotten:", "if False:"),
    ),
    "who waits does not hear that a pod was refused in the end": (
        edited(BindingCycle, "_fail", "if status.is_rejected and is_forgotten:", "if False:"),
    ),
    "who waits does not hear that a pod went before it was bound": (
        edited(
            EventHandlers,
            "_delete_assumed",
            "self._announce(ASSIGNED_POD_DELETE, assumed, None)",
            "pass",
        ),
    ),
    "pods of all profiles are placed by the first": (
        edited(
            Scheduler,
            "schedule_one",
            "framework = self.profiles.get(pod.spec.scheduler_name)",
            "framework = next(iter(self.profiles.values()))",
        ),
    ),
    "whose attempt failed is put back though it has a node": (
        edited(
            FailureHandler,
            "_requeue",
            "if current is None or current.spec.node_name:",
            "if current is None:",
        ),
    ),
    "a condition that was not written once is not written": (
        edited(
            pod_status_writer,
            "send_status_patch",
            "if attempt == _TRIES or (exc.reason not in _RETRIED_REASONS and exc.code != 0):",
            "if True:",
        ),
    ),
    # Extenders
    "who changes while an extender thinks is placed": (
        edited(
            ExtenderAttempt,
            "_check_pod",
            "if current is not pod and _differ(current, pod):",
            "if False:",
        ),
    ),
    "who goes while an extender thinks is placed": (
        edited(
            ExtenderAttempt,
            "_check_pod",
            "if current is None:\n        raise PodGoneError",
            "if current is None:\n        return",
        ),
    ),
    # Preemption
    "evictions that fail are not tried again": (
        edited(
            Evictions,
            "_carry_out",
            "if outcome not in _ANNOUNCED and not delay_ns:",
            "if False:",
            "if delay_ns:",
            "if False:",
        ),
    ),
    "who makes room does not wait until it is made": (
        edited(Evaluator, "_ineligible", "return VICTIM_TERMINATING", 'return ""'),
    ),
    "who is evicted in PreBind goes on": (
        edited(PodInPreBind, "cancel", "self._task.cancel()", "pass"),
    ),
    "who is evicted on permit goes on": ((WaitingPodEntry, "preempt", yes),),
    "who goes while it waits on permit waits on": (
        edited(EventHandlers, "_stop_waiting", 'waiting.reject("", why)', "True"),
    ),
    # Leading
    "the fence is asked once": (
        edited(
            HttpApi,
            "_send_fenced",
            "before_send=lambda: fence.check(ends_ns),",
            "before_send=lambda: max(1, ends_ns - self._clock.monotonic_ns()),",
        ),
    ),
}
