"""Runs one workload: a fresh store, the real scheduler, the steps, and the result lines."""

from __future__ import annotations

import asyncio
import gc
import time
from array import array
from collections.abc import Iterator
from typing import Any

from benchmarks.measuring import percentile
from benchmarks.scheduler_perf.cluster import Cluster, MissingFeatureError
from benchmarks.scheduler_perf.features import missing_features
from benchmarks.scheduler_perf.files import Workload
from benchmarks.scheduler_perf.operations import Operations
from benchmarks.scheduler_perf.tracker import Selector, Tracker, selector_of
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.randomness import derive
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.config.load import load_configuration_file
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["run_workload"]

_SEED = 0


class TimedScheduler(Scheduler):
    """The scheduler; it records the durations of attempts during measurements."""

    def __init__(self, tracker: Tracker, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._tracker = tracker
        self.attempts_s = array("d")

    def schedule_one(self, queued: QueuedPodInfo) -> bool:
        started_s = time.perf_counter()
        is_placed = super().schedule_one(queued)
        if self._tracker.measurements:
            self.attempts_s.append(time.perf_counter() - started_s)
        return is_placed


def run_workload(workload: Workload, timeout_s: float) -> Iterator[dict[str, Any]]:
    """Return a line per measurement of the workload, or one with the reason for none."""
    head: dict[str, Any] = {
        "benchmark": "scheduler_perf",
        "workload": workload.full_name,
        "labels": sorted(workload.labels),
    }
    missing = missing_features(workload, IN_TREE_PLUGINS)
    if missing:
        yield head | {"status": "skipped", "missing": missing}
        return
    gc.unfreeze()  # cycles of the previous workload must be collected
    try:
        results = asyncio.run(_run(workload, timeout_s))
    except MissingFeatureError as error:
        yield head | {"status": "skipped", "missing": [str(error)]}
    except (TimeoutError, ApiError) as error:
        yield head | {"status": "failed", "error": str(error)}
    except Exception as error:
        # A workload that fails must not stop the others.
        yield head | {"status": "failed", "error": f"{type(error).__name__}: {error}"}
    else:
        for result in results:
            yield head | {"status": "ok"} | result | _against(workload.threshold, result)


def _against(threshold: float | None, result: dict[str, Any]) -> dict[str, Any]:
    """Return the file's threshold, and the ratio of the scheduler's rate to it.

    The second ratio leaves out the time in which other processes used the processor.
    """
    if not threshold:
        return {"threshold": None, "ratio": None, "cpu_ratio": None}
    return {
        "threshold": threshold,
        "ratio": round(result["pods_per_s"] / threshold, 2),
        "cpu_ratio": round(result["pods_per_cpu_s"] / threshold, 2),
    }


async def _run(workload: Workload, timeout_s: float) -> list[dict[str, Any]]:
    clock = RealClock()
    tracker = Tracker(_selectors(workload))
    store = Store(derive(_SEED, "store"), now_ns=clock.now_ns(), on_change=tracker.on_change)
    gates, refused = _gates(workload)
    options: dict[str, Any] = {"feature_gates": gates}
    if workload.scheduler_config is not None:
        options["configuration"] = load_configuration_file(workload.scheduler_config)
    scheduler = TimedScheduler(tracker, LocalApi(store, clock), clock, **options)
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    operations = Operations(workload, Cluster(store, clock), tracker, timeout_s)
    try:
        await scheduler.informers.wait_for_sync()
        settle_collector()  # as a scheduler's process does
        await operations.run()
    finally:
        scheduler.stop()
        await running
    attempts_ms = {
        f"p{p}": round(percentile(scheduler.attempts_s, p) * 1000, 3) for p in (50, 90, 95, 99)
    }
    return [
        measurement.result()
        | ({"name": measurement.name} if len(operations.measurements) > 1 else {})
        | {"attempts": len(scheduler.attempts_s), "attempt_ms": attempts_ms}
        # The run then differs from the definition of the workload.
        | ({"ignored_gates": refused} if refused else {})
        for measurement in operations.measurements
    ]


def _gates(workload: Workload) -> tuple[FeatureGates, dict[str, bool]]:
    """Return the gates of the workload, and those that cannot be set in this release."""
    settings, refused = {}, {}
    for name, is_on in workload.gates.items():
        try:
            FeatureGates({name: is_on})
        except ConfigError:
            refused[name] = is_on
        else:
            settings[name] = is_on
    return FeatureGates(settings), refused


def _selectors(workload: Workload) -> set[Selector]:
    return {selector_of(step.get("labelSelector")) for step in workload.steps}
