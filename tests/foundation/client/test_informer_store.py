from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubesched.api.access import EventType, WatchEvent
from kubesched.api.meta import ObjectMeta
from kubesched.api.node import Node
from kubesched.api.pod import Pod
from kubesched.foundation.client.informer_store import ObjectStore, StoreChange


def pod(name: str, version: int = 1, namespace: str = "default", uid: str = "") -> Pod:
    metadata = ObjectMeta(name=name, namespace=namespace, resource_version=str(version), uid=uid)
    return Pod(metadata=metadata)


def event(kind: EventType, changed: Pod) -> WatchEvent[Pod]:
    return WatchEvent(kind, changed, changed.metadata.resource_version)


def filled(*pods: Pod) -> ObjectStore[Pod]:
    store: ObjectStore[Pod] = ObjectStore()
    store.replace(pods)
    return store


def test_an_added_object_is_new() -> None:
    store = filled()
    assert store.apply(event("ADDED", pod("a"))) == StoreChange(None, pod("a"))
    assert store.get("a", "default") == pod("a")


def test_a_change_contains_the_object_before_it() -> None:
    store = filled(pod("a", 1))
    assert store.apply(event("MODIFIED", pod("a", 2))) == StoreChange(pod("a", 1), pod("a", 2))


def test_the_content_of_the_store_decides_the_type_of_a_change() -> None:
    store = filled(pod("a", 1))
    assert store.apply(event("ADDED", pod("a", 2))) == StoreChange(pod("a", 1), pod("a", 2))
    assert store.apply(event("MODIFIED", pod("b", 3))) == StoreChange(None, pod("b", 3))


def test_a_deletion_brings_the_final_state() -> None:
    store = filled(pod("a", 1))
    assert store.apply(event("DELETED", pod("a", 2))) == StoreChange(pod("a", 2), None)
    assert store.get("a", "default") is None
    assert len(store) == 0


def test_deleting_the_unknown_changes_nothing() -> None:
    assert filled(pod("b")).apply(event("DELETED", pod("a"))) is None


def test_deletion_of_an_unseen_recreated_object_removes_the_cached_one() -> None:
    """Seed 7078 of the fault injection: the requests of the first pod were never released."""
    known, successor = pod("a", 1, uid="first"), pod("a", 3, uid="second")
    store = filled(known)
    told: list[tuple[Pod | None, Pod | None]] = []
    store.follow(lambda old, new: told.append((old, new)))
    gone = StoreChange(known, None, final_state_unknown=True)
    assert store.apply(event("DELETED", successor)) == gone
    assert told == [(None, known), (known, None)]
    assert store.get("a", "default") is None


def test_bookmarks_change_nothing() -> None:
    bookmark: WatchEvent[Pod] = WatchEvent("BOOKMARK", None, "7")
    assert filled(pod("a")).apply(bookmark) is None


def test_a_list_yields_missed_deletions_first_then_its_objects_in_order() -> None:
    store = filled(pod("gone"), pod("changed", 1), pod("same", 1))
    assert store.replace([pod("new", 5), pod("same", 1), pod("changed", 4)]) == [
        StoreChange(pod("gone"), None, final_state_unknown=True),
        StoreChange(None, pod("new", 5)),
        StoreChange(pod("same", 1), pod("same", 1)),
        StoreChange(pod("changed", 1), pod("changed", 4)),
    ]
    assert len(store) == 3


def test_objects_are_found_by_namespace_and_name() -> None:
    store = filled(pod("a", namespace="one"), pod("a", 2, namespace="two"), pod("b", 3, "two"))
    assert store.get("a", "two") == pod("a", 2, "two")
    assert store.get("a") is None
    assert store.get("a", "three") is None
    assert list(store.list("two")) == [pod("a", 2, "two"), pod("b", 3, "two")]
    assert list(store.list("three")) == []
    everything = store.list()
    assert len(everything) == 3
    assert pod("b", 3, "two") in everything
    assert pod("c") not in everything
    assert {found.metadata.namespace for found in everything} == {"one", "two"}


def test_cluster_scoped_objects_need_no_namespace() -> None:
    store: ObjectStore[Node] = ObjectStore()
    node = Node(metadata=ObjectMeta(name="n"))
    store.replace([node])
    assert store.get("n") is node
    assert list(store.list()) == [node]


def test_an_empty_store_lists_nothing() -> None:
    assert list(filled().list()) == []
    assert len(filled().list()) == 0


names = st.sampled_from("abcd")
namespaces = st.sampled_from(["x", "y"])
steps = st.one_of(
    st.tuples(st.sampled_from(["ADDED", "MODIFIED", "DELETED"]), names, namespaces),
    st.lists(st.tuples(names, namespaces), unique=True, max_size=6),
)


@given(st.lists(steps, max_size=30))
def test_replaying_the_changes_restores_the_content(history: list[Any]) -> None:
    store, copy = filled(), dict[tuple[str, str], Pod]()
    for version, step in enumerate(history):
        if isinstance(step, list):
            changes = store.replace([pod(name, version, namespace) for name, namespace in step])
        else:
            kind, name, namespace = step
            change = store.apply(event(kind, pod(name, version, namespace)))
            changes = [] if change is None else [change]
        for change in changes:
            shown = change.new or change.old
            assert shown is not None
            key = (shown.metadata.namespace, shown.metadata.name)
            assert (key in copy) == (change.old is not None)
            if change.new is None:
                del copy[key]
            else:
                copy[key] = change.new
        assert {(p.metadata.namespace, p.metadata.name): p for p in store.list()} == copy
        assert len(store) == len(store.list()) == len(copy)
        for space in ("x", "y"):
            assert len(store.list(space)) == sum(key[0] == space for key in copy)


def test_a_follower_gets_the_existing_objects_and_every_stored_change() -> None:
    store = filled(pod("a", 1))
    heard: list[tuple[Any, Any, bool]] = []

    def listener(old: Pod | None, new: Pod | None) -> None:
        changed = old if new is None else new
        assert changed is not None
        heard.append((old, new, store.get(changed.metadata.name, "default") is new))

    store.follow(listener)
    store.apply(event("MODIFIED", pod("a", 2)))
    store.apply(event("ADDED", pod("b", 3)))
    store.apply(event("DELETED", pod("a", 4)))
    store.replace([pod("c", 5)])
    assert heard == [
        (None, pod("a", 1), True),
        (pod("a", 1), pod("a", 2), True),
        (None, pod("b", 3), True),
        (pod("a", 4), None, True),
        (pod("b", 3), None, True),
        (None, pod("c", 5), True),
    ]
