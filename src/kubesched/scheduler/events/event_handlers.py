"""Event handlers: apply watch events to the cache and the queue (docs/reference/04 §7, 03 §8.1).

Errors of the cache are logged, not raised: the queue still gets the event, for waiting pods. Only
a cache that contradicts the API server about a pod's node ends the process.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry

from kubesched.api import Node, Pod
from kubesched.api.pod_facts import pod_priority
from kubesched.errors import CacheError
from kubesched.foundation.metrics.instruments import HistogramMetric, KeptChildren
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import SteadyClock
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import ActionType, ClusterEvent, EventResource
from kubesched.framework.cluster_events import ASSIGNED_POD_DELETE
from kubesched.framework.object_changes import node_update_events, pod_update_events
from kubesched.scheduler.backend.cache import Cache, CacheCorruptedError
from kubesched.scheduler.backend.queue import SchedulingQueue
from kubesched.scheduler.runtime.waiting_pods import WaitingPods

__all__ = ["EventHandlers"]

log = get_logger(__name__)

ASSIGNED_POD_ADD = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.ADD)
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(EventResource.NODE, ActionType.DELETE)

# Labels in metrics, computed once.
_NODE_ADD_LABEL = NODE_ADD.label
_ASSIGNED_POD_ADD_LABEL = ASSIGNED_POD_ADD.label
_ASSIGNED_POD_UPDATE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.UPDATE).label
_WAITING_POD_ADD = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.ADD).label
_WAITING_POD_UPDATE = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.UPDATE).label
_WAITING_POD_DELETE = ClusterEvent(EventResource.UNSCHEDULABLE_POD, ActionType.DELETE).label


class EventHandlers:
    """The handlers of pods, nodes, and the other kinds that plugins registered events for."""

    def __init__(
        self,
        cache: Cache,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        clock: SteadyClock,
        is_responsible: Callable[[Pod], bool],
        on_corruption: Callable[[CacheCorruptedError], None],
        metrics: SchedulerMetrics | None = None,
    ) -> None:
        self._cache = cache
        self._queue = queue
        self._waiting_pods = waiting_pods
        self._clock = clock
        self._is_responsible = is_responsible
        self._on_corruption = on_corruption
        metrics = metrics or SchedulerMetrics(CollectorRegistry())
        durations = metrics.event_handling_duration_seconds
        self._durations: KeptChildren[str, HistogramMetric] = KeptChildren(durations.labels)
        self._now_ns = clock.monotonic_ns

    def add_node(self, node: Node) -> None:
        started_ns = self._now_ns()
        self._try(self._cache.add_node, node)
        self._announce(NODE_ADD, None, node)
        self._observe(_NODE_ADD_LABEL, started_ns)

    def update_node(self, old: Node, new: Node) -> None:
        started_ns = self._now_ns()
        self._try(self._cache.update_node, new)
        cache_ns = self._now_ns() - started_ns
        for event in node_update_events(old, new):
            started_ns = self._now_ns()
            self._announce(event, old, new)
            # The duration of each event includes the update of the cache.
            self._observe(event.label, started_ns - cache_ns)

    def delete_node(self, node: Node, _is_tombstone: bool = False) -> None:
        started_ns = self._now_ns()
        self._announce(NODE_DELETE, node, None)
        self._try(self._cache.remove_node, node)
        self._observe(NODE_DELETE.label, started_ns)

    def add_pod(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._add_assigned(pod)
        elif self._is_responsible(pod):
            started_ns = self._now_ns()
            self._queue.add(pod, self._clock.wall_ns(started_ns))
            self._observe(_WAITING_POD_ADD, started_ns)

    def forget_waiting(self, pod: Pod) -> None:
        """Handle that a waiting pod left the queue because its profile was removed."""

    def update_pod(self, old: Pod, new: Pod) -> None:
        if old.metadata.uid != new.metadata.uid:
            # The pod was deleted and created again between two watches: two different pods.
            self.delete_pod(old)
            self.add_pod(new)
            return
        if old.spec.node_name:
            self._update_assigned(old, new)
        elif new.spec.node_name:
            started_ns = self._add_assigned(new)
            if self._is_responsible(old):
                self._stop_waiting(new, "bound by another scheduler")
                self._queue.delete(old)
                self._observe(_WAITING_POD_DELETE, started_ns)
        elif self._is_responsible(old):
            self._update_waiting(old, new)

    def delete_pod(self, pod: Pod, is_tombstone: bool = False) -> None:
        """Handle a deletion. A tombstone may be stale, and the pod bound since: try both paths."""
        if pod.spec.node_name or is_tombstone:
            started_ns = self._now_ns()
            self._try(self._cache.remove_pod, pod)
            self._stop_waiting(pod, "removed")
            self._announce(ASSIGNED_POD_DELETE, pod, None)
            self._observe(ASSIGNED_POD_DELETE.label, started_ns)
        if self._is_responsible(pod) and (
            is_tombstone or not pod.spec.node_name or self._is_waiting(pod)
        ):
            self._delete_waiting(pod)

    def _is_waiting(self, pod: Pod) -> bool:
        """Whether the queue has the pod: the informer may have missed the event of its binding."""
        queued = self._queue.get_pod(pod.metadata.name, pod.metadata.namespace)
        return queued is not None and queued.pod.metadata.uid == pod.metadata.uid

    def _add_assigned(self, pod: Pod) -> int:
        """Add a pod on a node; return the time at the end."""
        started_ns = self._now_ns()
        self._try(self._cache.add_pod, pod)
        now_ns = self._clock.wall_ns(started_ns)
        self._queue.move_all(ASSIGNED_POD_ADD, None, pod, now_ns)
        return self._observe(_ASSIGNED_POD_ADD_LABEL, started_ns)

    def _update_assigned(self, old: Pod, new: Pod) -> None:
        started_ns = self._now_ns()
        self._try(self._cache.update_pod, old, new)
        for event in pod_update_events(old, new):
            event_ns = self._now_ns()
            self._announce(event, old, new)
            self._observe(event.label, event_ns)
        self._observe(_ASSIGNED_POD_UPDATE, started_ns)

    def _update_waiting(self, old: Pod, new: Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if self._cache.is_assumed(new):
            if old.metadata.deletion_timestamp is None and new.metadata.deletion_timestamp:
                self._delete_assumed(new)
            return
        started_ns = self._now_ns()
        self._queue.update(old, new, self._clock.now_ns())
        nominated = old.status.nominated_node_name
        if nominated and nominated != new.status.nominated_node_name:
            self._announce_to_lower_priority(old)
        labels = {event.label for event in pod_update_events(old, new)}
        for label in labels | {_WAITING_POD_UPDATE}:
            self._observe(label, started_ns)

    def _delete_waiting(self, pod: Pod) -> None:
        started_ns = self._now_ns()
        self._queue.delete(pod)
        if self._cache.is_assumed(pod):
            self._delete_assumed(pod)
        elif pod.status.nominated_node_name:
            self._announce_to_lower_priority(pod)
        self._observe(_WAITING_POD_DELETE, started_ns)

    def _delete_assumed(self, pod: Pod) -> None:
        """Handle the deletion of a pod that is assumed and not bound (docs/reference/04 §7.4)."""
        try:
            assumed = self._cache.get_pod(pod)
        except CacheError:
            return
        if not self._stop_waiting(pod, "removed"):
            self._try(self._cache.forget_pod, assumed)
        self._announce(ASSIGNED_POD_DELETE, assumed, None)

    def _stop_waiting(self, pod: Pod, why: str) -> bool:
        """Reject a pod that waits on Permit; its binding cycle undoes the placement.

        Returns False if the pod does not wait on Permit.
        """
        waiting = self._waiting_pods.get(pod.metadata.uid)
        return waiting is not None and waiting.reject("", why)

    def handlers_of(
        self, resource: str, actions: ActionType
    ) -> tuple[
        Callable[[Any], None] | None,
        Callable[[Any, Any], None] | None,
        Callable[[Any, bool], None] | None,
    ]:
        """Return (on_add, on_update, on_delete) for a kind that plugins registered events for."""

        def changed(action: ActionType, old: Any, new: Any) -> None:
            started_ns = self._now_ns()
            event = ClusterEvent(resource, action)
            self._announce(event, old, new)
            self._observe(event.label, started_ns)

        def added(new: Any) -> None:
            changed(ActionType.ADD, None, new)

        def updated(old: Any, new: Any) -> None:
            changed(ActionType.UPDATE, old, new)

        def deleted(old: Any, _is_tombstone: bool = False) -> None:
            changed(ActionType.DELETE, old, None)

        return (
            added if actions & ActionType.ADD else None,
            updated if actions & ActionType.UPDATE else None,
            deleted if actions & ActionType.DELETE else None,
        )

    def listener_of(self, resource: str, actions: ActionType) -> Callable[[Any, Any], None]:
        """Return the same handlers as one function of (old or None, new or None)."""
        added, updated, deleted = self.handlers_of(resource, actions)

        def changed(old: Any, new: Any) -> None:
            try:
                if new is None:
                    if deleted is not None:
                        deleted(old, False)
                elif old is None:
                    if added is not None:
                        added(new)
                elif updated is not None:
                    updated(old, new)
            except Exception as exc:
                # As in an informer: one failure must not stop the other handlers.
                log.exception("Event handler failed", exc, kind=resource, object=new or old)

        return changed

    def _observe(self, label: str, started_ns: int) -> int:
        now_ns = self._now_ns()
        self._durations[label].observe_ns(now_ns - started_ns)
        return now_ns

    def _announce(self, event: ClusterEvent, old: Any, new: Any) -> None:
        self._queue.move_all(event, old, new, self._clock.now_ns())

    def _announce_to_lower_priority(self, pod: Pod) -> None:
        """Requeue pods of no higher priority: a nomination no longer reserves room for `pod`."""
        limit = pod_priority(pod)
        self._queue.move_all(
            ASSIGNED_POD_DELETE,
            pod,
            None,
            self._clock.now_ns(),
            pre_check=lambda waiting: pod_priority(waiting) <= limit,
        )

    def _try(self, operation: Callable[..., None], *objects: Any) -> None:
        try:
            operation(*objects)
        except CacheCorruptedError as exc:
            self._on_corruption(exc)
        except CacheError as exc:
            log.error("Scheduler cache refused a change", exc=exc, object=objects[-1])
