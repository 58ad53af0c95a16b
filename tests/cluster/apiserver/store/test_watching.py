from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import ApiError
from kubesched.cluster.apiserver.store.store_watch import BOOKMARK_EVERY, Watcher
from tests.cluster.apiserver.cluster import Cluster, node, pod


def watch(cluster: Cluster, plural: str = "pods", **options: Any) -> Watcher:
    options.setdefault("resource_version", str(cluster.store.revision))
    return cluster.store.watch(cluster.resource(plural), **options)


def seen(watcher: Watcher) -> list[tuple[str, str]]:
    return [
        (each.type, each.record.data["metadata"]["name"] if each.record else "")
        for each in watcher.read()
    ]


def test_changes_come_in_order_and_once() -> None:
    cluster = Cluster()
    watcher = watch(cluster)
    cluster.create("pods", pod("a"))
    cluster.create("pods", pod("b"))
    cluster.bind("a", "n")
    cluster.delete("pods", "b")
    assert seen(watcher) == [
        ("ADDED", "a"),
        ("ADDED", "b"),
        ("MODIFIED", "a"),
        ("MODIFIED", "b"),  # a pod's deletion is marked before it is carried out
        ("DELETED", "b"),
    ]
    assert watcher.read() == []
    assert watcher.idle


def test_a_watch_begins_after_its_version() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    version = str(cluster.store.revision)
    cluster.create("pods", pod("b"))
    assert seen(watch(cluster, resource_version=version)) == [("ADDED", "b")]


def test_a_watch_without_a_version_begins_with_current_objects() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("b"))
    cluster.create("pods", pod("a"))
    watcher = watch(cluster, resource_version="0")
    cluster.create("pods", pod("c"))
    assert seen(watcher) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_a_watch_from_the_future_shows_nothing_before_it() -> None:
    cluster = Cluster()
    future = cluster.store.revision + 2
    watcher = watch(cluster, resource_version=str(future))
    for name in "abc":
        cluster.create("pods", pod(name))
    assert seen(watcher) == [("ADDED", "c")]


def test_a_watch_omits_other_kinds_and_namespaces() -> None:
    cluster = Cluster()
    watcher = watch(cluster, namespace="kube-system")
    cluster.create("nodes", node("n"))
    cluster.create("pods", pod("a"))
    cluster.create("pods", pod("b"), "kube-system")
    assert seen(watcher) == [("ADDED", "b")]


def test_entering_a_selection_adds_and_leaving_it_deletes() -> None:
    cluster = Cluster()
    watcher = watch(cluster, label_selector="app=x")
    cluster.create("pods", pod("a", labels={"app": "y"}))
    cluster.patch("pods", "a", {"metadata": {"labels": {"app": "x"}}})
    cluster.patch("pods", "a", {"metadata": {"labels": {"more": "1"}}})
    cluster.patch("pods", "a", {"metadata": {"labels": {"app": "z"}}})
    cluster.patch("pods", "a", {"metadata": {"labels": {"more": "2"}}})
    cluster.delete("pods", "a")
    assert seen(watcher) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]


def test_an_object_that_no_longer_matches_is_shown_with_its_old_state() -> None:
    cluster = Cluster()
    watcher = watch(cluster, field_selector="spec.nodeName=")
    cluster.create("pods", pod("a"))
    bound = cluster.bind("a", "n")
    _, left = watcher.read()
    assert left.record is not None
    assert "nodeName" not in left.record.data["spec"]
    assert left.record.data["metadata"]["resourceVersion"] == str(bound.revision)
    assert left.event.object.spec.node_name == ""
    assert left.event.resource_version == str(bound.revision)


def test_a_deleted_object_is_shown_under_the_version_of_its_deletion() -> None:
    cluster = Cluster()
    cluster.create("nodes", node("n"))
    watcher = watch(cluster, "nodes")
    cluster.delete("nodes", "n")
    (deleted,) = watcher.read()
    assert deleted.event.object.metadata.resource_version == str(cluster.store.revision)


def test_an_unknown_field_cannot_be_selected_by() -> None:
    with pytest.raises(ApiError, match=r"field label not supported: spec\.x") as refused:
        watch(Cluster(), field_selector="spec.x=1")
    assert refused.value.code == 400


