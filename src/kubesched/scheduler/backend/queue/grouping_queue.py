"""A scheduling queue for pods of groups (docs/reference/09 §5).

Its entries are single pods. When a member of a group is popped, the group cycle pops the other
members one by one.
"""

from __future__ import annotations

from collections.abc import Collection

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.framework import QueuedPodInfo
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.backend.queue.queueing_hints import Strategy
from kubesched.scheduler.backend.queue.scheduling_queue import SchedulingQueue

__all__ = ["GroupingQueue"]


class GroupingQueue(SchedulingQueue):
    """The queue of a scheduler that schedules pod groups."""

    def pop_specific(self, pod: Pod, now_ns: int) -> QueuedPodInfo | None:
        """Pop this pod, whatever it waits for; None if it is gated or not in the queue."""
        self._activate(pod, now_ns)
        queued = self._active.delete(pod_key(pod))
        return None if queued is None or not self._take_off(queued, now_ns) else queued

    def _pop_first(self, busy: Collection[str]) -> QueuedPodInfo | None:
        """Pop as the base class does, but never pop a member of a group before its backoff ends.

        In the reference members leave their backoff early, and a group is tried without a pause.
        """
        head = self._backing_off.rejected.peek()
        if head is not None and group_name_of(head.pod):
            return self._active.pop_unless(busy)
        return super()._pop_first(busy)

    def _strategy_after_failure(self, queued: QueuedPodInfo) -> Strategy:
        """Requeue a member of a group after its backoff, whatever events arrived."""
        if group_name_of(queued.pod):
            return Strategy.AFTER_BACKOFF
        return super()._strategy_after_failure(queued)
