"""Counts of tried and bound pods as the store changes, and their rates.

The store calls the tracker for every change, which costs a dictionary look-up per change and no
watch. A measurement counts the pods of some namespaces from the time when it is opened.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import msgspec

from benchmarks.measuring import Stopwatch, percentile
from kubesched.cluster.apiserver.store.stored_records import StoredChange

__all__ = ["ALL", "Measurement", "Selector", "Tracker", "selector_of", "throughput_samples"]

Selector = frozenset[tuple[str, str]]
# The selector that matches every pod.
ALL: Selector = frozenset()
_INTERVAL_S = 1.0
_INSTANT_S = 1e-6  # shorter than anything that is measured


def selector_of(labels: Mapping[str, str] | None) -> Selector:
    return frozenset((labels or {}).items())


class _Counts(msgspec.Struct):
    """The pods of a namespace that a selector matches, by stage."""

    attempted: int = 0
    bound: int = 0


class _Seen(msgspec.Struct, gc=False):
    """A pod: the counts that include it, and its stage."""

    created_s: float
    selectors: tuple[Selector, ...]
    counts: tuple[_Counts, ...]
    is_attempted: bool = False
    is_bound: bool = False

    def count(self, step: int) -> None:
        for counts in self.counts:
            counts.attempted += step if self.is_attempted else 0
            counts.bound += step if self.is_bound else 0


class Measurement:
    """The pods of some namespaces that were bound during a measurement."""

    def __init__(self, name: str, namespaces: Collection[str], selector: Selector) -> None:
        self.name = name
        self.namespaces = frozenset(namespaces)
        self.selector = selector
        self.bound_at_s: list[float] = []
        self.latencies_s: list[float] = []
        self.started_s = time.perf_counter()
        self._watch = Stopwatch()
        self.cpu_s = 0.0

    def note(self, namespace: str, seen: _Seen, now_s: float) -> None:
        if namespace in self.namespaces and self.selector in seen.selectors:
            self.bound_at_s.append(now_s)
            self.latencies_s.append(now_s - seen.created_s)

    def close(self) -> None:
        self.cpu_s = self._watch.spent().cpu_s

    def result(self) -> dict[str, Any]:
        """Throughput as the reference computes it, and how long pods waited for their node."""
        pods = len(self.bound_at_s)
        samples = throughput_samples(self.started_s, self.bound_at_s)
        seconds = self.bound_at_s[-1] - self.started_s if pods else 0.0
        return {
            "measured_pods": pods,
            "seconds": round(seconds, 3),
            "cpu_seconds": round(self.cpu_s, 3),
            "pods_per_s": round(pods / seconds, 1) if seconds else 0.0,
            "pods_per_cpu_s": round(pods / self.cpu_s, 1) if self.cpu_s else 0.0,
            "throughput": {f"p{p}": round(percentile(samples, p), 1) for p in (50, 90, 95, 99)},
            "pod_latency_ms": {
                f"p{p}": round(percentile(self.latencies_s, p) * 1000, 1) for p in (50, 90, 95, 99)
            },
        }


def throughput_samples(started_s: float, bound_at_s: Iterable[float]) -> list[float]:
    """Return pods/s in each second; idle seconds are merged into the next one.

    The last interval ends with the last pod, so it may be shorter than a second.
    """
    samples: list[float] = []
    bound_at = sorted(bound_at_s)
    done, last_s, ticks = 0, started_s, 0
    while done < len(bound_at):
        ticks += 1
        now_s = min(last_s + ticks * _INTERVAL_S, bound_at[-1])
        new = bisect_right(bound_at, now_s) - done
        if new:
            samples += [new / max(now_s - last_s, _INSTANT_S)] * ticks
            done, last_s, ticks = done + new, now_s, 0
    return samples


class Tracker:
    """Counts per namespace, for each selector that some step waits with."""

    def __init__(self, selectors: Iterable[Selector]) -> None:
        self._selectors = tuple({ALL, *selectors})
        self._of_unlabelled = (ALL,)
        self._seen: dict[str, _Seen] = {}
        self._counts: dict[tuple[str, Selector], _Counts] = defaultdict(_Counts)
        self._changed = asyncio.Event()
        self.measurements: list[Measurement] = []

    def on_change(self, change: StoredChange) -> None:
        """Called by the store after every write."""
        record = change.record
        if record.resource.plural != "pods":
            return
        key, data = record.key, record.data
        seen = self._seen.get(key)
        if change.type == "DELETED":
            if seen is not None:
                seen.count(-1)
                del self._seen[key]
            return
        is_bound = bool(data["spec"].get("nodeName"))
        is_attempted = is_bound or _has_condition(data)
        if seen is None:
            labels = data["metadata"].get("labels")
            selectors = self._matching(labels) if labels else self._of_unlabelled
            namespace = data["metadata"]["namespace"]
            counts = tuple([self._counts[namespace, each] for each in selectors])
            seen = self._seen[key] = _Seen(time.perf_counter(), selectors, counts)
            if not is_attempted:
                return  # as new pods mostly are not
        if seen.is_attempted is is_attempted and seen.is_bound is is_bound:
            return
        was_bound = seen.is_bound
        seen.count(-1)
        seen.is_attempted, seen.is_bound = is_attempted, is_bound
        seen.count(1)
        self._changed.set()
        if is_bound and not was_bound:
            namespace, now_s = data["metadata"]["namespace"], time.perf_counter()
            for measurement in self.measurements:
                measurement.note(namespace, seen, now_s)

    def _matching(self, labels: Mapping[str, str]) -> tuple[Selector, ...]:
        return tuple(each for each in self._selectors if each <= labels.items())

    def pods(self, namespace: str, selector: Selector) -> list[str]:
        """Return the names of all pods."""
        prefix = f"{namespace}/"
        return [
            key.removeprefix(prefix)
            for key, seen in self._seen.items()
            if key.startswith(prefix) and selector in seen.selectors
        ]

    def reached(self, namespace: str, selector: Selector, stage: str) -> int:
        """Return the number of pods at a stage: `Attempted` or `Scheduled`."""
        counts = self._counts[namespace, selector]
        return counts.attempted if stage == "Attempted" else counts.bound

    async def wait(
        self, wanted: Mapping[str, int], selector: Selector, stage: str, timeout_s: float
    ) -> None:
        """Wait until a number of pods of each namespace have reached a stage.

        Raises:
            TimeoutError: too few pods did in time; the text has the missing number per namespace.
        """
        try:
            async with asyncio.timeout(timeout_s):
                for namespace, count in wanted.items():
                    while self.reached(namespace, selector, stage) < count:
                        self._changed.clear()
                        await self._changed.wait()
        except TimeoutError:
            missing = ", ".join(
                f"{reached} of {count} in {namespace}"
                for namespace, count in wanted.items()
                if (reached := self.reached(namespace, selector, stage)) < count
            )
            raise TimeoutError(f"after {timeout_s:g} s only {missing} {stage.lower()}") from None


def _has_condition(pod: Mapping[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions")
    return bool(conditions) and any(each["type"] == "PodScheduled" for each in conditions)
