"""Pods that wait for an event: rejected pods, and gated pods.

They are indexed by plugin, so that an event is matched only with the pods it may concern: a
rejected pod by each plugin that rejected it, a gated pod by the plugin that gates it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from operator import attrgetter
from typing import NamedTuple

from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.heap import KeyedHeap
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.backend.queue.queueing_hints import Interest

__all__ = ["UnschedulablePods"]

_Bucket = dict[str, QueuedPodInfo]


class _Filing(NamedTuple):
    queued: QueuedPodInfo
    gate: str
    buckets: tuple[_Bucket, ...]


class UnschedulablePods:
    """Unschedulable and gated pods by key, indexed by rejectors, by gate and by age."""

    def __init__(self, profiles: Collection[str], metrics: SchedulerMetrics) -> None:
        self._profiles = frozenset(profiles)
        self._pending = metrics.pending_pods
        self._filings: dict[str, _Filing] = {}
        self._by_rejector: dict[tuple[str, str], _Bucket] = {}  # (profile, plugin)
        self._by_gate: dict[str, _Bucket] = {}
        # No plugin rejected these pods, so every registered event concerns them.
        self._unexplained: _Bucket = {}
        self._by_age: KeyedHeap[str, QueuedPodInfo] = KeyedHeap(
            key=attrgetter("key"), sort_key=_last_attempt_ns
        )

    def use_profiles(self, profiles: Collection[str]) -> None:
        """Expect pods of these profiles from now on; there must be no pod."""
        assert not self._filings, "pods are filed by the rejectors of the old profiles"
        self._profiles = frozenset(profiles)
        self._by_rejector.clear()
        self._by_gate.clear()

    def __len__(self) -> int:
        return len(self._filings)

    @property
    def gated_count(self) -> int:
        return sum(map(len, self._by_gate.values()))

    def __contains__(self, key: object) -> bool:
        return key in self._filings

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (filing.queued for filing in self._filings.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        filing = self._filings.get(key)
        return None if filing is None else filing.queued

    def put(self, queued: QueuedPodInfo) -> bool:
        """Insert a pod, or index it again after it changed; True if the key is new."""
        key = queued.key
        before = self._filings.get(key)
        if before is not None:
            _take_out(key, before)
        filing = _Filing(queued, queued.gating_plugin, self._buckets_for(queued))
        for bucket in filing.buckets:
            bucket[key] = queued
        self._filings[key] = filing
        self._by_age.add(queued)
        if before is None:
            self._pending.labels(_gauge(filing)).inc()
        elif _gauge(before) != _gauge(filing):
            self._pending.labels(_gauge(before)).dec()
            self._pending.labels(_gauge(filing)).inc()
        return before is None

    def delete(self, key: str) -> QueuedPodInfo | None:
        filing = self._filings.pop(key, None)
        if filing is None:
            return None
        _take_out(key, filing)
        self._by_age.delete(key)
        self._pending.labels(_gauge(filing)).dec()
        return filing.queued

    def candidates(self, interest: Interest) -> list[QueuedPodInfo]:
        """Return the pods that an event may concern: each once, in a fixed order.

        A gated pod is returned only if its gating plugin registered the event in some profile.
        """
        if not self._filings:
            return []
        found: _Bucket = {}
        for profile, plugins in interest.plugins.items():
            for plugin in plugins:
                if bucket := self._by_rejector.get((profile, plugin)):
                    found.update(bucket)
        for plugin in interest.gates:
            if bucket := self._by_gate.get(plugin):
                found.update(bucket)
        found.update(self._unexplained)
        return list(found.values())

    def take_older_than(self, time_ns: int) -> list[QueuedPodInfo]:
        """Remove and return the pods inserted or flushed before this time, the oldest first."""
        taken = []
        while (oldest := self._by_age.peek()) is not None and _last_attempt_ns(oldest) < time_ns:
            self.delete(oldest.key)
            taken.append(oldest)
        return taken

    def check_invariants(self) -> None:
        buckets = [*self._by_rejector.values(), *self._by_gate.values(), self._unexplained]
        filed = sum(len(bucket) for bucket in buckets)
        assert filed == sum(len(filing.buckets) for filing in self._filings.values())
        for key, filing in self._filings.items():
            queued = filing.queued
            assert key == queued.key, f"{queued.key} is filed under {key!r}"
            assert filing.gate == queued.gating_plugin, f"{key} is filed under an old gate"
            # By identity: buckets that are equal need not be the same.
            assert {id(bucket) for bucket in filing.buckets} == {
                id(bucket) for bucket in self._buckets_for(queued)
            }, f"{key} is filed under other plugins than rejected it"
            for bucket in filing.buckets:
                assert bucket[key] is queued, f"an index has another pod for {key}"
        self._by_age.check_invariants()
        assert len(self._by_age) == len(self._filings)

    def _buckets_for(self, queued: QueuedPodInfo) -> tuple[_Bucket, ...]:
        if queued.gating_plugin:
            return (self._by_gate.setdefault(queued.gating_plugin, {}),)
        profile = queued.pod.spec.scheduler_name
        rejectors = queued.rejectors
        if not rejectors or profile not in self._profiles:
            return (self._unexplained,)
        return tuple(self._by_rejector.setdefault((profile, name), {}) for name in rejectors)


def _last_attempt_ns(queued: QueuedPodInfo) -> int:
    return max(queued.timestamp_ns, queued.flush_timestamp_ns)


def _gauge(filing: _Filing) -> str:
    return "gated" if filing.gate else "unschedulable"


def _take_out(key: str, filing: _Filing) -> None:
    for bucket in filing.buckets:
        del bucket[key]
