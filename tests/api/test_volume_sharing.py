"""Sharing of parts between volumes and claims: equal results in less memory."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from benchmarks.volume_memory import claim_json, volume_json
from kubesched.api import PersistentVolume, PersistentVolumeClaim
from kubesched.api.codec import from_builtins
from kubesched.api.sharing import ClaimSharing, VolumeSharing


def volume(number: int, **spec: Any) -> PersistentVolume:
    document = volume_json(number)
    document["spec"] |= spec
    return from_builtins(document, PersistentVolume)


def claim(number: int) -> PersistentVolumeClaim:
    return from_builtins(claim_json(number), PersistentVolumeClaim)


def test_volumes_of_a_class_share_equal_parts() -> None:
    share = VolumeSharing().share
    first, second = share(volume(0), None), share(volume(3), None)
    assert (first, second) == (volume(0), volume(3))
    assert second.metadata.annotations is first.metadata.annotations
    assert second.spec.access_modes is first.spec.access_modes
    assert second.spec.node_affinity is first.spec.node_affinity
    assert second.spec.csi is not None
    assert first.spec.csi is not None
    assert second.spec.csi.volume_attributes is first.spec.csi.volume_attributes


def test_claims_of_a_namespace_share_equal_parts() -> None:
    share = ClaimSharing().share
    first, second = share(claim(0), None), share(claim(50), None)
    assert (first, second) == (claim(0), claim(50))
    assert second.status is first.status
    assert second.spec.resources is first.spec.resources
    same_node = share(claim(5000), None)
    assert same_node.metadata.annotations is first.metadata.annotations


def test_a_new_version_shares_with_the_previous_one() -> None:
    share = ClaimSharing().share
    before = share(claim(1), None)
    touched = replace(claim(1), metadata=replace(claim(1).metadata, resource_version="9"))
    after = share(touched, before)
    assert after == touched
    assert after.spec.resources is before.spec.resources
    assert after.metadata.labels is before.metadata.labels


@given(st.lists(st.tuples(st.integers(0, 9), st.booleans(), st.booleans()), max_size=12))
def test_the_result_equals_the_input(steps: list[tuple[int, bool, bool]]) -> None:
    share, share_claim = VolumeSharing().share, ClaimSharing().share
    seen: dict[int, PersistentVolume] = {}
    for number, is_free, is_local in steps:
        changes: dict[str, Any] = {}
        if is_free:
            changes["claimRef"] = None
        if is_local:
            changes |= {"csi": None, "local": {"path": f"/mnt/{number}"}, "nodeAffinity": None}
        came = volume(number, **changes)
        seen[number] = share(came, seen.get(number))
        assert seen[number] == came
        assert share_claim(claim(number), None) == claim(number)
