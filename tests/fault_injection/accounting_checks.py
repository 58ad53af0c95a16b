"""Checks of events and metrics against the recorded actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from kubesched.cluster.apiserver import Store
from kubesched.scheduler.backend.queue.scheduling_queue import POPPED_FROM_BACKOFF
from kubesched.scheduler.backend.queue.view import Place
from kubesched.scheduler.scheduler import Scheduler
from tests.fault_injection.history_checks import HistoryChecker
from tests.fault_injection.replica import ReplicaProcess

__all__ = ["event_differences", "has_unschedulable_condition", "metric_differences"]

Json = dict[str, Any]
_JOURNAL_LENGTH = 8192
_QUEUES = {
    Place.ACTIVE: "active",
    Place.BACKOFF: "backoff",
    Place.ERROR_BACKOFF: "backoff",
    Place.UNSCHEDULABLE: "unschedulable",
    Place.GATED: "unschedulable",
}


def event_differences(history: HistoryChecker, store: Store, *, is_quiet: bool) -> Iterator[str]:
    """Return events that are wrong, and events that are missing.

    Faults may lose events, so most missing events count only in plans without faults.
    """
    scheduled: set[str] = set()
    failed: set[str] = set()
    for event in store.all("events"):
        about = event.get("regarding", {})
        uid, note, reason = about.get("uid", ""), event.get("note", ""), event.get("reason")
        if about.get("kind") != "Pod":
            continue
        if reason in ("FailedScheduling", "Scheduled") and uid in history.uids:
            profile, reporter = history.schedulers[uid], event.get("reportingController")
            if reporter != profile:
                yield f"{reporter} reports {reason} of {history.uids[uid]}, a pod of {profile}"
        if uid not in history.uids:
            yield f"an event ({reason}) about a pod that never existed"
        elif reason == "FailedScheduling":
            failed.add(uid)
        elif reason == "Scheduled":
            if uid in scheduled:
                yield f"two events report that {history.uids[uid]} is scheduled"
            scheduled.add(uid)
            node = history.node_of.get(uid)
            name = history.uids[uid]
            if note != f"Successfully assigned default/{name} to {node}":
                yield f"an event reports {note!r}, and {name} is on {node}"
    if is_quiet and scheduled != set(history.bound):
        names = sorted(history.uids[uid] for uid in scheduled ^ set(history.bound))
        yield f"bound without an event, or the other way round: {names}"
    if missing := history.bound_in_quiet_phase - scheduled:
        yield f"bound without an event: {sorted(history.uids[uid] for uid in missing)}"
    if is_quiet:
        for pod in store.all("pods"):
            if has_unschedulable_condition(pod) and pod["metadata"]["uid"] not in failed:
                yield f"pod {pod['metadata']['name']} waits, and no event reports why"


def has_unschedulable_condition(pod: Json) -> bool:
    """Whether a pod has the condition that it is unschedulable."""
    return any(
        each["type"] == "PodScheduled" and each.get("reason") == "Unschedulable"
        for each in pod.get("status", {}).get("conditions", ())
    )


def metric_differences(
    process: ReplicaProcess, history: HistoryChecker, *, is_quiet: bool
) -> Iterator[str]:
    scheduler = process.scheduler
    metrics = scheduler.services.metrics
    yield from _queue_metrics(scheduler, left=history.deleted + len(history.node_of))
    victims = metrics.preemption_victims.sum
    if history.evictions_by[process.identity] > victims:
        yield f"{history.evictions_by[process.identity]} pods were evicted, {victims} are counted"
    for update in metrics.before_collect:
        update()
    cache = scheduler.cache
    sizes = {"nodes": cache.node_count, "pods": cache.pod_count, "assumed_pods": 0}
    shown = {labels["type"]: child.value for labels, child in metrics.cache_size.children()}
    if shown != sizes:
        yield f"cache_size is {shown}, not {sizes}"
    if (running := metrics.goroutines.labels("binding").value) != 0:
        yield f"goroutines shows {running} bindings"
    held = sum(child.value for _, child in metrics.inflight_events.children())
    if held:
        yield f"inflight_events shows {held}"
    yield from _attempt_metrics(process, history, is_quiet=is_quiet)


def _queue_metrics(scheduler: Scheduler, *, left: int) -> Iterator[str]:
    """`left` is the number of pods that left the queue because they were deleted or bound."""
    metrics, queue = scheduler.services.metrics, scheduler.queue
    entered: Counter[tuple[str, str]] = Counter(
        (_QUEUES[each.place], each.cause)
        for each in queue._journal._transitions
        if each.place in _QUEUES
    )
    counted = {
        (labels["queue"], labels["event"]): int(child.value)
        for labels, child in metrics.queue_incoming_pods_total.children()
        if labels["event"] != POPPED_FROM_BACKOFF
    }
    is_whole = len(queue._journal._transitions) < _JOURNAL_LENGTH
    if is_whole and +entered != +Counter(counted):
        yield f"pods that entered queues: {dict(entered)}, counted: {counted}"
    parked = list(queue._unschedulable)
    wanted = {
        "active": len(queue.active_pods),
        "backoff": len(queue.backoff_pods),
        "unschedulable": sum(not each.is_gated for each in parked),
        "gated": sum(each.is_gated for each in parked),
    }
    shown = {labels["queue"]: child.value for labels, child in metrics.pending_pods.children()}
    for name, count in wanted.items():
        if shown.get(name, 0) != count:
            yield f"pending_pods shows {shown.get(name, 0)} {name}, and the queue has {count}"
    rejected: Counter[Any] = Counter()
    for queued in queue._containers:
        for plugin in queued.rejectors:
            rejected[plugin, queued.pod.spec.scheduler_name] += 1
    counted = {
        (labels["plugin"], labels["profile"]): child.value
        for labels, child in metrics.unschedulable_pods.children()
        if child.value
    }
    # As in the reference, pods that leave while active or in backoff stay in the count.
    if any(counted.get(key, 0) < count for key, count in rejected.items()) or any(
        count > rejected[key] + left for key, count in counted.items()
    ):
        yield f"unschedulable_pods is {counted}, not {dict(rejected)}"


def _attempt_metrics(
    process: ReplicaProcess, history: HistoryChecker, *, is_quiet: bool
) -> Iterator[str]:
    metrics = process.scheduler.services.metrics
    by_result: Counter[str] = Counter()
    for labels, child in metrics.schedule_attempts_total.children():
        by_result[labels["result"]] += int(child.value)
    timed: Counter[str] = Counter()
    for labels, histogram in metrics.scheduling_attempt_duration_seconds.children():
        timed[labels["result"]] += histogram.count
    if +timed != +by_result:
        yield f"attempts by result: {dict(by_result)}, timed: {dict(timed)}"
    scheduled = by_result["scheduled"]
    if metrics.pod_scheduling_attempts.count != scheduled:
        yield f"{scheduled} pods placed, and {metrics.pod_scheduling_attempts.count} observed"
    bound = history.bound_by[process.identity]
    if scheduled > bound or (is_quiet and scheduled != bound):
        yield f"{scheduled} attempts succeeded, and {bound} pods were bound"
    if by_result.total() > process.popped:
        yield f"{by_result.total()} attempts of {process.popped} pods that were popped"
