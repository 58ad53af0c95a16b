"""Pods as columns: after any history they show the pods on the nodes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.time import parse_time
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.plugins.default_preemption.pod_columns import NOT_STARTED, PodColumns
from kubesched.testing import make_node, make_pod

GPU = "example.com/gpu"


class RandomCache:
    """A cache with random changes."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.cache = Cache()
        self.nodes: dict[str, Any] = {}
        self.pods: dict[str, Pod] = {}
        self.number = 0

    def step(self) -> None:
        rng = self.rng
        self.number += 1
        choice = rng.random()
        if choice < 0.15 or not self.nodes:
            node = make_node(f"n{rng.randrange(90)}", extended={GPU: 4} if choice < 0.05 else None)
            self.nodes[node.metadata.name] = node
            self.cache.add_node(node)
        elif choice < 0.2:
            node = self.nodes.pop(rng.choice(list(self.nodes)))
            self.cache.remove_node(node)
        elif choice < 0.7 or not self.pods:
            pod = self.new_pod()
            self.pods[pod.metadata.name] = pod
            self.cache.add_pod(pod)
        elif choice < 0.85:
            pod = self.pods.pop(rng.choice(list(self.pods)))
            self.cache.remove_pod(pod)
        else:
            old = self.pods[rng.choice(list(self.pods))]
            status = replace(old.status, start_time=f"2026-01-01T00:{rng.randrange(60):02}:00Z")
            new = replace(old, status=status)
            self.pods[new.metadata.name] = new
            self.cache.update_pod(old, new)

    def new_pod(self) -> Pod:
        rng = self.rng
        requests: dict[str, Any] = {"cpu": rng.choice(("1", "100m")), "memory": "1Gi"}
        if rng.random() < 0.2:
            requests[rng.choice((GPU, "example.com/other"))] = 1
        return make_pod(
            f"p{self.number}",
            node_name=rng.choice(list(self.nodes)),
            labels={"app": rng.choice("xyz")},
            requests=requests,
            priority=rng.choice((None, -1, 0, 5, 5)),
        )


def check(columns: PodColumns, history: RandomCache, priority: int) -> None:
    """Check that each row has the pods below the priority, in order."""
    snapshot = history.cache.update_snapshot()
    nodes = snapshot.nodes
    rows = nodes.rows[np.array([history.rng.random() < 0.7 for _ in range(len(nodes))], bool)]
    columns.refresh(nodes, rows)
    matrix = columns.pods_below(rows, priority)
    for place, (row, node) in enumerate(zip(rows.tolist(), nodes.at_rows(rows), strict=True)):
        entries = matrix.entry[place][matrix.is_pod[place]].tolist()
        found = [columns.pod(row, entry) for entry in entries]
        assert len(found) == matrix.number[place]
        below = [each for each in node.pods if (each.pod.spec.priority or 0) < priority]
        want = sorted(below, key=lambda each: (-(each.pod.spec.priority or 0), started(each.pod)))
        assert [each.uid for each in found] == [each.uid for each in want]
        for entry, each in zip(entries, found, strict=True):
            assert columns.priority[entry] == (each.pod.spec.priority or 0)
            assert columns.start_ns[entry] == started(each.pod)
            namespace, labels = columns.label_sets.values[int(columns.label_set[entry])]
            assert (namespace, dict(labels)) == ("default", each.pod.metadata.labels)
            assert columns.entry_of(row, each.uid) == entry
            for number, name in enumerate(snapshot.table.resources.values):
                assert columns.amounts[number, entry] == each.requested.amount(name), name
        assert columns.entry_of(row, "nobody") is None


def started(pod: Pod) -> int:
    return NOT_STARTED if pod.status.start_time is None else parse_time(pod.status.start_time)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 400))
def test_columns_follow_the_nodes(seed: int, steps: int) -> None:
    history = RandomCache(seed)
    history.step()
    columns = PodColumns(history.cache.update_snapshot().table)
    columns.track_labels()
    for _ in range(steps):
        history.step()
        if history.rng.random() < 0.1:
            check(columns, history, history.rng.choice((-5, 0, 5, 6)))
    check(columns, history, 6)


def test_abandoned_ranges_are_reclaimed() -> None:
    """Columns must not grow forever when the number of pods fluctuates."""
    cache = Cache()
    cache.add_node(make_node("n"))
    columns = PodColumns(cache.update_snapshot().table)
    for size in [*range(1, 120)] * 5:
        pods = [make_pod(f"p{number}", node_name="n") for number in range(size)]
        for pod in pods:
            cache.add_pod(pod)
        snapshot = cache.update_snapshot()
        columns.compact()
        columns.refresh(snapshot.nodes, snapshot.nodes.rows)
        assert columns.pods_below(snapshot.nodes.rows, 1).number.tolist() == [size]
        for pod in pods:
            cache.remove_pod(pod)
    assert len(columns.priority) <= 4096


def test_indexes_are_valid_until_the_columns_are_tidied() -> None:
    """Indexes of a search stay valid although other rows outgrow their ranges."""
    cache = Cache()
    for name in ("steady", "growing"):
        cache.add_node(make_node(name))
    cache.add_pod(make_pod("kept", node_name="steady"))
    snapshot = cache.update_snapshot()
    columns = PodColumns(snapshot.table)
    steady, growing = (snapshot.table.rows_of([name]) for name in ("steady", "growing"))
    columns.refresh(snapshot.nodes, steady)
    restarts, entry = columns.restarts, int(columns.pods_below(steady, 1).entry[0, 0])
    for number in range(300):
        cache.add_pod(make_pod(f"p{number}", node_name="growing"))
        snapshot = cache.update_snapshot()
        columns.refresh(snapshot.nodes, growing)
        assert columns.pod(int(steady[0]), entry).pod.metadata.name == "kept"
    assert columns.restarts == restarts
    columns.compact()
    assert columns.restarts == restarts + 1
