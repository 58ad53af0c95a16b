"""VolumeZone (docs/reference/07 §12, cases 73 to 80)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import StorageClass
from kubesched.api.base import ApiObject
from kubesched.framework import SKIP, SUCCESS, CycleState, PodInfo, QueueingHint, Status
from kubesched.framework.causes import ClaimUnusable, VolumeUnreachable
from kubesched.scheduler.plugins.volume_zone import VolumeZone
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    run_filter,
)

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA = "failure-domain.beta.kubernetes.io/zone"
NO = Status.unresolvable("node(s) had no available volume zone", causes=(VolumeUnreachable(),))

CASES: dict[str, tuple[dict[str, str], dict[str, str], Status]] = {
    "a node that is nowhere": ({BETA: "a"}, {}, SUCCESS),
    "the label that succeeded it": ({BETA: "a"}, {ZONE: "a"}, SUCCESS),
    "another zone": ({BETA: "a"}, {ZONE: "b"}, NO),
    "the old label does not do for the new": ({ZONE: "a"}, {BETA: "a"}, NO),
    "one of several zones": ({ZONE: "c__a"}, {ZONE: "a"}, SUCCESS),
    "a label with an empty part says nothing": ({ZONE: "a__"}, {ZONE: "b"}, SUCCESS),
    "a node with a zone and no region": ({ZONE: "a", REGION: "r"}, {ZONE: "a"}, NO),
    "the old label is looked at first": ({BETA: "a"}, {BETA: "b", ZONE: "a"}, NO),
    "a node with other labels only": ({ZONE: "a"}, {"disk": "ssd"}, SUCCESS),
}


@pytest.mark.parametrize(("volume", "node", "want"), CASES.values(), ids=CASES)
def test_filter(volume: dict[str, str], node: dict[str, str], want: Status) -> None:
    claim = make_pvc("c", volume_name="v")
    handle = FakeHandle(
        [claim, make_pv("v", labels=volume, claim=claim), make_node("n", labels=node)]
    )
    if "hostname" not in node:
        handle.refresh()
    plugin = VolumeZone(None, handle)
    assert run_filter(plugin, make_pod("p", pvcs=["c"]), handle.snapshot.nodes) == [want]


def unusable(reason: str) -> Status:
    return Status.unresolvable(reason, causes=(ClaimUnusable(),))


NO_MODE = StorageClass(metadata=make_storage_class("x").metadata, provisioner="y")
PRE_FILTER: dict[str, tuple[tuple[ApiObject, ...], Status]] = {
    "no such claim": ((), unusable('persistentvolumeclaim "c" not found')),
    "bound later": ((make_storage_class("x"), make_pvc("c", storage_class="x")), SKIP),
    "no class": (
        (make_pvc("c"),),
        unusable("PersistentVolumeClaim had no pv name and storageClass name"),
    ),
    "no such class": (
        (make_pvc("c", storage_class="x"),),
        unusable('storageclass.storage.k8s.io "x" not found'),
    ),
    "a class without a mode": (
        (NO_MODE, make_pvc("c", storage_class="x")),
        unusable('VolumeBindingMode not set for StorageClass "x"'),
    ),
    "should be bound": (
        (
            make_storage_class("x", wait_for_first_consumer=False),
            make_pvc("c", storage_class="x"),
        ),
        unusable("PersistentVolume had no name"),
    ),
    "volume is gone": (
        (make_pvc("c", volume_name="v"),),
        unusable('persistentvolume "v" not found'),
    ),
    "volume without labels": ((make_pvc("c", volume_name="v"), make_pv("v")), SKIP),
}


@pytest.mark.parametrize(("objects", "want"), PRE_FILTER.values(), ids=PRE_FILTER)
def test_pre_filter(objects: tuple[ApiObject, ...], want: Status) -> None:
    handle = FakeHandle([make_node("n"), *objects])
    pod = PodInfo(make_pod("p", pvcs=["c"]))
    assert VolumeZone(None, handle).pre_filter(CycleState(), pod, handle.snapshot.nodes) == want


def hint(old: Any, new: Any) -> QueueingHint:
    plugin = VolumeZone(None, FakeHandle())
    (found,) = [
        each.hint
        for each in plugin.events_to_register()
        if each.hint is not None and each.event.resource.endswith(type(new).__name__)
    ]
    return found(make_pod("p", pvcs=["c"]), old, new)


def test_hints() -> None:
    plain, zoned = make_pv("v"), make_pv("v", labels={ZONE: "a"})
    other = replace(plain, metadata=replace(plain.metadata, labels={"disk": "ssd"}))
    assert hint(plain, other) is QueueingHint.SKIP
    assert hint(plain, zoned) is QueueingHint.QUEUE
    assert hint(None, make_storage_class("x")) is QueueingHint.QUEUE
    at_once = make_storage_class("x", wait_for_first_consumer=False)
    assert hint(None, at_once) is QueueingHint.SKIP
    assert hint(None, NO_MODE) is QueueingHint.SKIP


def test_the_contract() -> None:
    check_plugin(VolumeZone)
