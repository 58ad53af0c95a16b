"""The memory that a pod and a node of a real cluster may cost a scheduler, counted exactly."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable

import msgspec

from benchmarks.wire_cluster import node_json, pod_json
from kubesched.api import Node, Pod
from kubesched.api.codec import decode
from kubesched.api.sharing import NodeSharing, PodSharing
from kubesched.scheduler.backend.cache import Cache

NODES, PODS = 100, 2_000


def bytes_held(make: Callable[[], object]) -> int:
    """Return the memory that the made objects use, without garbage that awaits collection."""
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = make()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert made is not None
    return after - before


def decoded_pods(first: int = 0) -> list[Pod]:
    sharing = PodSharing()
    documents = (
        pod_json(number, f"node-{number % NODES:06d}", number % 20)
        for number in range(first, first + PODS)
    )
    return [sharing.share(decode(msgspec.json.encode(each), Pod), None) for each in documents]


def decoded_nodes() -> list[Node]:
    sharing = NodeSharing()
    documents = map(node_json, range(NODES))
    return [sharing.share(decode(msgspec.json.encode(each), Node), None) for each in documents]


def cache_of(nodes: list[Node], pods: list[Pod]) -> Cache:
    cache = Cache()
    for node in nodes:
        cache.add_node(node)
    for pod in pods:
        cache.add_pod(pod)
    cache.update_snapshot()
    return cache


def test_a_decoded_pod_takes_less_than_three_kilobytes() -> None:
    assert bytes_held(decoded_pods) / PODS < 3_000


def test_a_pod_in_the_cache_takes_a_quarter_of_a_kilobyte_more() -> None:
    nodes, pods = decoded_nodes(), decoded_pods()
    without = bytes_held(lambda: cache_of(nodes, []))
    assert (bytes_held(lambda: cache_of(nodes, pods)) - without) / PODS < 250


def test_the_garbage_collector_reads_nodes_and_not_their_pods() -> None:
    nodes, pods = decoded_nodes(), decoded_pods()
    gc.collect()
    before = len(gc.get_objects())
    cache = cache_of(nodes, pods)
    gc.collect()
    assert len(gc.get_objects()) - before < NODES * 2 + 2_000
    assert cache.pod_count == PODS
