"""NodeVolumeLimits (docs/reference/07 §12, cases 61 to 72), and its columns."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import (
    AWSElasticBlockStoreVolumeSource,
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    EphemeralVolumeSource,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Volume,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
)
from kubesched.api.base import ApiObject
from kubesched.framework import SUCCESS, Code, CycleState, PodInfo, QueueingHint, Status
from kubesched.framework.causes import ClaimUnusable, VolumeLimitReached
from kubesched.scheduler.plugins.node_volume_limits import NodeVolumeLimits
from kubesched.testing import (
    FakeHandle,
    check_plugin,
    make_csi_node,
    make_meta,
    make_node,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    run_filter,
)

FULL = Status.unschedulable("node(s) exceed max volume count", causes=(VolumeLimitReached(),))
D, EBS = "csi.example.com", "ebs.csi.aws.com"


def bound(number: int) -> list[ApiObject]:
    claim = make_pvc(f"c{number}", volume_name=f"v{number}")
    return [claim, make_pv(f"v{number}", csi_driver=D, claim=claim)]


def running(*claims: str, name: str = "r") -> Pod:
    return make_pod(name, pvcs=claims, node_name="n")


def attachment(number: int) -> VolumeAttachment:
    source = VolumeAttachmentSource(persistent_volume_name=f"v{number}")
    spec = VolumeAttachmentSpec(attacher=D, source=source, node_name="n")
    return VolumeAttachment(metadata=make_meta("VolumeAttachment", f"a{number}"), spec=spec)


def verdict(pod: Pod, *objects: ApiObject, gates: dict[str, bool] | None = None) -> Status:
    """Return the verdict on node n, after comparing both forms."""
    handle = FakeHandle([make_node("n"), make_storage_class("late"), *objects], feature_gates=gates)
    (answer,) = run_filter(NodeVolumeLimits(None, handle), pod, handle.snapshot.nodes)
    return answer


FOUR = [each for number in range(4) for each in bound(number)]


@pytest.mark.parametrize(
    ("limit", "want"),
    [(4, SUCCESS), (3, FULL), (2, FULL), (0, FULL), (None, SUCCESS)],
)
def test_volumes_of_pods_count(limit: int | None, want: Status) -> None:
    there = [running("c0", "c1", "c2"), make_csi_node("n", {D: limit})]
    assert verdict(make_pod("p", pvcs=["c3"]), *FOUR, *there) == want


def test_without_drivers_there_are_no_limits() -> None:
    assert verdict(make_pod("p", pvcs=["c3"]), *FOUR, running("c0", "c1", "c2")) == SUCCESS


def test_attached_volumes_without_pods_count() -> None:
    limit = make_csi_node("n", {D: 2})
    pod = make_pod("p", pvcs=["c0"])
    assert verdict(pod, *FOUR, limit, attachment(0), attachment(1)) == FULL
    assert verdict(pod, *FOUR, limit, attachment(0)) == SUCCESS


def test_a_volume_that_is_in_use_on_the_node_is_not_counted_again() -> None:
    full = [running("c0", "c1"), make_csi_node("n", {D: 1})]
    assert verdict(make_pod("p", pvcs=["c0"]), *FOUR, *full) == SUCCESS
    assert verdict(make_pod("p", pvcs=["c2"]), *FOUR, *full) == FULL


def test_claims_without_volumes() -> None:
    unbound = make_pvc("u", storage_class="late")
    lost = make_pvc("l", storage_class="late", volume_name="gone")
    bare = make_pvc("b")
    there = [unbound, lost, bare, running("u", name="r1"), running("u", "l", "b", name="r2")]
    pod = make_pod("p", pvcs=["c0"])
    assert verdict(pod, *FOUR, *there, make_csi_node("n", {D: 3})) == SUCCESS
    assert verdict(pod, *FOUR, *there, make_csi_node("n", {D: 2})) == FULL


def inline(volume_id: str, name: str = "x") -> Volume:
    source = AWSElasticBlockStoreVolumeSource(volume_id=volume_id)
    return Volume(name=name, aws_elastic_block_store=source)


def test_in_tree_volumes_count_for_their_driver() -> None:
    pod = make_pod("p", volumes=[inline("vol-1"), inline("vol-2", "y")])
    assert verdict(pod, make_csi_node("n", {EBS: 1})) == FULL
    assert verdict(pod, make_csi_node("n", {EBS: 2})) == SUCCESS
    assert verdict(pod) == SUCCESS
    claim = make_pvc("c", volume_name="v")
    same = make_pv("v", csi_driver=EBS, volume_handle="vol-1", claim=claim)
    there = [claim, same, running("c"), make_csi_node("n", {EBS: 2})]
    assert verdict(pod, *there) == SUCCESS


def test_an_untranslatable_in_tree_volume_is_an_error() -> None:
    pod = make_pod("p", volumes=[inline("aws://zone/nonsense")])
    status = verdict(pod, make_csi_node("n", {}))
    assert status.code is Code.ERROR
    assert status.message == (
        "converting volume(x) from inline to csi: failed to translate Kubernetes ID to EBS "
        "Volume ID Invalid format for AWS volume (aws://zone/nonsense)"
    )
    assert verdict(pod) == SUCCESS  # without drivers, the volume is not translated


def made_for(pod: Pod) -> Pod:
    ephemeral = Volume(name="v", ephemeral=EphemeralVolumeSource())
    return replace(pod, spec=replace(pod.spec, volumes=(ephemeral,)))


def test_ephemeral_claims() -> None:
    pod = made_for(make_pod("p"))
    missing = 'looking up PVC default/p-v: persistentvolumeclaim "p-v" not found'
    assert verdict(pod) == Status.unresolvable(missing, causes=(ClaimUnusable(),))
    stranger = make_pvc("p-v", storage_class="late")
    assert verdict(pod, stranger).code is Code.ERROR
    there = made_for(make_pod("r", node_name="n"))
    foreign = make_pvc("r-v", storage_class="late")
    new = make_pod("p", pvcs=["c0"])
    assert verdict(new, *FOUR, there, foreign, make_csi_node("n", {D: 9})).code is Code.ERROR
    assert verdict(new, *FOUR, there, foreign, make_csi_node("n", {})) == SUCCESS


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        ({D: 1}, {D: 2}, QueueingHint.QUEUE),
        ({D: 2}, {D: 1}, QueueingHint.SKIP),
        ({D: 1}, {D: None}, QueueingHint.SKIP),
        ({D: 1}, {D: 1, "new": 5}, QueueingHint.QUEUE),
    ],
)
def test_hint_of_limits(old: dict[str, int | None], new: Any, want: QueueingHint) -> None:
    plugin = NodeVolumeLimits(None, FakeHandle())
    nodes = make_csi_node("n", old), make_csi_node("n", new)
    assert plugin._node_changed(make_pod("p", pvcs=["c"]), *nodes) is want


def test_hint_of_attachments_and_pods() -> None:
    plugin = NodeVolumeLimits(None, FakeHandle())
    assert plugin._detached(make_pod("p", pvcs=["c"]), attachment(0), None) is QueueingHint.QUEUE
    assert plugin._detached(made_for(make_pod("p")), attachment(0), None) is QueueingHint.SKIP
    ebs = make_pod("p", volumes=[inline("vol-1")])
    assert plugin._detached(ebs, attachment(0), None) is QueueingHint.SKIP
    pod = make_pod("p", pvcs=["c"])
    assert plugin._pod_deleted(pod, make_pod("r", pvcs=["c"]), None) is QueueingHint.SKIP
    assert plugin._pod_deleted(pod, running("c"), None) is QueueingHint.QUEUE
    assert plugin._pod_deleted(pod, running(), None) is QueueingHint.SKIP


def test_a_required_driver_must_be_installed() -> None:
    needed = CSIDriver(
        metadata=make_meta("CSIDriver", D),
        spec=CSIDriverSpec(prevent_pod_scheduling_if_missing=True),
    )
    pod, gates = make_pod("p", pvcs=["c0"]), {"VolumeLimitScaling": True}
    missing = Status.unschedulable(f"{D} CSI driver is not installed on the node")
    assert verdict(pod, *FOUR, needed, gates=gates) == missing
    assert verdict(pod, *FOUR, needed, make_csi_node("n", {D: None}), gates=gates) == SUCCESS
    assert verdict(pod, *FOUR, gates=gates) == SUCCESS
    assert verdict(pod, *FOUR, needed) == SUCCESS  # without the gate


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_columns_follow_every_change(seed: int) -> None:
    """Both forms agree while claims, volumes, limits, attachments and pods change."""
    rng = random.Random(seed)
    nodes = [make_node(name) for name in ("n", "m")]
    handle = FakeHandle([*nodes, make_storage_class("late"), *FOUR])
    plugin = NodeVolumeLimits(None, handle)
    pod = make_pod("p", pvcs=["c0", "c3"])
    objects = handle.objects
    for step in range(12):
        number = rng.randrange(4)
        match rng.randrange(6):
            case 0:
                node = rng.choice("nm")
                objects.put(make_csi_node(node, {D: rng.choice((None, 0, 1, 2, 3))}))
            case 1:
                objects.put(attachment(number))
            case 2 if objects.list(VolumeAttachment):
                objects.remove(VolumeAttachment, objects.list(VolumeAttachment)[0].metadata.name)
            case 3:
                claims = rng.sample(["c0", "c1", "c2"], k=2)
                objects.put(make_pod(f"r{step}", pvcs=claims, node_name=rng.choice("nm")))
                handle.refresh()
            case 4:
                volume = objects.get(PersistentVolume, f"v{number}")
                assert volume is not None
                handle_name = rng.choice(("v0", "v1", f"v{number}"))
                csi = replace(volume.spec.csi, volume_handle=handle_name)
                objects.put(replace(volume, spec=replace(volume.spec, csi=csi)))
            case 5:
                claim = objects.get(PersistentVolumeClaim, f"c{number}", "default")
                assert claim is not None
                name = rng.choice(("", f"v{number}", "v1"))
                spec = replace(claim.spec, volume_name=name, storage_class_name="late")
                objects.put(replace(claim, spec=spec))
        run_filter(plugin, pod, handle.snapshot.nodes)
        assert objects.list(CSINode) is not None


def test_a_pod_without_volumes_is_skipped() -> None:
    handle = FakeHandle([make_node("n")])
    plugin = NodeVolumeLimits(None, handle)
    answer = plugin.pre_filter(CycleState(), PodInfo(make_pod("p")), handle.snapshot.nodes)
    assert answer.is_skip


def test_the_contract() -> None:
    check_plugin(NodeVolumeLimits)
