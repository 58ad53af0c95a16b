"""The server refuses invalid times in all fields that are declared as times."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver import Store

NOW_NS = 1_800_000_000 * 10**9
META = {"name": "x", "namespace": "default"}
POD = {"metadata": META, "spec": {"containers": [{"name": "c", "image": "i"}]}}

BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "a field": ("Lease", {"spec": {"renewTime": "soon"}}),
    "in a list": ("Node", {"spec": {"taints": [{"key": "a", "timeAdded": "x"}]}}),
    "in a map": ("PodDisruptionBudget", {"status": {"disruptedPods": {"p": "x"}}}),
    "deep inside": ("Event", {"series": {"lastObservedTime": "x"}}),
    "of a day that is none": ("Lease", {"spec": {"renewTime": "2026-02-30T00:00:00Z"}}),
    "nothing": ("Lease", {"spec": {"renewTime": ""}}),
}


@pytest.mark.parametrize(("kind", "body"), BAD.values(), ids=BAD)
def test_refused(kind: str, body: dict[str, Any]) -> None:
    store = Store(random.Random(0), now_ns=NOW_NS)
    resource = next(each for each in store.catalog.all() if each.kind == kind)
    meta = META if resource.namespaced else {"name": "x"}
    namespace = "default" if resource.namespaced else None
    with pytest.raises(ApiError, match="parsing time") as refusal:
        store.create(resource, namespace, {"metadata": meta, **body}, NOW_NS)
    assert refusal.value.code == 400


def test_a_patch_of_a_status_is_refused_too() -> None:
    store = Store(random.Random(0), now_ns=NOW_NS)
    pods = next(each for each in store.catalog.all() if each.kind == "Pod")
    store.create(pods, "default", POD, NOW_NS)
    patch = {"status": {"startTime": "yesterday"}}
    with pytest.raises(ApiError) as refusal:
        store.patch(pods, "default", "x", patch, NOW_NS, subresource="status")
    assert str(refusal.value) == (
        'Pod in version "v1" cannot be handled as a Pod: parsing time "yesterday" as '
        '"2006-01-02T15:04:05Z07:00": cannot parse "yesterday" as "2006"'
    )
    store.patch(
        pods,
        "default",
        "x",
        {"status": {"startTime": "2026-01-01T00:00:00.5+02:00"}},
        NOW_NS,
        subresource="status",
    )


# What a client sends for a field, and what the server stores. A `Time` has whole seconds and a
# `MicroTime` six decimals, both in UTC; Go's encoding of the two types is the definition.
STORED: dict[str, tuple[str, str, str]] = {
    "an offset of zero": ("Time", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00Z"),
    "another offset": ("Time", "2026-01-01T01:30:00+01:30", "2026-01-01T00:00:00Z"),
    "a fraction": ("Time", "2026-01-01T00:00:00.987654Z", "2026-01-01T00:00:00Z"),
    "a micro time": ("MicroTime", "2026-01-01T00:00:00.5Z", "2026-01-01T00:00:00.500000Z"),
    "a whole one": ("MicroTime", "2026-01-01T00:00:00+00:00", "2026-01-01T00:00:00.000000Z"),
    "nanoseconds": ("MicroTime", "2026-01-01T00:00:00.123456789Z", "2026-01-01T00:00:00.123456Z"),
    "a fraction of a thousand digits": (
        "Time",
        "2026-01-01T00:00:00." + "0" * 1000 + "Z",
        "2026-01-01T00:00:00Z",
    ),
}


@pytest.mark.parametrize(("kind", "sent", "stored"), STORED.values(), ids=STORED)
def test_times_are_stored_in_canonical_form(kind: str, sent: str, stored: str) -> None:
    store = Store(random.Random(0), now_ns=NOW_NS)
    leases = next(each for each in store.catalog.all() if each.kind == "Lease")
    pods = next(each for each in store.catalog.all() if each.kind == "Pod")
    if kind == "MicroTime":
        body = {"metadata": META, "spec": {"renewTime": sent}}
        assert store.create(leases, "default", body, NOW_NS).data["spec"]["renewTime"] == stored
        return
    store.create(pods, "default", POD, NOW_NS)
    patch = {"status": {"startTime": sent, "conditions": [{"type": "A", "lastProbeTime": sent}]}}
    written = store.patch(pods, "default", "x", patch, NOW_NS, subresource="status").data
    assert written["status"]["startTime"] == stored
    assert written["status"]["conditions"][0]["lastProbeTime"] == stored


def test_in_maps_of_times() -> None:
    store = Store(random.Random(0), now_ns=NOW_NS)
    budgets = next(each for each in store.catalog.all() if each.kind == "PodDisruptionBudget")
    store.create(budgets, "default", {"metadata": META, "spec": {"minAvailable": 1}}, NOW_NS)
    patch = {"status": {"disruptedPods": {"p": "2026-01-01T02:00:00+02:00"}}}
    written = store.patch(budgets, "default", "x", patch, NOW_NS, subresource="status")
    assert written.data["status"]["disruptedPods"] == {"p": "2026-01-01T00:00:00Z"}


def test_an_equal_time_in_another_form_changes_nothing() -> None:
    store = Store(random.Random(0), now_ns=NOW_NS)
    pods = next(each for each in store.catalog.all() if each.kind == "Pod")
    created = store.create(pods, "default", POD, NOW_NS)
    stamp = created.data["metadata"]["creationTimestamp"].replace("Z", "+00:00")
    patch = {"metadata": {"creationTimestamp": stamp}}
    for patch_type in ("merge", "strategic"):
        again = store.patch(pods, "default", "x", patch, NOW_NS, patch_type=patch_type)  # type: ignore[arg-type]
        assert again.revision == created.revision
    spec = {**created.data["spec"], "activeDeadlineSeconds": 5}
    body = {**created.data, "spec": spec}
    body["metadata"] = {**body["metadata"], "creationTimestamp": stamp}
    replaced = store.update(pods, "default", "x", body, NOW_NS)
    assert replaced.data["metadata"]["creationTimestamp"] == stamp.replace("+00:00", "Z")


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+23:00", "9999-12-31T23:59:59-23:00"])
def test_a_time_that_has_no_year_in_utc_is_refused(moment: str) -> None:
    store = Store(random.Random(0), now_ns=NOW_NS)
    leases = next(each for each in store.catalog.all() if each.kind == "Lease")
    body = {"metadata": META, "spec": {"renewTime": moment}}
    with pytest.raises(ApiError, match="parsing time") as refusal:
        store.create(leases, "default", body, NOW_NS)
    assert refusal.value.code == 400
