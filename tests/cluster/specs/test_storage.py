"""Specs of volumes, claims, classes and devices."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from kubesched.foundation.http.http_messages import Response
from tests.cluster.specs.spec_runner import (
    Json,
    RefusedError,
    Spec,
    SpecSteps,
    condition_of,
    play,
    pod,
)


def volume(spec: Spec, name: str = "pv") -> Json:
    metadata = {"name": f"{spec.namespace}-{name}", "labels": {"e2e-pv-pool": spec.namespace}}
    source = {"driver": "e2e-driver", "volumeHandle": "e2e-conformance"}
    wanted = {
        "capacity": {"storage": "2Gi"},
        "accessModes": ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": spec.namespace,
        "csi": source,
    }
    return {"metadata": metadata, "spec": wanted}


def claim(spec: Spec, name: str = "pvc") -> Json:
    wanted = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": spec.namespace,
    }
    return {"metadata": {"name": name}, "spec": wanted}


async def _lives_of_volumes(spec: Spec) -> None:
    mine = f"e2e-pv-pool={spec.namespace}"
    for deletion in ("one", "all"):
        made = spec.create("persistentvolumes", volume(spec))
        spec.create("persistentvolumeclaims", claim(spec))
        name = made["metadata"]["name"]
        assert len(spec.list("persistentvolumes", mine)) == 1
        body = {"metadata": {"labels": {name: "patched"}}}
        assert spec.patch("persistentvolumes", name, body)["metadata"]["labels"][name] == "patched"
        body = {"metadata": {"labels": {"pvc": "patched"}}}
        spec.patch("persistentvolumeclaims", "pvc", body)
        await spec.sleep(1)
        updated = {name: "updated"}
        spec.change(
            "persistentvolumes", name, lambda v, u=updated: v["metadata"]["labels"].update(u)
        )
        if deletion == "one":
            spec.delete("persistentvolumeclaims", "pvc")
            await spec.until(lambda: not spec.list("persistentvolumeclaims"), 30)
            spec.delete("persistentvolumes", name)
        else:
            spec.delete_all("persistentvolumeclaims", "pvc=patched")
            await spec.until(lambda: not spec.list("persistentvolumeclaims"), 30)
            spec.delete_all("persistentvolumes", f"{name}=updated")
        await spec.until(lambda: not spec.list("persistentvolumes", mine), 30)


async def _statuses_of_volumes(spec: Spec) -> None:
    name = spec.create("persistentvolumes", volume(spec))["metadata"]["name"]
    spec.create("persistentvolumeclaims", claim(spec))
    held = spec.get("persistentvolumeclaims", "pvc", "status")
    assert held["status"]["phase"] in ("Pending", "Bound")
    held = spec.get("persistentvolumes", name, "status")
    assert held["status"]["phase"] in ("Pending", "Available", "Bound")
    custom = {"type": "StatusPatched", "status": "True", "reason": "E2E", "message": "here"}
    body = {"status": {"conditions": [custom]}}
    patched = spec.patch("persistentvolumeclaims", "pvc", body, "status", kind="merge")
    assert condition_of(patched, "StatusPatched") == "True"
    told = {"message": "StatusPatched", "reason": "E2E patchStatus"}
    patched = spec.patch("persistentvolumes", name, {"status": told}, "status", kind="merge")
    assert patched["status"].items() >= told.items()

    def more(found: Json) -> None:
        found["status"].setdefault("conditions", []).append({**custom, "type": "StatusUpdated"})

    updated = spec.change("persistentvolumeclaims", "pvc", more, "status")
    assert condition_of(updated, "StatusUpdated") == "True"
    told = {"message": "StatusUpdated", "reason": "E2E updateStatus"}
    updated = spec.change("persistentvolumes", name, lambda v: v["status"].update(told), "status")
    assert updated["status"].items() >= told.items()


async def _protection(spec: Spec) -> None:
    name = spec.create("persistentvolumes", volume(spec))["metadata"]["name"]
    protected = "kubernetes.io/pv-protection"
    await spec.until(
        lambda: spec.get("persistentvolumes", name)["metadata"].get("finalizers") == [protected]
    )
    await spec.until(lambda: spec.get("persistentvolumes", name)["status"]["phase"] == "Available")
    spec.delete("persistentvolumes", name)
    await spec.until(lambda: not spec.exists("persistentvolumes", name), 10)
    spec.create("persistentvolumes", volume(spec))
    spec.create("persistentvolumeclaims", claim(spec))
    await spec.until(
        lambda: spec.get("persistentvolumeclaims", "pvc")["status"]["phase"] == "Bound"
    )
    await spec.until(lambda: spec.get("persistentvolumes", name)["status"]["phase"] == "Bound")
    spec.delete("persistentvolumes", name)
    assert "deletionTimestamp" in spec.get("persistentvolumes", name)["metadata"]
    await spec.sleep(5)
    assert spec.exists("persistentvolumes", name)
    spec.delete("persistentvolumeclaims", "pvc")
    await spec.until(lambda: not spec.exists("persistentvolumeclaims", "pvc"), 10)
    await spec.until(lambda: not spec.exists("persistentvolumes", name), 10)


def _managed(plural: str, body: Json, **status: Any) -> SpecSteps:
    """Create, read, patch, replace, list and delete, for single objects and collections."""

    async def steps(spec: Spec) -> None:
        names = [f"{spec.namespace}-{number}" for number in range(2)]
        for name in names:
            made = json.loads(json.dumps(body))
            made["metadata"] = {"name": name, "labels": {"e2e": spec.namespace}}
            spec.create(plural, made)
        with pytest.raises(RefusedError) as refusal:
            spec.create(plural, made)
        assert refusal.value.code == 409
        first = names[0]
        watch = spec.watch(plural, spec.get(plural, first)["metadata"]["resourceVersion"])
        patched = spec.patch(plural, first, {"metadata": {"labels": {first: "patched"}}})
        assert patched["metadata"]["labels"][first] == "patched"
        note = {"metadata": {"annotations": {"patched": "true"}}}
        spec.patch(plural, first, note, kind="merge")

        def change(found: Json) -> None:
            found["metadata"]["labels"][first] = "updated"

        assert spec.change(plural, first, change)["metadata"]["labels"][first] == "updated"
        if status:
            spec.patch(plural, first, {"status": status}, "status")
            held = spec.get(plural, first, "status")["status"]
            assert held.items() >= status.items()
            spec.change(plural, first, lambda found: found["status"].update(status), "status")
        assert len(spec.list(plural, f"e2e={spec.namespace}")) == 2
        spec.delete(plural, first)
        assert not spec.exists(plural, first)
        spec.delete_all(plural, f"e2e={spec.namespace}")
        assert not spec.list(plural, f"e2e={spec.namespace}")
        seen = [each["type"] for each in watch.read()]
        assert seen.count("DELETED") >= 2

    return steps


async def _inline_volumes(spec: Spec) -> None:
    source = {"driver": "e2e.example.com", "readOnly": True, "volumeAttributes": {"a": "b"}}
    volumes = [{"name": "v", "csi": source}]
    spec.create("pods", pod("p", labels={"e2e": "x"}, volumes=volumes))
    held = spec.get("pods", "p")["spec"]["volumes"]
    assert {"name": "v", "csi": source} in held
    spec.patch("pods", "p", {"metadata": {"labels": {"p": "patched"}}})
    spec.change("pods", "p", lambda found: found["metadata"]["labels"].update(p="updated"))
    spec.delete_all("pods", "p=updated")
    await spec.until(lambda: not spec.pods())


def _resource(plural: str, body: Json, status: Json | None = None) -> SpecSteps:
    """All four patch types, for the object and its status, as the conformance tests use them."""
    key = "test.example.com"

    async def steps(spec: Spec) -> None:
        name = f"test-{spec.namespace}"
        metadata = {"name": name, "labels": {"e2e-test.kubernetes.io": spec.namespace}}
        label = {"metadata": {"labels": {key: "test"}}}
        pointer = f"/metadata/labels/{key}"
        add = [{"op": "add", "path": pointer, "value": "test"}]
        for kind, patch in (
            ("strategic", label),
            ("apply", label),
            ("merge", label),
            ("json", add),
        ):
            created = spec.create(plural, {**body, "metadata": metadata})
            patched = _patched(spec, plural, created, kind, patch)
            assert patched["metadata"]["labels"][key] == "test"
            assert len(spec.list(plural, f"e2e-test.kubernetes.io={spec.namespace}")) == 1
            spec.delete(plural, name)
            await spec.until(lambda: not spec.exists(plural, name), 5)
        for kind in ("strategic", "apply", "merge", "json") if status else ():
            created = spec.create(plural, {**body, "metadata": metadata})
            whole: Any = {"status": status}
            if kind == "json":
                assert status is not None
                ((field, value),) = status.items()
                whole = [{"op": "add", "path": f"/status/{field}", "value": value}]
            patched = _patched(spec, plural, created, kind, whole, "status")
            assert patched["status"] == status
            assert spec.get(plural, name, "status")["status"] == status
            spec.delete(plural, name)
            await spec.until(lambda: not spec.exists(plural, name), 5)
        spec.create(plural, {**body, "metadata": metadata})
        spec.delete_all(plural, f"e2e-test.kubernetes.io={spec.namespace}")
        await spec.until(lambda: not spec.exists(plural, name), 5)

    return steps


def _patched(
    spec: Spec, plural: str, existing: Json, kind: str, patch: Any, subresource: str = ""
) -> Json:
    name = existing["metadata"]["name"]
    if kind == "json":
        return spec.patch(plural, name, patch, subresource, kind="json")
    metadata = {key: existing["metadata"][key] for key in ("name", "uid")}
    if "namespace" in existing["metadata"]:
        metadata["namespace"] = existing["metadata"]["namespace"]
    head = {"apiVersion": existing["apiVersion"], "kind": existing["kind"]}
    whole = {**head, **patch, "metadata": {**metadata, **patch.get("metadata", {})}}
    path = spec.path(plural, name, subresource) + "?fieldValidation=Strict"
    if kind != "apply":
        types = {"merge": "merge-patch", "strategic": "strategic-merge-patch"}
        return spec.send("PATCH", path, whole, f"application/{types[kind]}+json")
    path += "&fieldManager=test-apply&force=true"
    answer = spec.ask("PATCH", path, whole, "application/apply-patch+yaml")
    assert isinstance(answer, Response)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


EXACTLY = {"deviceClassName": "class", "allocationMode": "ExactCount", "count": 1}
CLAIM = {"devices": {"requests": [{"name": "req-0", "exactly": EXACTLY}]}}
ALLOCATED = {"request": "req-0", "driver": "d.example.com", "pool": "p", "device": "dev"}
DEVICE = {"name": "device-0"}
SLICE = {
    "driver": "d.example.com",
    "nodeName": "worker",
    "pool": {"name": "worker", "resourceSliceCount": 1, "generation": 1},
    "devices": [DEVICE],
}
HELD = {"allocation": {"devices": {"results": [ALLOCATED]}}}

SCENARIOS: dict[str, SpecSteps] = {
    "lives of volumes and claims": _lives_of_volumes,
    "statuses of volumes and claims": _statuses_of_volumes,
    "volumes are protected": _protection,
    "pods have inline volumes": _inline_volumes,
    "CSIDrivers": _managed("csidrivers", {"spec": {"attachRequired": False}}),
    "CSINodes": _managed("csinodes", {"spec": {"drivers": []}}),
    "StorageClasses": _managed("storageclasses", {"provisioner": "e2e-fake-provisioner"}),
    "VolumeAttributesClasses": _managed("volumeattributesclasses", {"driverName": "e2e-fake-csi"}),
    "CSIStorageCapacities": _managed(
        "csistoragecapacities", {"storageClassName": "c", "capacity": "1Gi", "nodeTopology": {}}
    ),
    "VolumeAttachments": _managed(
        "volumeattachments",
        {
            "spec": {
                "attacher": "e2e.example.com",
                "nodeName": "n",
                "source": {"persistentVolumeName": "v"},
            }
        },
        attached=True,
    ),
    "DeviceClasses": _resource("deviceclasses", {"spec": {}}),
    "ResourceClaims": _resource("resourceclaims", {"spec": CLAIM}, HELD),
    "ResourceClaimTemplates": _resource("resourceclaimtemplates", {"spec": {"spec": CLAIM}}),
    "ResourceSlices": _resource("resourceslices", {"spec": SLICE}),
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_storage(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
