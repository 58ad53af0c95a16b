"""The decision log: the last decisions about pods, in memory.

A scheduler in this process reports each attempt with its duration and its best nodes. For any
other scheduler the log derives decisions from watched pods: a bound pod was placed, a pod with a
reason in its PodScheduled condition was rejected, and a pod that is marked as the target of a
preemption was preempted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.api.sharing import RecentlyUsed
from kubesched.dashboard.rows import waiting_reason
from kubesched.framework import Status
from kubesched.framework.diagnosis import main_reason
from kubesched.scheduler.cycles.attempt import Attempt
from kubesched.scheduler.search.schedule_result import Ranking, ScheduleResult

__all__ = ["DecisionEntry", "DecisionLog"]

_LENGTH: Final = 10_000
_LATENCIES: Final = 1_000
_REASONS: Final = 10_000
_BEST: Final = 3  # nodes whose totals are recorded
_MILLISECOND: Final = 1_000_000
# Ranking the best nodes may take a fiftieth of the time. That is enough for a thousand decisions
# per second, or a hundred if every node has to be scored. Unused time is saved for bursts.
_RANKING_SHARE: Final = 50
_SAVED_NS: Final = 2_000_000_000
_PREEMPTED: Final = "PreemptionByScheduler"


class DecisionEntry(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One decision. The log has ten thousand, mostly unread, so creation must be cheap."""

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
        """Return the members that are not empty."""
        named = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return {name: value for name, value in named if value}


