"""Pods with equal specs share one dictionary, without any other visible effect."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.rules.strategies import shared_specs
from kubesched.cluster.apiserver.rules.strategies.shared_specs import (
    SharedSpec,
    compute_once,
    share_spec,
)
from kubesched.cluster.apiserver.store.object_store import Store

Json = dict[str, Any]

SECOND = 1_000_000_000


def spec_of(**changes: Any) -> Json:
    container = {"name": "c", "image": "i:1", "resources": {"requests": {"cpu": "100m"}}}
    volume = {"name": "v", "secret": {"secretName": "s"}}
    return {"containers": [container], "volumes": [volume], **changes}


def body(name: str, **spec: Any) -> Json:
    return {"metadata": {"name": name}, "spec": spec_of(**spec)}


@pytest.fixture
def store() -> Store:
    store = Store(now_ns=SECOND)
    nodes = store.catalog.by_url("", "v1", "nodes")
    store.create(nodes, None, {"metadata": {"name": "n"}}, SECOND)
    return store


def create(store: Store, document: Json) -> Json:
    pods = store.catalog.by_url("", "v1", "pods")
    return store.create(pods, "default", document, SECOND).data


def patch(store: Store, name: str, change: Json, subresource: str = "") -> None:
    pods = store.catalog.by_url("", "v1", "pods")
    store.patch(pods, "default", name, change, SECOND, subresource=subresource)


def replace(store: Store, name: str, change: Callable[[Json], Json]) -> None:
    pods = store.catalog.by_url("", "v1", "pods")
    old = store.get(pods, "default", name).data
    document = change(msgspec.json.decode(msgspec.json.encode(old)))
    store.update(pods, "default", name, document, SECOND)


def with_image(pod: Json) -> Json:
    pod["spec"]["containers"][0]["image"] = "i:2"
    return pod


def with_toleration(pod: Json) -> Json:
    pod["spec"]["tolerations"].append({"key": "k", "operator": "Exists"})
    return pod


CHANGES: dict[str, Callable[[Store], Any]] = {
    "bound": lambda store: store.bind("default", "a", "", "n", SECOND),
    "another image, replaced": lambda store: replace(store, "a", with_image),
    "another toleration, replaced": lambda store: replace(store, "a", with_toleration),
    "another image, patched": lambda store: patch(
        store, "a", {"spec": {"containers": [{"name": "c", "image": "i:2"}]}}
    ),
    "resized": lambda store: patch(
        store,
        "a",
        {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "200m"}}}]}},
        "resize",
    ),
    "another status": lambda store: patch(store, "a", {"status": {"phase": "Running"}}, "status"),
}


def test_pods_with_equal_specs_share_the_spec_and_its_struct(store: Store) -> None:
    a, b = create(store, body("a")), create(store, body("b"))
    pods = store.catalog.by_url("", "v1", "pods")
    assert a["spec"] is b["spec"]
    typed = [store.get(pods, "default", name).typed for name in ("a", "b")]
    assert typed[0].spec is typed[1].spec
    assert typed[0] == msgspec.convert(a, Pod)


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_pod_does_not_change_pods_with_the_same_spec(
    store: Store, change: Callable[[Store], Any]
) -> None:
    create(store, body("a"))
    like = create(store, body("b"))
    pods = store.catalog.by_url("", "v1", "pods")
    before, struct = msgspec.json.encode(like), store.get(pods, "default", "b").typed
    assert store.get(pods, "default", "a").typed.spec is struct.spec
    change(store)
    changed = store.get(pods, "default", "a")
    assert changed.revision > store.get(pods, "default", "b").revision
    assert changed.typed == msgspec.convert(changed.data, Pod)
    assert msgspec.json.encode(store.get(pods, "default", "b").data) == before
    assert msgspec.convert(like, Pod) == struct
    later = create(store, body("c"))
    assert later["spec"] == like["spec"]


def test_a_pod_is_stored_with_its_fields_in_the_sent_order(store: Store) -> None:
    document = {"spec": spec_of(), "metadata": {"name": "a"}}
    assert list(create(store, document))[:2] == ["spec", "metadata"]


@pytest.mark.parametrize("attempt", ["first", "second"])
def test_nulls_are_left_out(store: Store, attempt: str) -> None:
    document = body(attempt, nodeName=None, hostname=None) | {"status": None}
    stored = create(store, document)
    assert "nodeName" not in stored["spec"]
    assert stored["status"] == {"phase": "Pending", "qosClass": "Burstable"}


WRONG: dict[str, tuple[Json, int, str]] = {
    "a number for a name": (
        body("a", nodeName=5),
        400,
        'Pod in version "v1" cannot be handled as a Pod: Expected `str`, got `int` - at '
        "`$.spec.nodeName`",
    ),
    "no object at all": (
        {"metadata": {"name": "a"}, "spec": "x"},
        400,
        'Pod in version "v1" cannot be handled as a Pod: Expected `object`, got `str` - at '
        "`$.spec`",
    ),
    "a number for a label of a pod whose spec is known": (
        {"metadata": {"name": "a", "labels": {"k": 1}}, "spec": spec_of()},
        400,
        'Pod in version "v1" cannot be handled as a Pod: Expected `str`, got `int` - at '
        "`$.metadata.labels[...]`",
    ),
    "a volume twice": (
        body("a", volumes=[{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}]),
        422,
        'Pod "a" is invalid: spec.volumes[1].name: Duplicate value: "v"',
    ),
}


@pytest.mark.parametrize(("document", "code", "text"), WRONG.values(), ids=WRONG)
def test_a_pod_is_refused_every_time_in_the_same_words(
    store: Store, document: Json, code: int, text: str
) -> None:
    create(store, body("known"))
    for _ in range(2):
        with pytest.raises(ApiError) as refused:
            create(store, document)
        assert (refused.value.code, refused.value.status.message) == (code, text)


MUTATORS: dict[str, Callable[[Any], Any]] = {
    "set": lambda spec: spec.__setitem__("a", 1),
    "del": lambda spec: spec.__delitem__("a"),
    "|=": lambda spec: spec.__ior__({}),
    "clear": lambda spec: spec.clear(),
    "pop": lambda spec: spec.pop("a"),
    "popitem": lambda spec: spec.popitem(),
    "setdefault": lambda spec: spec.setdefault("b", 1),
    "update": lambda spec: spec.update(b=1),
}


@pytest.mark.parametrize("mutate", MUTATORS.values(), ids=MUTATORS)
def test_a_shared_spec_cannot_be_changed(mutate: Callable[[Any], Any]) -> None:
    spec = SharedSpec({"a": 1})
    with pytest.raises(TypeError, match="shared"):
        mutate(spec)
    assert spec == {"a": 1}


COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda spec: pickle.loads(pickle.dumps(spec)),
    "dict": dict,
    "dict.copy": lambda spec: spec.copy(),
    "unpacked": lambda spec: {**spec},
    "|": lambda spec: spec | {},
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copy_is_mutable_and_has_no_cached_results(copied: Callable[[Any], Any]) -> None:
    spec = share_spec({"a": [1]})
    assert compute_once(len, spec) == 1
    copy_of_it = copied(spec)
    assert type(copy_of_it) is dict
    copy_of_it["b"] = 2
    assert compute_once(len, copy_of_it) == 2
    assert spec == {"a": [1]}


def test_functions_of_a_shared_spec_are_evaluated_once() -> None:
    asked: list[Json] = []

    def work(spec: Json) -> Json:
        asked.append(spec)
        return spec

    spec = share_spec({"once": True})
    assert compute_once(work, spec) is spec
    assert compute_once(work, spec) is spec
    assert len(asked) == 1
    assert compute_once(work, {"once": True}) == spec
    assert len(asked) == 2


def test_a_large_spec_is_neither_shared_nor_cached() -> None:
    large = {"containers": [{"name": "c", "image": "i" * shared_specs._LARGEST_CACHED}]}
    before = shared_specs._cached.cache_info().currsize
    assert share_spec(large) == large
    assert share_spec(large) is not share_spec(large)
    assert shared_specs._cached.cache_info().currsize == before
