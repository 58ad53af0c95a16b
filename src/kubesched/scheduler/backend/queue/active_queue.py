"""Pods that are ready for an attempt, in the order of the QueueSort plugin.

With extenders, `ActiveLines` has one queue for each set of extenders that attempts need. Therefore
pods whose extenders are busy do not delay other pods.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator
from operator import attrgetter

from kubesched.api import Pod
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.heap import KeyedHeap
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.queue.queue_profile import QueueSortKey

__all__ = ["ActiveLines", "ActiveQueue", "Needs"]

# Returns the names of the extenders that an attempt at a pod needs. Each serves one attempt at a
# time.
Needs = Callable[[Pod], frozenset[str]]


class ActiveQueue(KeyedHeap[str, QueuedPodInfo]):
    """A heap that reports its size as a metric. Equal pods are popped in the order of insertion."""

    def __init__(
        self,
        sort_key: QueueSortKey,
        metrics: SchedulerMetrics,
        numbers: Iterator[int] | None = None,
    ) -> None:
        super().__init__(key=attrgetter("key"), sort_key=sort_key, numbers=numbers)
        self._pending = metrics.pending_pods.labels("active")

    def add(self, value: QueuedPodInfo) -> bool:
        is_new = super().add(value)
        if is_new:
            self._pending.value += 1
        return is_new

    def delete(self, key: str) -> QueuedPodInfo | None:
        deleted = super().delete(key)
        if deleted is not None:
            self._pending.value -= 1
        return deleted

    def pop(self) -> QueuedPodInfo:
        popped = super().pop()
        self._pending.value -= 1
        return popped

    def pop_unless(self, _busy: Collection[str]) -> QueuedPodInfo | None:
        """Pop the first pod; None if the queue is empty. No attempt here needs an extender."""
        return self.pop() if self else None


class ActiveLines:
    """Ready pods in lines, one for each set of extenders that attempts need.

    Pods leave all lines together in the order of one queue. While an extender is busy, the lines
    that need it are skipped.
    """

    def __init__(self, sort_key: QueueSortKey, metrics: SchedulerMetrics, needs: Needs) -> None:
        self._sort_key = sort_key
        self._metrics = metrics
        self._needs = needs
        self._numbers = itertools.count()
        self._lines: dict[frozenset[str], ActiveQueue] = {}
        self._line_of: dict[str, ActiveQueue] = {}  # by pod key

    def order_by(self, sort_key: QueueSortKey) -> None:
        """Use another sort key from now on; there must be no pod."""
        assert not self._line_of, "pods have places by the old sort key"
        self._sort_key = sort_key
        self._lines.clear()

    def __len__(self) -> int:
        return len(self._line_of)

    def __contains__(self, key: object) -> bool:
        return key in self._line_of

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        for line in self._lines.values():
            yield from line

    def get(self, key: str) -> QueuedPodInfo | None:
        line = self._line_of.get(key)
        return None if line is None else line.get(key)

    def add(self, value: QueuedPodInfo) -> bool:
        """Insert, or replace the pod with this key; True if the key is new."""
        key = value.key
        line = self._line(self._needs(value.pod))
        before = self._line_of.get(key)
        if before is not None and before is not line:
            before.delete(key)
        self._line_of[key] = line
        line.add(value)
        return before is None

    def update(self, value: QueuedPodInfo) -> None:
        """Replace the pod with this key. Raises KeyError if there is none."""
        if value.key not in self._line_of:
            raise KeyError(value.key)
        self.add(value)

    def delete(self, key: str) -> QueuedPodInfo | None:
        line = self._line_of.pop(key, None)
        return None if line is None else line.delete(key)

    def pop_unless(self, busy: Collection[str]) -> QueuedPodInfo | None:
        """Pop the first pod that needs no busy extender; None if there is none."""
        ready = [
            (order, line)
            for needs, line in self._lines.items()
            if needs.isdisjoint(busy) and (order := line.first_order()) is not None
        ]
        if not ready:
            return None
        _, line = min(ready, key=lambda each: each[0])
        popped = line.pop()
        del self._line_of[popped.key]
        return popped

    def check_invariants(self) -> None:
        for line in self._lines.values():
            line.check_invariants()
        assert len(self._line_of) == sum(map(len, self._lines.values()))
        for key, line in self._line_of.items():
            assert key in line, f"{key} is not in its line"

    def _line(self, needs: frozenset[str]) -> ActiveQueue:
        line = self._lines.get(needs)
        if line is None:
            line = ActiveQueue(self._sort_key, self._metrics, self._numbers)
            self._lines[needs] = line
        return line
