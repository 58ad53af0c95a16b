"""The tracker counts pods as the store changes, and computes rates from the times of bindings."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from benchmarks.scheduler_perf.tracker import (
    ALL,
    Measurement,
    Tracker,
    selector_of,
    throughput_samples,
)
from kubesched.cluster.apiserver.store.object_store import Store

SAMPLES = {
    "each second has its own rate": ([10.5, 10.6, 11.5, 12.0], [2.0, 2.0]),
    "the last second may be short": ([10.5, 11.25], [1.0, 4.0]),
    "idle seconds share the rate of what follows": ([12.5, 13.0], [pytest.approx(2 / 3)] * 3),
    "nothing bound, nothing sampled": ([], []),
}


@pytest.mark.parametrize(("bound_at", "want"), SAMPLES.values(), ids=SAMPLES)
def test_throughput_samples_merge_idle_seconds(bound_at: list[float], want: list[Any]) -> None:
    assert throughput_samples(10.0, bound_at) == want


RED = selector_of({"color": "red"})


def cluster(*measurements: Measurement) -> tuple[Store, Tracker]:
    tracker = Tracker([RED])
    tracker.measurements.extend(measurements)
    store = Store(on_change=tracker.on_change)
    store.create(
        store.catalog.by_url("", "v1", "nodes"), None, {"metadata": {"name": "n"}}, now_ns=0
    )
    return store, tracker


def create(store: Store, name: str, **labels: str) -> str:
    spec = {"containers": [{"name": "c", "image": "i"}]}
    body = {"metadata": {"name": name, "labels": labels}, "spec": spec}
    pods = store.catalog.by_url("", "v1", "pods")
    uid: str = store.create(pods, "default", body, 0).data["metadata"]["uid"]
    return uid


def test_pods_count_per_selector_from_creation_to_deletion() -> None:
    measurement = Measurement("m", ["default"], RED)
    store, tracker = cluster(measurement)
    red, blue = create(store, "red", color="red"), create(store, "blue", color="blue")
    assert tracker.reached("default", ALL, "Attempted") == 0
    store.bind("default", "red", red, "n", 0)
    store.bind("default", "blue", blue, "n", 0)
    assert tracker.reached("default", ALL, "Scheduled") == 2
    assert tracker.reached("default", RED, "Scheduled") == 1
    assert len(measurement.bound_at_s) == 1
    assert tracker.pods("default", RED) == ["red"]
    pods = store.catalog.by_url("", "v1", "pods")
    store.delete(pods, "default", "red", 0, grace_period_seconds=0)
    assert tracker.reached("default", ALL, "Scheduled") == 1
    assert tracker.pods("default", RED) == []


def test_a_rejected_pod_was_attempted() -> None:
    store, tracker = cluster()
    create(store, "p")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    store.patch(
        store.catalog.by_url("", "v1", "pods"),
        "default",
        "p",
        {"status": {"conditions": [condition]}},
        0,
        subresource="status",
    )
    assert tracker.reached("default", ALL, "Attempted") == 1
    assert tracker.reached("default", ALL, "Scheduled") == 0


def test_a_wait_that_times_out_shows_the_status() -> None:
    async def wait() -> None:
        store, tracker = cluster()
        create(store, "p")
        await tracker.wait({"default": 1}, ALL, "Scheduled", timeout_s=0)

    with pytest.raises(TimeoutError, match="only 0 of 1 in default scheduled"):
        asyncio.run(wait())
