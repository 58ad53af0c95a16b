"""VolumeBinding: PreFilter and Filter (docs/reference/07 §12, cases 1 to 31)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from kubesched.api import (
    CSINode,
    EphemeralVolumeSource,
    GCEPersistentDiskVolumeSource,
    LabelSelector,
    NodeSelector,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    Volume,
)
from kubesched.api.base import ApiObject
from kubesched.framework import SKIP, SUCCESS, Code, Status
from kubesched.scheduler.plugins.volume_binding import VolumeBinding
from kubesched.testing import (
    check_plugin,
    make_csi_driver,
    make_csi_node,
    make_csi_storage_capacity,
    make_node,
    make_node_selector,
    make_node_term,
    make_owner,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
)
from tests.scheduler.plugins.volume_binding.volume_fixture import (
    AFF,
    BIND,
    NOPV,
    SPACE,
    VolumeHarness,
    claim,
    unresolvable,
    volume,
)

SELECTED = "volume.kubernetes.io/selected-node"
IMMEDIATE = unresolvable("pod has unbound immediate PersistentVolumeClaims")


def spec(changed: Any, **changes: Any) -> Any:
    return replace(changed, spec=replace(changed.spec, **changes))


# -- PreFilter -------------------------------------------------------------------------------


class Case(NamedTuple):
    objects: tuple[ApiObject, ...]
    claims: tuple[str, ...]
    want: Status


LOST = claim("c", volume_name="x")
PRE_FILTER = {
    "no claim": Case((), (), SKIP),
    "second claim is missing": Case(
        (claim("a", storage_class="dp"),),
        ("a", "b"),
        unresolvable('persistentvolumeclaim "b" not found'),
    ),
    "claim is lost": Case(
        (replace(LOST, status=replace(LOST.status, phase="Lost")),),
        ("c",),
        unresolvable('persistentvolumeclaim "c" bound to non-existent persistentvolume "x"'),
    ),
    "claim is being deleted": Case(
        (claim("c", deletion_timestamp="2026-01-01T00:00:00Z"),),
        ("c",),
        unresolvable('persistentvolumeclaim "c" is being deleted'),
    ),
    "immediate class": Case(
        (make_storage_class("now", wait_for_first_consumer=False), claim("c", storage_class="now")),
        ("c",),
        IMMEDIATE,
    ),
    "class that does not exist": Case((claim("c", storage_class="nope"),), ("c",), IMMEDIATE),
    "delayed class, volume named, not bound": Case(
        (claim("c", volume_name="x", bound=False),), ("c",), IMMEDIATE
    ),
    "delayed class": Case((claim("c"),), ("c",), SUCCESS),
    "the annotation wins over the field": Case(
        (claim("c", annotations={"volume.beta.kubernetes.io/storage-class": ""}),),
        ("c",),
        IMMEDIATE,
    ),
}


@pytest.mark.parametrize("case", PRE_FILTER.values(), ids=PRE_FILTER)
def test_pre_filter(case: Case) -> None:
    harness = VolumeHarness(*case.objects)
    assert harness.pre_filter(harness.pod(*case.claims)) == case.want


def test_a_class_without_a_mode_is_an_error() -> None:
    silent = StorageClass(metadata=make_storage_class("s").metadata, provisioner="x")
    harness = VolumeHarness(silent, claim("c", storage_class="s"))
    answer = harness.pre_filter(harness.pod("c"))
    assert answer.code is Code.ERROR
    assert answer.message == 'VolumeBindingMode not set for StorageClass "s"'


@pytest.mark.parametrize(
    ("made", "want"),
    [
        (
            None,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"',
        ),
        (
            claim("p-v", storage_class="dp"),
            "PVC default/p-v was not created for pod default/p (pod is not owner)",
        ),
    ],
)
def test_problems_of_ephemeral_claims(made: PersistentVolumeClaim | None, want: str) -> None:
    harness = VolumeHarness(*([] if made is None else [made]))
    pod = make_pod("p", volumes=[Volume(name="v", ephemeral=EphemeralVolumeSource())])
    assert harness.pre_filter(pod) == unresolvable(want)


def test_an_ephemeral_claim_is_used() -> None:
    made = claim("p-v", storage_class="dp")
    owned = replace(
        made, metadata=replace(made.metadata, owner_references=(make_owner("Pod", "p"),))
    )
    harness = VolumeHarness(owned)
    pod = make_pod("p", volumes=[Volume(name="v", ephemeral=EphemeralVolumeSource())])
    assert harness.pre_filter(pod) == SUCCESS


# -- Filter ----------------------------------------------------------------------------------


def allowing(*values: str) -> StorageClass:
    wanted = TopologySelectorLabelRequirement(key="k", values=values)
    term = TopologySelectorTerm(match_label_expressions=(wanted,) if values else ())
    return replace(make_storage_class("dp"), allowed_topologies=(term,))


def reference(uid: str = "") -> ObjectReference:
    return ObjectReference(namespace="default", name="c", uid=uid)


def with_space(*capacities: ApiObject) -> tuple[ApiObject, ...]:
    driver = make_csi_driver("csi.example.com", storage_capacity=True)
    return (driver, claim("c", "1Gi", storage_class="dp"), *capacities)


def in_tree(zone: str) -> PersistentVolume:
    made = make_pv("v", labels={"topology.kubernetes.io/zone": zone}, claim=claim("c"))
    return spec(made, csi=None, gce_persistent_disk=GCEPersistentDiskVolumeSource(pd_name="d"))


def migrated(plugins: str) -> CSINode:
    node = make_csi_node("n1", {})
    annotation = {"storage.alpha.kubernetes.io/migrated-plugins": plugins}
    return replace(node, metadata=replace(node.metadata, annotations=annotation))


BOUND = claim("c", volume_name="v")
ANYWHERE = make_node_selector(
    make_node_term(fields=[("metadata.name", "In", "other")]),
)
NO, YES = unresolvable(BIND), SUCCESS
FILTER: dict[str, tuple[tuple[ApiObject, ...], list[Status]]] = {
    "volumes are on n1": ((claim("c"), volume("a@n1:5Gi"), volume("b@n1:10Gi")), [YES, NO]),
    "too small": ((claim("c", "6Gi"), volume("a@n1:5Gi"), volume("b@n2:6Gi")), [NO, YES]),
    "bound, on n2": ((BOUND, volume("v@n2:5Gi", claim=BOUND)), [unresolvable(AFF), YES]),
    "bound, volume is gone": ((BOUND,), [unresolvable(NOPV)] * 2),
    "set aside for the claim, in whatever phase": (
        (claim("c"), spec(volume("a@n1:5Gi", phase="Pending"), claim_ref=reference())),
        [YES, NO],
    ),
    "set aside for the claim, on n2: no other is taken": (
        (claim("c"), spec(volume("a@n2:5Gi"), claim_ref=reference()), volume("b@n1:5Gi")),
        [NO, YES],
    ),
    "set aside for another claim of that name": (
        (claim("c"), spec(volume("a@n1:5Gi"), claim_ref=reference("other"))),
        [NO, NO],
    ),
    "not available": ((claim("c"), volume("a@n1:5Gi", phase="Released")), [NO, NO]),
    "fewer access modes": ((claim("c", access_modes=["ReadWriteMany"]), volume("a@n1")), [NO, NO]),
    "another volume mode": (
        (spec(claim("c"), volume_mode="Block"), volume("a@n1")),
        [NO, NO],
    ),
    "the same volume mode, once by default": (
        (spec(claim("c"), volume_mode="Filesystem"), volume("a@n1")),
        [YES, NO],
    ),
    "labels that the claim does not want": (
        (claim("c", selector={"disk": "ssd"}), volume("a@n1", labels={"disk": "hdd"})),
        [NO, NO],
    ),
    "labels that the claim wants": (
        (claim("c", selector={"disk": "ssd"}), volume("a@n1", labels={"disk": "ssd"})),
        [YES, NO],
    ),
    "an empty selector wants anything": (
        (spec(claim("c"), selector=LabelSelector()), volume("a@n1")),
        [YES, NO],
    ),
    "gold for gold": (
        (
            spec(claim("c"), volume_attributes_class_name="gold"),
            spec(volume("a@n1"), volume_attributes_class_name="gold"),
        ),
        [YES, NO],
    ),
    "gold for none": (
        (claim("c"), spec(volume("a@n1"), volume_attributes_class_name="gold")),
        [NO, NO],
    ),
    "fields of the affinity are not looked at": (
        (claim("c"), make_pv("a", storage_class="np", node_selector=ANYWHERE)),
        [YES, YES],
    ),
    "an affinity without terms matches nothing": (
        (claim("c"), make_pv("a", storage_class="np", node_selector=NodeSelector())),
        [NO, NO],
    ),
    "n2 is selected: a volume on n1 does not count": (
        (claim("c", storage_class="dp", annotations={SELECTED: "n2"}), volume("a@n1")),
        [NO, YES],
    ),
    "n1 is selected, and no provisioner exists": (
        (claim("c", annotations={SELECTED: "n1"}), volume("a@n1")),
        [NO, NO],
    ),
    "made on n1 only": ((allowing("n1", "z"), claim("c", storage_class="dp")), [YES, NO]),
    "a topology without expressions": ((allowing(), claim("c", storage_class="dp")), [NO, NO]),
    "no capacity is known": (with_space(), [unresolvable(SPACE)] * 2),
    "capacity on every node": (
        with_space(make_csi_storage_capacity("x", storage_class="dp", capacity="1Gi", topology={})),
        [YES, YES],
    ),
    "capacity on n2": (
        with_space(
            make_csi_storage_capacity("x", storage_class="dp", capacity="1Gi", topology={"k": "n2"})
        ),
        [unresolvable(SPACE), YES],
    ),
    "the largest volume counts, not the capacity": (
        with_space(
            make_csi_storage_capacity(
                "x", storage_class="dp", capacity="1Gi", maximum_volume_size="1Mi", topology={}
            )
        ),
        [unresolvable(SPACE)] * 2,
    ),
    "capacity that is nowhere": (
        with_space(make_csi_storage_capacity("x", storage_class="dp", capacity="1Gi")),
        [unresolvable(SPACE)] * 2,
    ),
    "an in-tree volume on a node that keeps it": ((BOUND, in_tree("z1")), [YES, YES]),
    "an in-tree volume that is a CSI volume on n1": (
        (BOUND, in_tree("z1"), migrated("kubernetes.io/gce-pd")),
        [unresolvable(AFF), YES],
    ),
    "plugins are not trimmed": (
        (BOUND, in_tree("z1"), migrated("x, kubernetes.io/gce-pd")),
        [YES, YES],
    ),
}


@pytest.mark.parametrize(("objects", "want"), FILTER.values(), ids=FILTER)
def test_filter(objects: tuple[ApiObject, ...], want: list[Status]) -> None:
    assert VolumeHarness(*objects).filter("c") == want


def test_several_problems_come_in_a_fixed_order() -> None:
    harness = VolumeHarness(BOUND, volume("v@n2", claim=BOUND), claim("d"))
    assert harness.filter("c", "d") == [unresolvable(AFF, BIND), unresolvable(BIND)]


def test_a_migrated_volume_is_reached_by_the_label_of_its_driver() -> None:
    harness = VolumeHarness(
        BOUND,
        in_tree("z1"),
        migrated("kubernetes.io/gce-pd"),
        make_node("n1", labels={"k": "n1", "topology.gke.io/zone": "z1"}),
    )
    harness.handle.refresh()
    assert harness.filter("c") == [SUCCESS, SUCCESS]


SIZES = {
    "the small one gets the small volume, whatever their order": (
        ("5Gi", "1Gi"),
        ("a@n1:5Gi", "b@n1:10Gi"),
        {"d": "a", "c": "b"},
    ),
    "the smallest that will do": (("1Gi", "6Gi"), ("a@n1:5Gi", "b@n1:10Gi"), {"c": "a", "d": "b"}),
    "each is used once": (("1Gi", "1Gi"), ("a@n1:5Gi", "b@n1:10Gi"), {"c": "a", "d": "b"}),
}


@pytest.mark.parametrize(("sizes", "volumes", "want"), SIZES.values(), ids=SIZES)
def test_two_claims_compete_for_the_same_volumes(
    sizes: tuple[str, str], volumes: tuple[str, ...], want: dict[str, str]
) -> None:
    harness = VolumeHarness(claim("c", sizes[0]), claim("d", sizes[1]), *map(volume, volumes))
    assert harness.filter("c", "d") == [SUCCESS, unresolvable(BIND)]
    state, status = harness.reserve(harness.pod("c", "d"))
    assert status.is_success
    reservation = state.read("VolumeBinding").reservation
    assert {made.metadata.name: pv.metadata.name for pv, made in reservation.volumes} == want


def test_one_volume_does_not_serve_two_claims() -> None:
    assert VolumeHarness(claim("c"), claim("d", "5Gi"), volume("a@n1:5Gi")).filter("c", "d") == [
        unresolvable(BIND),
        unresolvable(BIND),
    ]
    mixed = VolumeHarness(
        claim("c", storage_class="dp"),
        claim("d", "5Gi", storage_class="dp"),
        volume("a@n1:5Gi", storage_class="dp"),
    )
    assert mixed.filter("c", "d") == [SUCCESS, SUCCESS]


def test_an_invalid_selector_of_a_claim_is_an_error() -> None:
    harness = VolumeHarness(claim("c", selector={"not a key!": "x"}), volume("a@n1"))
    status = harness.filter("c")[0]
    assert status.code is Code.ERROR
    assert status.message.startswith(
        "error creating internal label selector for claim: default/c: "
    )


def test_a_claim_without_a_size_needs_no_space() -> None:
    bare = make_pvc("c", storage_class="dp")
    harness = VolumeHarness(
        make_csi_driver("csi.example.com", storage_capacity=True),
        spec(bare, resources=replace(bare.spec.resources, requests={})),
    )
    assert harness.filter("c") == [SUCCESS, SUCCESS]


def test_the_contract() -> None:
    check_plugin(VolumeBinding)
