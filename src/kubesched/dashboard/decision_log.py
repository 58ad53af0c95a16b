"""A flight recorder: the last decisions about pods, in memory.

Where a scheduler is at hand it tells of each attempt itself: how long it took, and which nodes
came out best. Elsewhere decisions are read off the pods that a watch brings, so the page works
with any scheduler: a pod that got a node was placed, one whose condition says why not was tried,
one that is marked as a preemption's target had to go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.dashboard.cluster_view import waiting_reason
from kubesched.framework import Status
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.schedule_result import Ranking, ScheduleResult

__all__ = ["DecisionLog", "Entry"]

_LENGTH: Final = 10_000
_LATENCIES: Final = 1_000
_BEST: Final = 3  # nodes whose totals are kept
_MILLISECOND: Final = 1_000_000
# So many decisions a second are kept with totals, and so many in a burst: what a recorder may
# cost is bounded, however fast pods are placed.
_RANKED_EVERY_NS: Final = 1_000_000
_RANKED_AT_ONCE: Final = 2_000
_PREEMPTED: Final = "PreemptionByScheduler"


class Entry(NamedTuple):
    """One decision. Tuples, because ten thousand are kept."""

    number: int
    at: int  # milliseconds
    pod: str
    what: str
    node: str = ""
    reason: str = ""
    attempt: int = 0
    took: int = 0  # microseconds
    best: Ranking | None = None

    def to_dict(self) -> dict[str, Any]:
        """The members that say something."""
        return {name: value for name, value in zip(self._fields, self, strict=True) if value}


class DecisionLog:
    """The last ten thousand decisions, numbered.

    `is_told` says that a scheduler tells of its attempts; then they are not read off pods.
    """

    def __init__(
        self, now_ns: Callable[[], int], length: int = _LENGTH, *, is_told: bool = False
    ) -> None:
        self._now_ns = now_ns
        self._entries: deque[Entry] = deque(maxlen=length)
        self._is_told = is_told
        self._seen_ns: dict[str, int] = {}  # when pods that wait were first seen
        self._latencies: deque[int] = deque(maxlen=_LATENCIES)
        self._paid_until_ns = 0
        self.last = 0
        self.placed = 0
        self.failed = 0
        self.preempted = 0

    def decided(
        self, attempt: Attempt, status: Status, node_name: str, result: ScheduleResult | None
    ) -> None:
        """A scheduler tried a pod (it is a `DecisionWatcher`)."""
        now_ns, queued = self._now_ns(), attempt.queued
        took = (attempt.framework.point_metrics.now_ns() - attempt.started_ns) // 1000
        if not status.is_success:
            self.failed += 1
            what = "unschedulable" if status.is_rejected else "failed"
            self._append(now_ns, queued.key, what, "", status.message, queued.attempts, took)
            return
        best = None
        if result is not None and self._may_rank(now_ns):
            best = result.best(_BEST)
        self.placed += 1
        self._append(now_ns, queued.key, "placed", node_name, "", queued.attempts, took, best)

    def _may_rank(self, now_ns: int) -> bool:
        # A bucket that drips: each costs a thousandth of a second, and it holds two seconds.
        self._paid_until_ns = max(self._paid_until_ns, now_ns - _RANKED_AT_ONCE * _RANKED_EVERY_NS)
        if self._paid_until_ns > now_ns:
            return False
        self._paid_until_ns += _RANKED_EVERY_NS
        return True

    def note(self, old: Pod | None, new: Pod | None) -> None:
        """Compare two versions of a pod and note what was decided in between."""
        if new is None:
            if old is not None:
                self._seen_ns.pop(old.metadata.uid, None)
            return
        if old is not None and old.metadata.uid != new.metadata.uid:
            self._seen_ns.pop(old.metadata.uid, None)
            old = None
        now_ns = self._now_ns()
        if old is None and not new.spec.node_name:
            self._seen_ns[new.metadata.uid] = now_ns
        if new.spec.node_name and (old is None or not old.spec.node_name):
            seen_ns = self._seen_ns.pop(new.metadata.uid, None)
            # A pod that is placed when it is first seen was placed before anybody looked.
            if seen_ns is not None:
                self._latencies.append((now_ns - seen_ns) // _MILLISECOND)
                if not self._is_told:
                    self.placed += 1
                    self._append(now_ns, pod_key(new), "placed", new.spec.node_name)
            return
        if not self._is_told:
            message = waiting_reason(new)
            if message and message != (waiting_reason(old) if old is not None else ""):
                self.failed += 1
                self._append(now_ns, pod_key(new), "unschedulable", "", message)
        nominated = new.status.nominated_node_name
        if nominated and (old is None or old.status.nominated_node_name != nominated):
            self._append(now_ns, pod_key(new), "nominated", nominated)
        if _is_preempted(new) and (old is None or not _is_preempted(old)):
            self.preempted += 1
            self._append(now_ns, pod_key(new), "preempted", new.spec.node_name)

    def _append(self, now_ns: int, key: str, what: str, *more: Any) -> None:
        self.last += 1
        self._entries.append(Entry(self.last, now_ns // _MILLISECOND, key, what, *more))

    def since(self, number: int, most: int) -> list[dict[str, Any]]:
        """Decisions after a number, the newest of them if there are more than wanted."""
        found: list[Entry] = []
        for entry in reversed(self._entries):
            if entry.number <= number or len(found) >= most:
                break
            found.append(entry)
        return [entry.to_dict() for entry in reversed(found)]

    def before(self, number: int, most: int) -> list[dict[str, Any]]:
        """Decisions up to a number, oldest first."""
        if not self._entries:
            return []
        first = self._entries[0].number
        end = max(0, min(number - first + 1, len(self._entries)))
        start = max(0, end - most)
        return [self._entries[place].to_dict() for place in range(start, end)]

    def about(self, key: str) -> list[dict[str, Any]]:
        """The decisions that are known about a pod, oldest first."""
        return [entry.to_dict() for entry in self._entries if entry.pod == key]

    @property
    def first(self) -> int:
        """The number of the oldest decision that is kept; 0 if there is none."""
        return self._entries[0].number if self._entries else 0

    def latency(self) -> list[int]:
        """Median and 99th percentile, in ms, of the last thousand pods: from seen to placed."""
        ordered = sorted(self._latencies)
        return [ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]] if ordered else []


def _is_preempted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.reason == _PREEMPTED
        for each in pod.status.conditions
    )
