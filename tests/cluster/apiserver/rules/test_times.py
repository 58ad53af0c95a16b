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