def test_a_version_no_longer_in_the_log_is_too_old() -> None:
    cluster = Cluster(history=10)
    version = cluster.store.revision
    for number in range(30):
        cluster.create("pods", pod(f"p{number}"))
    with pytest.raises(ApiError, match=rf"too old resource version: {version} \(\d+\)") as refused:
        watch(cluster, resource_version=str(version))
    assert (refused.value.code, refused.value.reason) == (410, "Expired")


def test_changes_that_all_watchers_have_read_can_be_dropped() -> None:
    cluster = Cluster()
    version, watcher = cluster.store.revision, watch(cluster)
    cluster.create("pods", pod("a"))
    watcher.read()
    collection = watcher.collection
    read = collection.end
    cluster.create("pods", pod("b"))
    collection.drop_before(read)
    collection.drop_before(read)
    collection.check_invariants(cluster.store.revision)
    assert seen(watcher) == [("ADDED", "b")]
    with pytest.raises(ApiError, match="too old resource version"):
        watch(cluster, resource_version=str(version))


def test_writes_to_one_resource_do_not_shorten_the_log_of_another() -> None:
    cluster = Cluster(history=10)
    version = str(cluster.store.revision)
    for number in range(100):
        cluster.create("pods", pod(f"p{number}"))
    cluster.create("nodes", node("n"))
    assert seen(watch(cluster, "nodes", resource_version=version)) == [("ADDED", "n")]


def test_a_watcher_that_does_not_read_is_dropped() -> None:
    cluster = Cluster(history=10)
    watcher = watch(cluster)
    for number in range(30):
        cluster.create("pods", pod(f"p{number}"))
    with pytest.raises(ApiError) as refused:
        watcher.read()
    assert refused.value.code == 410


def test_the_log_is_bounded_and_holds_its_minimum() -> None:
    cluster = Cluster(history=10)
    collection = cluster.store.collection(cluster.resource("pods"))
    for number in range(100):
        cluster.create("pods", pod(f"p{number}"))
        held = len(list(collection.history()))
        assert min(number + 1, 10) <= held < 20


def test_a_watcher_with_few_events_gets_bookmarks() -> None:
    cluster = Cluster()
    cluster.create("nodes", node("n"))
    watcher = watch(cluster, "nodes", label_selector="never=true")
    for number in range(BOOKMARK_EVERY + 1):
        cluster.patch("nodes", "n", {"metadata": {"labels": {"n": str(number)}}})
    (bookmark,) = watcher.read()
    assert (bookmark.type, bookmark.record) == ("BOOKMARK", None)
    assert bookmark.revision == cluster.store.revision - 1
    assert bookmark.event.object is None
    assert bookmark.event.resource_version == str(cluster.store.revision - 1)


def test_many_watchers_share_one_decoded_object() -> None:
    cluster = Cluster()
    watchers = [watch(cluster) for _ in range(3)]
    cluster.create("pods", pod("a"))
    objects = {id(watcher.read()[0].event.object) for watcher in watchers}
    assert len(objects) == 1


def test_an_object_is_encoded_once() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("a"))
    record = cluster.store.get(cluster.resource("pods"), "default", "a")
    assert record.encoded is record.encoded


def test_a_waiting_task_is_woken_once_and_can_be_cancelled() -> None:
    cluster = Cluster()
    collection = cluster.store.collection(cluster.resource("pods"))
    calls: list[str] = []

    def first() -> None:
        calls.append("first")

    def second() -> None:
        calls.append("second")

    collection.call_on_change(first)
    collection.call_on_change(second)
    collection.cancel_call(second)
    cluster.create("pods", pod("a"))
    cluster.create("pods", pod("b"))
    assert calls == ["first"]


def test_on_change_is_called_for_every_change() -> None:
    log: list[tuple[str, str]] = []
    cluster = Cluster(on_change=lambda change: log.append((change.type, change.record.key)))
    log.clear()
    cluster.create("pods", pod("a"))
    cluster.bind("a", "n")
    cluster.delete("pods", "a", grace_period_seconds=0)
    assert [kind for kind, _ in log] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
    assert {key for _, key in log} == {"default/a"}
