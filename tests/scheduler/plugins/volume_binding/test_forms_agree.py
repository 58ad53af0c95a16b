"""Random clusters: filter, filter_nodes and an oracle agree."""

from __future__ import annotations

import random
from collections.abc import Mapping

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
)
from kubesched.api.base import ApiObject
from kubesched.api.node_selector import NodeMatcher
from kubesched.api.quantity import quantity_from_json
from kubesched.framework import SUCCESS
from kubesched.scheduler.plugins.volume_binding import VolumeBinding
from kubesched.testing import (
    FakeHandle,
    make_node,
    make_node_selector,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
    run_filter,
)

HOSTS = ("n0", "n1", "n2", "n3", "n4")
ZONES = ("z0", "z1")
SELECTED = "volume.kubernetes.io/selected-node"


def labels_of(host: str) -> dict[str, str]:
    return {"host": host, "zone": ZONES[HOSTS.index(host) % 2]}


class RandomCluster:
    """A cluster drawn from a seed."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.classes = self._classes()
        self.claims = [self._claim(f"c{number}") for number in range(rng.randint(1, 3))]
        self.volumes = [self._volume(f"v{number}") for number in range(rng.randint(0, 9))]
        for claim in self.claims:
            if claim.spec.volume_name and rng.random() < 0.8:
                self.volumes.append(
                    replace(
                        self._volume(claim.spec.volume_name),
                        spec=replace(
                            self._volume(claim.spec.volume_name).spec,
                            claim_ref=_pointer(claim, claim.metadata.uid),
                        ),
                    )
                )

    @property
    def objects(self) -> list[ApiObject]:
        return [*self.classes.values(), *self.claims, *self.volumes]

    def _classes(self) -> dict[str, StorageClass]:
        zone = TopologySelectorLabelRequirement(key="zone", values=(self.rng.choice(ZONES),))
        limited = replace(
            make_storage_class("zonal"),
            allowed_topologies=(TopologySelectorTerm(match_label_expressions=(zone,)),),
        )
        return {
            "np": make_storage_class("np", provisioner="kubernetes.io/no-provisioner"),
            "dp": make_storage_class("dp"),
            "zonal": limited,
        }

    def _claim(self, name: str) -> PersistentVolumeClaim:
        rng = self.rng
        annotations = {SELECTED: rng.choice(HOSTS)} if rng.random() < 0.15 else {}
        return make_pvc(
            name,
            storage_class=rng.choice(("np", "np", "np", "dp", "zonal")),
            size=f"{rng.randint(1, 4)}Gi",
            access_modes=rng.choice((["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"])),
            selector={"disk": "ssd"} if rng.random() < 0.2 else None,
            volume_name=f"bound-{name}" if rng.random() < 0.25 else "",
            annotations=annotations,
        )

    def _volume(self, name: str) -> PersistentVolume:
        rng = self.rng
        places = (
            None,
            ("host", "In", rng.choice(HOSTS)),
            ("host", "In", rng.choice(HOSTS)),
            ("zone", "In", rng.choice(ZONES)),
            ("host", "NotIn", rng.choice(HOSTS)),
        )
        place = rng.choice(places)
        made = make_pv(
            name,
            storage_class=rng.choice(("np", "np", "dp")),
            size=f"{rng.randint(1, 5)}Gi",
            access_modes=["ReadWriteOnce", *(["ReadOnlyMany"] if rng.random() < 0.5 else [])],
            labels={"disk": rng.choice(("ssd", "hdd"))},
            node_selector=None if place is None else make_node_selector(place),
            phase=rng.choice(("Available", "Available", "Available", "Released")),
        )
        if rng.random() < 0.2:
            claim = rng.choice(self.claims)
            uid = rng.choice(("", claim.metadata.uid, "other"))
            made = replace(made, spec=replace(made.spec, claim_ref=_pointer(claim, uid)))
        return made


def _pointer(claim: PersistentVolumeClaim, uid: str) -> ObjectReference:
    return ObjectReference(namespace="default", name=claim.metadata.name, uid=uid)


def expected(draw: RandomCluster, host: str) -> set[str] | None:
    """Return the problems of a node by the rules.

    The result is None if the choice of a volume is arbitrary.

    That is the case if several volumes are reserved for one claim.
    """
    labels, problems = labels_of(host), set()
    by_name = {each.metadata.name: each for each in draw.volumes}
    for claim in draw.claims:
        if claim.spec.volume_name:
            bound = by_name.get(claim.spec.volume_name)
            if bound is None:
                problems.add("NOPV")
                break
            if not reaches(bound, labels):
                problems.add("AFF")
                break
    unbound = [claim for claim in draw.claims if not claim.spec.volume_name]
    selected = [claim for claim in unbound if SELECTED in claim.metadata.annotations]
    if any(claim.metadata.annotations[SELECTED] != host for claim in selected):
        return problems | {"BIND"}
    taken: set[str] = set()
    wanting = list(selected)
    for claim in sorted((each for each in unbound if each not in selected), key=size):
        reserved = [each for each in draw.volumes if is_for(each, claim) and fits(each, claim)]
        if len(reserved) > 1:
            return None
        if reserved:
            found = reserved[0] if reaches(reserved[0], labels) else None
        else:
            free = [
                each
                for each in draw.volumes
                if each.metadata.name not in taken
                and each.spec.claim_ref is None
                and each.status.phase == "Available"
                and fits(each, claim)
                and reaches(each, labels)
                and set(claim.spec.access_modes) <= set(each.spec.access_modes)
                and (claim.spec.selector is None or each.metadata.labels["disk"] == "ssd")
            ]
            found = min(free, key=lambda each: (capacity(each), each.metadata.name), default=None)
        if found is None:
            wanting.append(claim)
        else:
            taken.add(found.metadata.name)
    for claim in wanting:
        made_by = draw.classes[claim.spec.storage_class_name or ""]
        topology = made_by.allowed_topologies
        zones = topology[0].match_label_expressions[0].values if topology else ZONES
        if made_by.provisioner.endswith("no-provisioner") or labels["zone"] not in zones:
            return problems | {"BIND"}
    return problems


def reaches(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return True
    return NodeMatcher.parse(affinity.required).matches(labels, "")


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return volume.spec.storage_class_name == claim.spec.storage_class_name and capacity(
        volume
    ) >= size(claim)


def is_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.metadata.name
        and reference.uid in ("", claim.metadata.uid)
    )


def capacity(volume: PersistentVolume) -> int:
    return quantity_from_json(volume.spec.capacity["storage"]).value


def size(claim: PersistentVolumeClaim) -> int:
    return quantity_from_json(claim.spec.resources.requests["storage"]).value


WORDS = {
    "AFF": "node(s) didn't match PersistentVolume's node affinity",
    "BIND": "node(s) didn't find available persistent volumes to bind",
    "NOPV": "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
}


@given(st.integers(0, 2**32))
@settings(max_examples=150, deadline=None)
def test_both_forms_agree_with_the_oracle(seed: int) -> None:
    draw = RandomCluster(random.Random(seed))
    nodes = [make_node(host, labels=labels_of(host)) for host in HOSTS]
    handle = FakeHandle([*nodes, *draw.objects])
    plugin = VolumeBinding(None, handle)
    pod = make_pod("p", pvcs=[claim.metadata.name for claim in draw.claims])
    view = handle.snapshot.nodes
    run_filter(plugin, pod, view)  # fills the cache of free volumes
    for each in draw.rng.sample(draw.volumes, k=len(draw.volumes) // 2):
        # Volumes change while their columns are cached: the columns must follow.
        changed = draw._volume(each.metadata.name)
        draw.volumes[draw.volumes.index(each)] = changed
        handle.objects.put(changed)
    answers = run_filter(plugin, pod, view)
    for host, answer in zip(view.names, answers, strict=True):
        wanted = expected(draw, host)
        if wanted is None:
            continue
        assert set(answer.reasons) == {WORDS[word] for word in wanted}, (host, answer)
        assert (answer == SUCCESS) == (not wanted)
