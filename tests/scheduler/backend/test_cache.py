"""Transitions of the cache and its snapshot (docs/reference/04 §4, §6)."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import ContainerStatus, Pod, ResourceRequirements
from kubesched.api.labels import Selector
from kubesched.errors import CacheError
from kubesched.framework import PodInfo
from kubesched.framework.engine import CPU, MEMORY
from kubesched.framework.pod_query import PodQuery
from kubesched.scheduler.backend.cache import Cache, CacheCorruptedError
from kubesched.testing import make_node, make_pod

ZONE = "topology.kubernetes.io/zone"
IMAGE = "registry.example/app:v1"


def bound(name: str, node: str, cpu: str = "1", **more: object) -> Pod:
    return make_pod(name, node_name=node, requests={"cpu": cpu}, **more)  # type: ignore[arg-type]


def cpu_on(cache: Cache, node: str) -> int:
    snapshot = cache.update_snapshot()
    return int(snapshot.table.requested[CPU, snapshot.table.row_of[node]])


def cache_with(*nodes: str) -> Cache:
    cache = Cache()
    for name in nodes:
        cache.add_node(make_node(name))
    return cache


# -- pods ------------------------------------------------------------------------------


def test_an_assumed_pod_counts_until_it_is_removed() -> None:
    cache = cache_with("n1")
    pod = bound("p", "n1")
    cache.assume_pod(PodInfo(pod))
    assert cache.is_assumed(pod)
    assert cpu_on(cache, "n1") == 1000
    cache.forget_pod(pod)
    cache.forget_pod(pod)  # a second time is no error
    assert not cache.is_assumed(pod)
    assert cpu_on(cache, "n1") == 0


def test_a_confirmed_pod_is_no_longer_assumed_and_counts_once() -> None:
    cache = cache_with("n1")
    pod = bound("p", "n1")
    cache.assume_pod(PodInfo(pod))
    cache.add_pod(pod)
    assert not cache.is_assumed(pod)
    assert cpu_on(cache, "n1") == 1000


def test_a_pod_assumed_on_one_node_and_reported_on_another_counts_on_the_other() -> None:
    cache = cache_with("n1", "n2")
    cache.assume_pod(PodInfo(bound("p", "n1")))
    cache.add_pod(bound("p", "n2"))
    assert (cpu_on(cache, "n1"), cpu_on(cache, "n2")) == (0, 1000)


def test_a_confirmed_pod_with_other_requests_counts_as_the_api_shows_it() -> None:
    cache = cache_with("n1")
    cache.assume_pod(PodInfo(bound("p", "n1", cpu="1")))
    cache.add_pod(bound("p", "n1", cpu="2"))
    assert cpu_on(cache, "n1") == 2000


def test_an_update_is_counted_again() -> None:
    cache = cache_with("n1")
    cache.add_pod(bound("p", "n1", cpu="1"))
    cache.update_pod(bound("p", "n1", cpu="1"), bound("p", "n1", cpu="3"))
    assert cpu_on(cache, "n1") == 3000


def test_a_late_deletion_without_a_node_name_removes_the_cached_pod() -> None:
    cache = cache_with("n1")
    cache.add_pod(bound("p", "n1"))
    cache.remove_pod(bound("p", ""))
    assert cpu_on(cache, "n1") == 0


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_removing_an_assumed_pod_works(node: str) -> None:
    """Seed 600000004079: another scheduler binds the pod, and only its deletion is watched."""
    cache = cache_with("n1", "n2")
    cache.assume_pod(PodInfo(bound("p", "n1")))
    cache.remove_pod(bound("p", node))
    assert cpu_on(cache, "n1") == 0
    assert cache.pod_count == cache.assumed_count == 0


def _assumed(cache: Cache) -> None:
    cache.assume_pod(PodInfo(bound("p", "n1")))


def _added(cache: Cache) -> None:
    cache.add_pod(bound("p", "n1"))


def _nothing(cache: Cache) -> None:
    pass


P = bound("p", "n1")
NAMED = "pod.default.p(default/p)"
ILLEGAL: dict[str, tuple[Callable[[Cache], None], Callable[[Cache], object], str]] = {
    "assume twice": (
        _assumed,
        lambda c: c.assume_pod(PodInfo(P)),
        f"pod {NAMED} is in the cache, so can't be assumed",
    ),
    "assume an added pod": (
        _added,
        lambda c: c.assume_pod(PodInfo(P)),
        f"pod {NAMED} is in the cache, so can't be assumed",
    ),
    "forget an added pod": (
        _added,
        lambda c: c.forget_pod(P),
        f"pod {NAMED} wasn't assumed so cannot be forgotten",
    ),
    "forget on another node": (
        _assumed,
        lambda c: c.forget_pod(bound("p", "n2")),
        f"pod {NAMED} was assumed on n2 but assigned to n1",
    ),
    "add twice": (_added, lambda c: c.add_pod(P), f"pod {NAMED} was already in added state"),
    "update a stranger": (
        _nothing,
        lambda c: c.update_pod(P, P),
        f"pod {NAMED} is not added to scheduler cache, so cannot be updated",
    ),
    "update an assumed pod": (
        _assumed,
        lambda c: c.update_pod(P, P),
        f"assumed pod {NAMED} should not be updated",
    ),
    "remove a stranger": (
        _nothing,
        lambda c: c.remove_pod(P),
        f"pod {NAMED} is not found in scheduler cache, so cannot be removed from it",
    ),
    "get a stranger": (
        _nothing,
        lambda c: c.get_pod(P),
        f"pod {NAMED} does not exist in scheduler cache",
    ),
    "a pod without a uid": (
        _nothing,
        lambda c: c.add_pod(bound("p", "n1", uid="")),
        "cannot get cache key for pod with empty UID",
    ),
    "remove an unknown node": (
        _nothing,
        lambda c: c.remove_node(make_node("n9")),
        "node n9 is not found",
    ),
}


@pytest.mark.parametrize(("before", "operation", "message"), ILLEGAL.values(), ids=ILLEGAL)
def test_illegal_transitions_are_refused(
    before: Callable[[Cache], None], operation: Callable[[Cache], object], message: str
) -> None:
    cache = cache_with("n1", "n2")
    before(cache)
    with pytest.raises(CacheError) as refusal:
        operation(cache)
    assert str(refusal.value) == message
    cache.check_invariants()


@pytest.mark.parametrize(
    "operation",
    [
        lambda c: c.update_pod(P, bound("p", "n2")),
        lambda c: c.remove_pod(bound("p", "n2")),
    ],
    ids=["update", "remove"],
)
def test_a_pod_that_moved_means_a_corrupted_cache(operation: Callable[[Cache], None]) -> None:
    cache = cache_with("n1", "n2")
    cache.add_pod(P)
    with pytest.raises(CacheCorruptedError):
        operation(cache)


# -- nodes and the snapshot ------------------------------------------------------------


def test_pods_on_an_unknown_node_become_visible_with_it() -> None:
    cache = Cache()
    cache.add_pod(bound("p", "late"))
    assert len(cache.update_snapshot()) == 0
    cache.add_node(make_node("late"))
    snapshot = cache.update_snapshot()
    info = snapshot.get("late")
    assert info is not None
    assert [each.pod.metadata.name for each in info.pods] == ["p"]
    assert cpu_on(cache, "late") == 1000


def test_a_removed_node_stays_without_an_object_until_its_last_pod_is_removed() -> None:
    cache = cache_with("n1", "n2")
    cache.add_pod(bound("p", "n1"))
    cache.remove_node(make_node("n1"))
    assert [node.name for node in cache.update_snapshot().nodes] == ["n2"]
    assert cache.node_count == 2
    cache.remove_pod(bound("p", "n1"))
    assert cache.node_count == 1
    with pytest.raises(CacheError):
        cache.remove_node(make_node("n1"))


def order_of(cache: Cache) -> list[str]:
    snapshot = cache.update_snapshot()
    return list(snapshot.table.names_of(snapshot.order))


def test_a_change_of_zone_alone_does_not_reorder_the_nodes() -> None:
    cache = Cache()
    for name, zone in {"a": "z1", "b": "z1", "c": "z2"}.items():
        cache.add_node(make_node(name, labels={ZONE: zone}))
    assert order_of(cache) == ["a", "c", "b"]
    cache.update_node(make_node("a", labels={ZONE: "z2"}))
    assert order_of(cache) == ["a", "c", "b"]
    cache.add_node(make_node("d", labels={ZONE: "z3"}))
    assert order_of(cache) == ["b", "c", "d", "a"]


def test_the_order_is_the_one_when_the_snapshot_was_taken_whenever_it_is_read() -> None:
    cache = Cache()
    for name, zone in {"a": "z1", "b": "z1", "c": "z2"}.items():
        cache.add_node(make_node(name, labels={ZONE: zone}))
    cache.update_snapshot()
    cache.update_node(make_node("a", labels={ZONE: "z2"}))
    assert order_of(cache) == ["a", "c", "b"]


def test_a_node_recreated_between_refreshes_retains_its_position() -> None:
    cache = cache_with("a", "b", "c")
    assert order_of(cache) == ["a", "b", "c"]
    cache.remove_node(make_node("a"))
    cache.add_node(make_node("x"))
    cache.remove_node(make_node("x"))
    cache.add_node(make_node("a", cpu="1"))
    assert order_of(cache) == ["a", "b", "c"]
    snapshot = cache.snapshot
    assert snapshot.table.allocatable[CPU, snapshot.table.row_of["a"]] == 1000


def image_state(cache: Cache, node: str) -> tuple[int, int]:
    info = cache.update_snapshot().get(node)
    assert info is not None
    state = info.image_states[IMAGE]
    return state.size_bytes, state.node_count


def test_the_first_reporter_of_an_image_sets_its_size() -> None:
    cache = Cache()
    cache.add_node(make_node("n1", images={IMAGE: 10}))
    cache.add_node(make_node("n2", images={IMAGE: 20}))
    assert image_state(cache, "n1") == image_state(cache, "n2") == (10, 2)
    cache.update_node(make_node("n1"))
    cache.update_node(make_node("n2"))
    cache.update_node(make_node("n2", images={IMAGE: 20}))
    assert image_state(cache, "n2") == (20, 1)


def test_image_counts_are_those_of_a_nodes_last_refresh() -> None:
    cache = Cache()
    cache.add_node(make_node("n1", images={IMAGE: 10}))
    cache.update_snapshot()
    cache.add_node(make_node("n2", images={IMAGE: 10}))
    assert image_state(cache, "n2") == (10, 2)
    assert image_state(cache, "n1") == (10, 1)
    cache.add_pod(bound("p", "n1"))  # touches n1
    assert image_state(cache, "n1") == (10, 2)


def test_claims_of_scheduled_pods_are_cached_while_any_of_them_runs() -> None:
    cache = cache_with("n1")
    cache.add_pod(bound("p", "n1", pvcs=["data"]))
    cache.add_pod(bound("q", "n1", pvcs=["data"]))
    assert cache.update_snapshot().has_pvc_in_use("default/data")
    cache.remove_pod(bound("p", "n1", pvcs=["data"]))
    assert cache.update_snapshot().has_pvc_in_use("default/data")
    cache.remove_pod(bound("q", "n1", pvcs=["data"]))
    assert not cache.update_snapshot().has_pvc_in_use("default/data")


# -- the table equals a recount --------------------------------------------------------


def random_step(cache: Cache, rng: random.Random, pods: dict[str, Pod]) -> None:
    """Make one random change, as informers and the scheduler do; refusals are allowed."""
    node = f"n{rng.randrange(5)}"
    name = f"p{rng.randrange(8)}"
    ports = [rng.randrange(8000, 8003)] if rng.random() < 0.3 else []
    requests = {"cpu": f"{rng.randrange(4)}", "memory": "1Gi"}
    if rng.random() < 0.3:
        requests["example.com/gpu"] = "1"
    pod = make_pod(name, node_name=node, requests=requests, host_ports=ports)
    steps: list[Callable[[], None]] = [
        lambda: cache.add_node(make_node(node, cpu=str(rng.randrange(8)))),
        lambda: cache.remove_node(make_node(node)),
        lambda: cache.assume_pod(PodInfo(pod)),
        lambda: cache.add_pod(pod),
        lambda: cache.forget_pod(pods.get(name, pod)),
        lambda: cache.remove_pod(pods.get(name, pod)),
        lambda: cache.update_snapshot() and None,
    ]
    try:
        rng.choice(steps)()
    except CacheError:
        return
    found = cache._pods.get(pod.metadata.uid)
    if found is not None:
        pods[name] = found.pod


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**32), steps=st.integers(1, 80))
def test_columns_equal_a_recount_after_any_sequence_of_changes(seed: int, steps: int) -> None:
    rng = random.Random(seed)
    cache, pods = Cache(), {}
    for _ in range(steps):
        random_step(cache, rng, pods)
    cache.check_invariants()
    snapshot = cache.update_snapshot()
    table = snapshot.table
    real = {name: info for name, info in cache._nodes.items() if info.node is not None}
    assert set(table.row_of) == set(real)
    for name, info in real.items():
        row = table.row_of[name]
        running = [each.pod for each in cache._pods.values() if each.pod.spec.node_name == name]
        cpu = sum(int(pod.spec.containers[0].resources.requests["cpu"]) for pod in running)
        assert table.requested[CPU, row] == 1000 * cpu
        assert table.requested[MEMORY, row] == len(running) * 2**30
        assert table.pod_count[row] == len(running)
        assert table.allocatable[CPU, row] == info.allocatable.milli_cpu
        gpu = table.resource_column("example.com/gpu")
        if gpu >= 0:
            wanted = sum(
                "example.com/gpu" in p.spec.containers[0].resources.requests for p in running
            )
            assert table.requested[gpu, row] == wanted
    assert sorted(np.sort(snapshot.order).tolist()) == sorted(table.row_of.values())


def test_a_start_time_that_is_set_later_is_logged_apart_from_other_changes() -> None:
    cache = Cache(pod_updates_change_rows=False)
    cache.add_node(make_node("a"))
    cache.add_node(make_node("b"))
    pod = make_pod("p", node_name="b", phase="Pending")
    cache.add_pod(pod)
    table = cache.update_snapshot().table
    position, pod_position = table.changes.position, table.pod_changes.position
    same = make_pod("p", node_name="b", phase="Running")
    cache.update_pod(pod, same)
    assert table.pod_changes.position == pod_position
    started = make_pod("p", node_name="b", phase="Running", start_time="2026-01-01T00:00:00Z")
    cache.update_pod(same, started)
    cache.update_snapshot()
    assert table.changes.position == position
    rows = table.pod_changes.since(pod_position)
    assert rows is not None
    assert [table.names[row] for row in rows] == ["b"]


WEB = PodQuery([(frozenset({"default"}), Selector.from_map({"app": "web"}))])


@pytest.mark.parametrize("is_confirmed_at_once", [True, False], ids=["at once", "later"])
@pytest.mark.parametrize("do_rows_change", [True, False], ids=["row", "no row"])
def test_a_bound_pod_with_changed_labels_retains_its_position(
    is_confirmed_at_once: bool, do_rows_change: bool
) -> None:
    """API servers copy labels of the node onto pods that are bound."""
    cache = Cache(pod_updates_change_rows=do_rows_change)
    for name in ("n1", "n2"):
        cache.add_node(make_node(name))
    table = cache.update_snapshot().table
    cache.assume_pod(PodInfo(bound("p", "n2")))
    if not is_confirmed_at_once:
        cache.update_snapshot()
    position, pod_position = table.changes.position, table.pod_changes.position
    cache.add_pod(bound("p", "n2", labels={"app": "web"}))
    snapshot = cache.update_snapshot()
    assert snapshot.pod_index.count(WEB).get(table.row_of["n2"]) == 1
    assert cpu_on(cache, "n2") == 1000
    assert not cache.is_assumed(bound("p", "n2"))
    rows = table.changes.since(position)
    assert rows is not None
    # The row was written for the assumption in any case.
    assert len(rows) == (do_rows_change or is_confirmed_at_once)
    relabelled = table.pod_changes.since(pod_position)
    assert relabelled is not None
    assert [table.names[row] for row in relabelled] == ["n2"]


def test_pods_on_nodes_beyond_the_first_table_may_change_their_labels() -> None:
    cache = Cache()
    capacity = cache.snapshot.table.capacity
    for number in range(capacity + 1):
        cache.add_node(make_node(f"n{number}"))
    last = f"n{capacity}"
    cache.add_pod(bound("p", last))
    table = cache.update_snapshot().table
    position = table.pod_changes.position
    cache.update_pod(bound("p", last), bound("p", last, labels={"app": "web"}))
    assert cache.update_snapshot().pod_index.count(WEB).get(table.row_of[last]) == 1
    relabelled = table.pod_changes.since(position)
    assert relabelled is not None
    assert relabelled.tolist() == [table.row_of[last]]


def test_a_node_added_again_as_the_same_object_is_visible() -> None:
    cache, node = Cache(), make_node("n1", cpu="4")
    for _ in range(2):
        cache.add_node(node)
        table = cache.update_snapshot().table
        assert table.allocatable[CPU, table.row_of["n1"]] == 4000
        cache.remove_node(node)
        cache.update_snapshot()


def test_nodes_that_swap_their_rows_retain_their_order() -> None:
    cache = cache_with("n1", "n2", "n3")
    table = cache.update_snapshot().table
    before, row = table.names_of(cache.snapshot.order), table.row_of["n1"]
    for name in ("n1", "n2"):
        cache.remove_node(make_node(name))
    for name in ("n1", "n2"):
        cache.add_node(make_node(name))
    cache.update_snapshot()
    assert table.row_of["n1"] != row
    assert table.names_of(cache.snapshot.order) == before


def test_a_node_without_its_images_is_shown_without() -> None:
    cache = Cache()
    cache.add_node(make_node("n1", images={"nginx": 300 * 2**20}))
    cache.update_snapshot()
    info = cache.nodes["n1"]
    assert info.image_states
    cache.update_node(make_node("n1"))
    cache.update_snapshot()
    assert not info.image_states


def test_amounts_follow_the_status_of_a_pod_that_is_resized() -> None:
    cache, pod = cache_with("n1"), bound("p", "n1")
    cache.add_pod(pod)
    for cpu, want in (("3", 3000), ("2", 2000)):
        resources = ResourceRequirements(requests={"cpu": cpu})
        statuses = (ContainerStatus(name="c0", resources=resources),)
        resized = replace(pod, status=replace(pod.status, container_statuses=statuses))
        cache.update_pod(pod, resized)
        assert cpu_on(cache, "n1") == want
        pod = resized


def test_label_changes_of_a_removed_node_apply_when_it_returns() -> None:
    cache = cache_with("n1")
    cache.add_pod(bound("p", "n1"))
    cache.update_snapshot()
    cache.remove_node(make_node("n1"))
    cache.update_pod(bound("p", "n1"), bound("p", "n1", labels={"app": "web"}))
    assert cache.update_snapshot().pod_index.count(WEB).total == 0
    cache.add_node(make_node("n1"))
    assert cache.update_snapshot().pod_index.count(WEB).total == 1


def test_changes_that_no_attempt_reads_do_not_accumulate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kubesched.scheduler.backend.cache.LONGEST_LOG", 10)
    cache = cache_with("n1", "n2")
    for number in range(100):
        cache.add_pod(bound(f"p{number}", "n1"))
        cache.update_pod(
            bound(f"p{number}", "n1"), bound(f"p{number}", "n1", labels={"app": "web"})
        )
        if number >= 3:
            cache.remove_pod(bound(f"p{number - 3}", "n1"))
        cache.update_node(make_node("n2", labels={"round": str(number)}))
        assert len(cache._log) <= 12
    assert cpu_on(cache, "n1") == 3000
    assert cache.snapshot.pod_index.count(WEB).total == 3
    cache.check_invariants()


def test_a_recreated_pod_replaces_the_old_one() -> None:
    cache = Cache()
    cache.add_node(make_node("n"))
    old = make_pod("p", uid="1", node_name="n", requests={"cpu": "1"})
    cache.add_pod(old)
    cache.update_pod(old, replace(old, metadata=replace(old.metadata, uid="2")))
    cache.check_invariants()
    assert cache.pod_count == 1
    cache.remove_pod(replace(old, metadata=replace(old.metadata, uid="2")))
    assert cache.nodes["n"].requested.milli_cpu == 0


UNREADABLE = {"cpu": "abc"}


def test_pods_with_invalid_amounts_do_not_change_totals() -> None:
    cache = Cache()
    cache.add_node(make_node("n"))
    with pytest.raises(CacheError, match="cannot be counted"):
        cache.add_pod(make_pod("p", node_name="n", requests=UNREADABLE))
    with pytest.raises(CacheError, match="cannot be counted"):
        cache.add_node(make_node("m", allocatable=UNREADABLE))
    good = make_pod("q", uid="q", node_name="n", requests={"cpu": "1"})
    cache.add_pod(good)
    with pytest.raises(CacheError, match="cannot be counted"):
        cache.update_pod(good, make_pod("q", uid="q", node_name="n", requests=UNREADABLE))
    cache.check_invariants()
    cache.update_snapshot()
    assert (cache.node_count, cache.pod_count) == (1, 1)
    assert cache.nodes["n"].requested.milli_cpu == 1000
