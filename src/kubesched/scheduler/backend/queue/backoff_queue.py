"""The backoff queue: pods that are backing off, in the order of their expiry.

Rejected pods and pods whose attempt ended in an error are in separate heaps: a rejected pod may be
popped early when no pod is active, an errored pod always waits for its whole backoff. This module
only orders pods: it reads no clock and does not compute backoffs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.heap import KeyedHeap
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.queue.backoff import Backoff
from kubesched.scheduler.backend.queue.queue_profile import QueueSortKey
from kubesched.scheduler.backend.queue.view import Place

__all__ = ["BackoffQueue"]

log = get_logger(__name__)


class BackoffQueue:
    """The heaps of rejected and of errored pods. A pod is in at most one of them."""

    def __init__(
        self,
        backoff: Backoff,
        sort_key: QueueSortKey,
        metrics: SchedulerMetrics,
    ) -> None:
        self._backoff = backoff
        self._pending = metrics.pending_pods.labels("backoff")
        self.rejected: KeyedHeap[str, QueuedPodInfo] = KeyedHeap(
            key=attrgetter("key"), sort_key=self._order_of_rejected(sort_key)
        )
        self.errored: KeyedHeap[str, QueuedPodInfo] = KeyedHeap(
            key=attrgetter("key"), sort_key=backoff.expiration_ns
        )

    def order_by(self, sort_key: QueueSortKey) -> None:
        """Use another sort key from now on; there must be no pod."""
        self.rejected.order_by(self._order_of_rejected(sort_key))

    def _order_of_rejected(self, sort_key: QueueSortKey) -> Callable[[QueuedPodInfo], Any]:
        expiration_ns = self._backoff.expiration_ns
        return lambda queued: (expiration_ns(queued), sort_key(queued))

    def __len__(self) -> int:
        return len(self.rejected) + len(self.errored)

    def __contains__(self, key: object) -> bool:
        return key in self.rejected or key in self.errored

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self.rejected
        yield from self.errored

    def get(self, key: str) -> QueuedPodInfo | None:
        return self.rejected.get(key) or self.errored.get(key)

    def add(self, queued: QueuedPodInfo) -> bool:
        """Insert the pod into the heap for its rejectors; True if it was in neither heap."""
        key = queued.key
        has_rejectors = bool(queued.unschedulable_plugins or queued.pending_plugins)
        heap, other_heap = (
            (self.rejected, self.errored) if has_rejectors else (self.errored, self.rejected)
        )
        is_new = heap.add(queued)
        if other_heap.delete(key) is not None:
            log.error("Pod was in both backoff queues", pod=queued.pod)
            return False
        if is_new:
            self._pending.inc()
        return is_new

    def place_of(self, key: str) -> Place:
        """Return the heap of a pod, as a place."""
        return Place.BACKOFF if key in self.rejected else Place.ERROR_BACKOFF

    def update(self, queued: QueuedPodInfo) -> None:
        """Reorder a pod after it changed; it stays in its heap."""
        heap = self.rejected if queued.key in self.rejected else self.errored
        heap.update(queued)

    def delete(self, key: str) -> QueuedPodInfo | None:
        deleted = self.rejected.delete(key) or self.errored.delete(key)
        if deleted is not None:
            self._pending.dec()
        return deleted

    def pop(self, may_pop: Callable[[QueuedPodInfo], bool] | None = None) -> QueuedPodInfo | None:
        """Pop the first rejected pod before its backoff has expired, if `may_pop` accepts it."""
        head = self.rejected.peek()
        if head is None or (may_pop is not None and not may_pop(head)):
            return None
        self._pending.dec()
        return self.rejected.pop()

    def pop_completed(self, now_ns: int) -> list[QueuedPodInfo]:
        """Pop all pods whose backoff has expired, the rejected ones first."""
        completed = []
        for heap in (self.rejected, self.errored):
            while (head := heap.peek()) is not None:
                if self._backoff.is_backing_off(head, now_ns):
                    break
                completed.append(heap.pop())
                self._pending.dec()
        return completed

    def check_invariants(self) -> None:
        self.rejected.check_invariants()
        self.errored.check_invariants()
        for queued in self.rejected:
            assert queued.rejectors, "a pod without rejectors waits with the rejected"
        for queued in self.errored:
            assert not queued.rejectors, "a rejected pod waits with the errored"
