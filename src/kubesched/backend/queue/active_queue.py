"""Pods that are ready for an attempt, in the order of the QueueSort plugin."""

from __future__ import annotations

from kubesched.backend.queue.pod_key import queued_key
from kubesched.backend.queue.queue_profile import QueueSortKey
from kubesched.framework import QueuedPodInfo
from kubesched.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.util.heap import KeyedHeap

__all__ = ["ActiveQueue"]


class ActiveQueue(KeyedHeap[str, QueuedPodInfo]):
    """The heap, with its size reported. Equal pods leave in the order they came."""

    def __init__(self, sort_key: QueueSortKey, metrics: SchedulerMetrics) -> None:
        super().__init__(key=queued_key, sort_key=sort_key)
        self._pending = metrics.pending_pods.labels("active")

    def add(self, value: QueuedPodInfo) -> bool:
        is_new = super().add(value)
        if is_new:
            self._pending.inc()
        return is_new

    def delete(self, key: str) -> QueuedPodInfo | None:
        deleted = super().delete(key)
        if deleted is not None:
            self._pending.dec()
        return deleted

    def pop(self) -> QueuedPodInfo:
        popped = super().pop()
        self._pending.dec()
        return popped
