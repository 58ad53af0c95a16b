"""VolumeRestrictions (docs/reference/07 §12, cases 55 to 60)."""

from __future__ import annotations

import pytest

from kubesched.api import (
    AWSElasticBlockStoreVolumeSource,
    GCEPersistentDiskVolumeSource,
    ISCSIVolumeSource,
    Pod,
    RBDVolumeSource,
    Volume,
)
from kubesched.framework import SKIP, SUCCESS, CycleState, PodInfo, QueueingHint, Status
from kubesched.framework.causes import ClaimInUse, ClaimUnusable, DiskInUse
from kubesched.scheduler.plugins.volume_restrictions import VolumeRestrictions
from kubesched.testing import FakeHandle, check_plugin, make_node, make_pod, make_pvc, run_filter

DISK = Status.unschedulable("node(s) had no available disk", causes=(DiskInUse(),))
CLAIM = Status.unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
    "already in-use by another pod",
    causes=(ClaimInUse(),),
)


def gce(read_only: bool = False) -> Volume:
    source = GCEPersistentDiskVolumeSource(pd_name="d", read_only=read_only)
    return Volume(name="v", gce_persistent_disk=source)


def ebs() -> Volume:
    source = AWSElasticBlockStoreVolumeSource(volume_id="d", read_only=True)
    return Volume(name="v", aws_elastic_block_store=source)


def iscsi(lun: int, read_only: bool = False) -> Volume:
    source = ISCSIVolumeSource(target_portal=f"p{lun}", iqn="i", lun=lun, read_only=read_only)
    return Volume(name="v", iscsi=source)


def rbd(*monitors: str, image: str = "i") -> Volume:
    return Volume(name="v", rbd=RBDVolumeSource(monitors=monitors, pool="p", image=image))


DISKS: dict[str, tuple[Volume, Volume, bool]] = {
    "GCE, both write": (gce(), gce(), True),
    "GCE, one writes": (gce(), gce(read_only=True), True),
    "GCE, both read": (gce(read_only=True), gce(read_only=True), False),
    "EBS, both read": (ebs(), ebs(), True),
    "EBS and GCE of one name": (ebs(), gce(), False),
    "RBD, a monitor in common": (rbd("a", "b"), rbd("b", "c"), True),
    "RBD, no monitor in common": (rbd("a"), rbd("b"), False),
    "RBD, another image": (rbd("a"), rbd("a", image="j"), False),
    "iSCSI, another unit": (iscsi(1), iscsi(2), True),
    "iSCSI, both read": (iscsi(1, read_only=True), iscsi(1, read_only=True), False),
}


@pytest.mark.parametrize(("wanted", "used", "conflict"), DISKS.values(), ids=DISKS)
def test_disks(wanted: Volume, used: Volume, conflict: bool) -> None:
    running = make_pod("r", volumes=[used], node_name="busy")
    handle = FakeHandle([make_node("free"), make_node("busy"), running])
    pod = make_pod("p", volumes=[wanted])
    answers = run_filter(VolumeRestrictions(None, handle), pod, handle.snapshot.nodes)
    assert answers == [SUCCESS, DISK if conflict else SUCCESS]


def harness(*running: Pod, mode: str = "ReadWriteOncePod") -> tuple[FakeHandle, VolumeRestrictions]:
    claim = make_pvc("c", access_modes=[mode])
    handle = FakeHandle([make_node("a"), make_node("b"), claim, *running])
    return handle, VolumeRestrictions(None, handle)


def test_a_claim_for_one_pod_rejects_every_node_while_in_use() -> None:
    handle, plugin = harness(make_pod("r", pvcs=["c"], node_name="b"))
    pod = make_pod("p", pvcs=["c"])
    state = CycleState()
    assert run_filter(plugin, pod, handle.snapshot.nodes, state) == [CLAIM, CLAIM]
    # Without the pod that uses it, the node passes; only the clone's count changes.
    other = state.clone()
    node = handle.snapshot.get("b")
    assert node is not None
    plugin.remove_pod(other, pod, node.pods[0], node)
    assert plugin.filter(other, pod, node) == SUCCESS
    assert plugin.filter(state, pod, node) == CLAIM
    plugin.add_pod(other, pod, node.pods[0], node)
    assert plugin.filter(other, pod, node) == CLAIM


def test_the_namespace_of_a_removed_pod_is_not_compared() -> None:
    handle, plugin = harness(
        make_pod("r", pvcs=["c"], node_name="b"),
        make_pod("x", namespace="other", pvcs=["c"], node_name="b"),
    )
    pod, state = make_pod("p", pvcs=["c"]), CycleState()
    plugin.pre_filter(state, PodInfo(pod), handle.snapshot.nodes)
    node = handle.snapshot.get("b")
    assert node is not None
    (stranger,) = [each for each in node.pods if each.pod.metadata.name == "x"]
    plugin.remove_pod(state, pod, stranger, node)
    assert plugin.filter(state, pod, node) == SUCCESS


@pytest.mark.parametrize(("mode", "user"), [("ReadWriteOncePod", []), ("ReadWriteMany", ["r"])])
def test_pods_without_conflicts_are_skipped(mode: str, user: list[str]) -> None:
    running = [make_pod(name, pvcs=["c"], node_name="b") for name in user]
    handle, plugin = harness(*running, mode=mode)
    pod = PodInfo(make_pod("p", pvcs=["c"]))
    assert plugin.pre_filter(CycleState(), pod, handle.snapshot.nodes) == SKIP


def test_a_missing_claim() -> None:
    handle, plugin = harness()
    pod = PodInfo(make_pod("p", pvcs=["nope"]))
    answer = plugin.pre_filter(CycleState(), pod, handle.snapshot.nodes)
    assert answer == Status.unresolvable(
        'persistentvolumeclaim "nope" not found', causes=(ClaimUnusable(),)
    )


@pytest.mark.parametrize(
    ("namespace", "want"), [("default", QueueingHint.QUEUE), ("other", QueueingHint.SKIP)]
)
def test_a_deleted_pod_with_the_disk(namespace: str, want: QueueingHint) -> None:
    plugin = VolumeRestrictions(None, FakeHandle())
    deleted = make_pod("r", namespace=namespace, volumes=[gce()], node_name="n")
    assert plugin._pod_deleted(make_pod("p", volumes=[gce()]), deleted, None) is want


def test_the_contract() -> None:
    check_plugin(VolumeRestrictions)