class DecisionLog:
    """The last ten thousand decisions, numbered.

    Either a scheduler reports its attempts (`decided`) and its informer the preempted pods
    (`changed`, `removed`), or the log derives everything from pods (`note`).
    """

    def __init__(self, now_ns: Callable[[], int], length: int = _LENGTH) -> None:
        self._now_ns = now_ns
        self._entries: deque[DecisionEntry] = deque(maxlen=length)
        self._seen_ns: dict[str, int] = {}  # when waiting pods were first observed
        self._latencies: deque[int] = deque(maxlen=_LATENCIES)
        self._may_rank_ns = 0
        self._main_reasons: RecentlyUsed[str, str] = RecentlyUsed(_REASONS)  # by uid
        self._leaving: deque[str] = deque(maxlen=_LATENCIES)  # uids of preempted pods
        self.last = 0
        self.placed = 0
        self.failed = 0
        self.preempted = 0

    def decided(
        self, attempt: Attempt, status: Status, node_name: str, result: ScheduleResult | None
    ) -> None:
        """Record an attempt of a scheduler (this makes the log a `DecisionWatcher`)."""
        now_ns, queued = self._now_ns(), attempt.queued
        now_steady_ns = attempt.framework.point_metrics.now_ns()
        took = (now_steady_ns - attempt.started_ns) // 1000
        self.last += 1
        at, key, attempts = now_ns // _MILLISECOND, queued.key, queued.attempts
        if not status.is_success:
            self.failed += 1
            what = "unschedulable" if status.is_rejected else "failed"
            entry = DecisionEntry(self.last, at, key, what, "", status.message, attempts, took)
            self._entries.append(entry)
            self._main_reasons.put(queued.pod.metadata.uid, main_reason(status))
            return
        best = None
        if result is not None and now_steady_ns >= self._may_rank_ns:
            best = result.best(_BEST)
            cost_ns = attempt.framework.point_metrics.now_ns() - now_steady_ns
            owed_ns = max(self._may_rank_ns, now_steady_ns - _SAVED_NS)
            self._may_rank_ns = owed_ns + cost_ns * _RANKING_SHARE
        self.placed += 1
        since_ns = queued.timestamp_ns
        if attempts > 1 and queued.initial_attempt_timestamp_ns is not None:
            since_ns = queued.initial_attempt_timestamp_ns
        self._latencies.append((now_ns - since_ns) // _MILLISECOND)
        entry = DecisionEntry(self.last, at, key, "placed", node_name, "", attempts, took, best)
        self._entries.append(entry)

    def main_reason(self, pod: Pod) -> str:
        """Return why most nodes rejected a waiting pod, or the text of its condition.

        A scheduler in this process reports the reasons. The API only has one text with all of them.
        """
        return self._main_reasons.get(pod.metadata.uid) or waiting_reason(pod)

    def changed(self, old: Pod, new: Pod) -> None:
        """Record a preemption or a nomination; the scheduler's informer calls this."""
        if new.metadata.deletion_timestamp is not None and old.metadata.deletion_timestamp is None:
            self._note_preempted(new)
        if (
            new.status is not old.status
            and (nominated := new.status.nominated_node_name)
            and nominated != old.status.nominated_node_name
        ):
            self._append(self._now_ns(), pod_key(new), "nominated", nominated)

    def removed(self, pod: Pod, _is_stale: bool) -> None:
        """Record the preemption of a pod that was deleted without a grace period."""
        self._note_preempted(pod)

    def _note_preempted(self, pod: Pod) -> None:
        if _is_preempted(pod) and pod.metadata.uid not in self._leaving:
            self._leaving.append(pod.metadata.uid)
            self.preempted += 1
            self._append(self._now_ns(), pod_key(pod), "preempted", pod.spec.node_name)

    def note(self, old: Pod | None, new: Pod | None) -> None:
        """Record the decisions between two versions of a pod; None: it does not exist."""
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._seen_ns.pop(old.metadata.uid, None)
            old = None
        if new is None:
            return
        now_ns = self._now_ns()
        if new.spec.node_name and (old is None or not old.spec.node_name):
            self._note_placed(new, now_ns)
            return
        if old is None:
            self._seen_ns[new.metadata.uid] = now_ns
        self._note_status(old, new, now_ns)

    def _note_placed(self, pod: Pod, now_ns: int) -> None:
        seen_ns = self._seen_ns.pop(pod.metadata.uid, None)
        # A pod that was bound when it was first observed was placed before the log began.
        if seen_ns is not None:
            self._latencies.append((now_ns - seen_ns) // _MILLISECOND)
            self.placed += 1
            self._append(now_ns, pod_key(pod), "placed", pod.spec.node_name)

    def _note_status(self, old: Pod | None, new: Pod, now_ns: int) -> None:
        """Record a rejection, a nomination or a preemption."""
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
        self._entries.append(DecisionEntry(self.last, now_ns // _MILLISECOND, key, what, *more))

    def entries_since(self, number: int, most: int) -> list[DecisionEntry]:
        """Return the newest decisions after a number, at most `most`, oldest first."""
        found: list[DecisionEntry] = []
        for entry in reversed(self._entries):
            if entry.number <= number or len(found) >= most:
                break
            found.append(entry)
        found.reverse()
        return found

    def since(self, number: int, most: int) -> list[dict[str, Any]]:
        """Return the same as `entries_since`, as dictionaries."""
        return [entry.to_dict() for entry in self.entries_since(number, most)]

    def before(self, number: int, most: int) -> list[dict[str, Any]]:
        """Return the decisions up to a number, oldest first."""
        if not self._entries:
            return []
        first = self._entries[0].number
        end = max(0, min(number - first + 1, len(self._entries)))
        start = max(0, end - most)
        return [self._entries[place].to_dict() for place in range(start, end)]

    def about(self, key: str) -> list[dict[str, Any]]:
        """Return the decisions about a pod, oldest first."""
        return [entry.to_dict() for entry in self._entries if entry.pod == key]

    @property
    def first(self) -> int:
        """The number of the oldest decision in the log; 0 if it is empty."""
        return self._entries[0].number if self._entries else 0

    def latency(self) -> list[int]:
        """Return median and 99th percentile of the times until placement, in milliseconds."""
        ordered = sorted(self._latencies)
        return [ordered[len(ordered) // 2], ordered[len(ordered) * 99 // 100]] if ordered else []


def _is_preempted(pod: Pod) -> bool:
    return any(
        each.type == "DisruptionTarget" and each.reason == _PREEMPTED
        for each in pod.status.conditions
    )
