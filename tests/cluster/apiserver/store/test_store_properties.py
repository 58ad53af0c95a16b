"""Properties of the store that hold for any sequence of requests."""

from __future__ import annotations

import copy
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import ApiError, Pod
from kubesched.api.codec import from_builtins
from tests.cluster.apiserver.cluster import NOW_NS, Cluster, pod

Json = dict[str, Any]

NAMES = st.sampled_from(["a", "b", "c"])
LABELS = st.sampled_from(["x", "y"])
NODES = st.sampled_from(["n1", "n2"])

OPERATIONS = st.one_of(
    st.tuples(st.just("create"), NAMES, LABELS),
    st.tuples(st.just("label"), NAMES, LABELS),
    st.tuples(st.just("bind"), NAMES, NODES),
    st.tuples(st.just("status"), NAMES, st.sampled_from(["Running", "Succeeded"])),
    st.tuples(st.just("delete"), NAMES, st.sampled_from(["", "0", "5"])),
    st.tuples(st.just("finalizer"), NAMES, st.sampled_from(["on", "off"])),
    st.tuples(st.just("stale"), NAMES, LABELS),
)


def perform(cluster: Cluster, operation: tuple[str, str, str]) -> None:
    verb, name, argument = operation
    match verb:
        case "create":
            cluster.create("pods", pod(name, labels={"app": argument}))
        case "label":
            cluster.patch("pods", name, {"metadata": {"labels": {"app": argument}}})
        case "bind":
            cluster.bind(name, argument)
        case "status":
            cluster.patch("pods", name, {"status": {"phase": argument}}, subresource="status")
        case "delete":
            grace = int(argument) if argument else None
            cluster.delete("pods", name, grace_period_seconds=grace)
        case "finalizer":
            finalizers = ["example.com/f"] if argument == "on" else []
            patch = {"metadata": {"finalizers": finalizers}}
            cluster.patch("pods", name, patch, patch_type="merge")
        case "stale":
            body = copy.deepcopy(cluster.get("pods", name))
            body["metadata"]["resourceVersion"] = "1"
            body["metadata"]["labels"] = {"app": argument}
            cluster.update("pods", body)


def state(cluster: Cluster, **options: Any) -> dict[str, Json]:
    page = cluster.store.list(cluster.resource("pods"), **options)
    return {record.key: record.data for record in page.records}


@settings(max_examples=150, deadline=None)
@given(
    operations=st.lists(OPERATIONS, max_size=40),
    selectors=st.sampled_from(
        [
            {},
            {"label_selector": "app=x"},
            {"field_selector": "spec.nodeName="},
            {"label_selector": "app!=y", "field_selector": "status.phase=Running"},
        ]
    ),
    start=st.integers(0, 40),
    history=st.sampled_from([3, 10, 1000]),
)
def test_a_list_and_the_events_after_it_make_the_list_of_later(
    operations: list[tuple[str, str, str]], selectors: Json, start: int, history: int
) -> None:
    cluster = Cluster(history=history)
    version, known = cluster.store.revision, state(cluster, **selectors)
    for number, operation in enumerate(operations):
        if number == start:
            version, known = cluster.store.revision, state(cluster, **selectors)
        before = cluster.store.revision
        frozen = copy.deepcopy(state(cluster))
        try:
            perform(cluster, operation)
        except ApiError:
            assert cluster.store.revision == before
            assert state(cluster) == frozen
        assert cluster.store.revision >= before
        cluster.store.check_invariants()
    resource = cluster.resource("pods")
    if version < cluster.store.collection(resource).oldest_revision:
        with pytest.raises(ApiError, match="too old resource version"):
            cluster.store.watch(resource, resource_version=str(version), **selectors)
        return
    events = cluster.store.watch(resource, resource_version=str(version), **selectors).read()
    last = version
    for seen in events:
        assert seen.revision > last
        last = seen.revision
        if seen.record is None:
            continue
        key = seen.record.key
        assert (key in known) == (seen.type != "ADDED")
        if seen.type == "DELETED":
            del known[key]
        else:
            known[key] = seen.record.data
    assert known == state(cluster, **selectors)


@settings(max_examples=100, deadline=None)
@given(operations=st.lists(OPERATIONS, max_size=30))
def test_every_revision_in_the_log_can_be_listed(
    operations: list[tuple[str, str, str]],
) -> None:
    cluster = Cluster()
    states = {cluster.store.revision: state(cluster)}
    for operation in operations:
        try:
            perform(cluster, operation)
        except ApiError:
            continue
        states[cluster.store.revision] = state(cluster)
    for revision, wanted in states.items():
        assert state(cluster, resource_version=str(revision), exact=True) == wanted


@settings(max_examples=100, deadline=None)
@given(operations=st.lists(OPERATIONS, max_size=30), read=st.lists(st.booleans(), max_size=30))
def test_the_struct_of_an_object_is_that_of_its_json(
    operations: list[tuple[str, str, str]], read: list[bool]
) -> None:
    """The result does not depend on which structs were read, and so shared, in between."""
    cluster = Cluster()
    resource = cluster.resource("pods")
    reads = iter(read)
    for operation in operations:
        try:
            perform(cluster, operation)
        except ApiError:
            continue
        if next(reads, False):
            for record in cluster.store.list(resource).records:
                assert record.typed.metadata.name
    for change in cluster.store.collection(resource).history():
        assert change.record.typed == from_builtins(change.record.data, Pod)


@settings(max_examples=50, deadline=None)
@given(operations=st.lists(OPERATIONS, max_size=30), seed=st.integers(0, 10))
def test_the_same_requests_make_the_same_store(
    operations: list[tuple[str, str, str]], seed: int
) -> None:
    outcomes = []
    for _ in range(2):
        cluster = Cluster()
        cluster.store._rng = random.Random(seed)
        cluster.now_ns = NOW_NS + seed
        for operation in operations:
            try:
                perform(cluster, operation)
            except ApiError:
                continue
        outcomes.append(state(cluster))
    assert outcomes[0] == outcomes[1]
