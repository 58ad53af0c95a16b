"""The assume cache and the volume index, compared with a recount."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import ObjectReference, PersistentVolume, codec
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError
from kubesched.scheduler.plugins.volume_binding.assume_cache import AssumeCache
from kubesched.scheduler.plugins.volume_binding.volume_index import (
    VolumeIndex,
    is_free,
    kind_of_volume,
    required_nodes,
    size_of,
)
from kubesched.testing import FakeObjects
from tests.counted_calls import count_calls
from tests.scheduler.plugins.volume_binding.volume_fixture import volume

NAMES = ("a", "b", "c", "d")


def versioned(pv: PersistentVolume, version: int) -> PersistentVolume:
    return replace(pv, metadata=replace(pv.metadata, resource_version=str(version)))


def claimed(pv: PersistentVolume, name: str = "x") -> PersistentVolume:
    reference = ObjectReference(namespace="default", name=name, uid="u")
    return replace(pv, spec=replace(pv.spec, claim_ref=reference))


def cache_of(*volumes: PersistentVolume) -> tuple[FakeObjects, AssumeCache[PersistentVolume]]:
    objects = FakeObjects(volumes)
    return objects, AssumeCache(objects.lister(PersistentVolume), "persistentvolumes")


@pytest.mark.parametrize("version", [4, 6])
def test_only_the_stored_version_can_be_assumed(version: int) -> None:
    stored = versioned(volume("a"), 5)
    _, cache = cache_of(stored)
    with pytest.raises(VolumeClaimError) as raised:
        cache.assume(versioned(claimed(stored), version))
    assert str(raised.value) == f'"a" is out of sync (stored: 5, assume: {version})'
    assert cache.get("a") == stored


def test_a_missing_object_cannot_be_assumed() -> None:
    _, cache = cache_of()
    with pytest.raises(VolumeClaimError, match='persistentvolumes "a" not found'):
        cache.assume(volume("a"))


def test_an_assumption_ends_with_the_next_version() -> None:
    stored = versioned(volume("a"), 5)
    objects, cache = cache_of(stored)
    assumed = claimed(stored)
    cache.assume(assumed)
    objects.put(stored)  # the same version again
    assert cache.get("a") is assumed
    assert cache.stored("a") == stored
    newer = versioned(stored, 7)
    objects.put(newer)
    assert cache.get("a") is newer
    assert len(cache) == 0
    cache.assume(claimed(newer))
    cache.restore(assumed)  # of another version: no effect
    assert cache.get("a") == claimed(newer)
    cache.restore(claimed(newer))
    assert cache.get("a") is newer


def test_an_assumption_ends_with_its_object() -> None:
    objects, cache = cache_of(volume("a"))
    cache.assume(claimed(volume("a")))
    objects.remove(PersistentVolume, "a")
    assert cache.get("a") is None
    assert len(cache) == 0


def test_a_volume_for_very_many_label_values_is_indexed_at_once() -> None:
    """The number of values in a volume's node affinity is not limited by the API."""
    values = [f"v{number}" for number in range(50_000)]
    terms = [{"matchExpressions": [{"key": "k", "operator": "In", "values": values}]}]
    large = codec.from_builtins(
        {
            "metadata": {"name": "large"},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
            },
            "status": {"phase": "Available"},
        },
        PersistentVolume,
    )
    index = VolumeIndex()
    assert count_calls(lambda: index.put("large", large)) < 1_000
    kind = kind_of_volume(large)
    assert list(index.free(kind, 1, {"k": "v7"})) == ["large"]
    index.put("large", None)
    assert not index.has_free(kind)


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_the_index_equals_a_recount(seed: int) -> None:
    rng = random.Random(seed)
    objects = FakeObjects()
    index = VolumeIndex()
    cache = AssumeCache(objects.lister(PersistentVolume), "persistentvolumes", index.put)
    assumed: list[PersistentVolume] = []
    version = 1
    for _ in range(40):
        name = rng.choice(NAMES)
        stored = objects.get(PersistentVolume, name)
        match rng.randrange(4):
            case 0:
                version += 1
                objects.put(versioned(_random_volume(rng, name), version))
            case 1 if stored is not None:
                objects.remove(PersistentVolume, name)
            case 2 if stored is not None:
                changed = claimed(stored, rng.choice(("x", "y")))
                cache.assume(changed)
                assumed.append(changed)
            case 3 if assumed:
                cache.restore(rng.choice(assumed))
        _check(index, cache)


def _random_volume(rng: random.Random, name: str) -> PersistentVolume:
    node = rng.choice(("", "n1", "n2"))
    cache_of = volume(
        f"{name}@{node}:{rng.randint(1, 3)}Gi",
        storage_class=rng.choice(("np", "dp")),
        phase=rng.choice(("Available", "Available", "Released")),
    )
    return claimed(cache_of) if rng.random() < 0.2 else cache_of


def _check(index: VolumeIndex, cache: AssumeCache[PersistentVolume]) -> None:
    present = {name: found for name in NAMES if (found := cache.get(name)) is not None}
    kinds = {kind_of_volume(each) for each in present.values()}
    for kind in kinds:
        free = {
            name for name, each in present.items() if is_free(each) and kind_of_volume(each) == kind
        }
        assert index.has_free(kind) == bool(free)
        assert set(index.all_free(kind, 0)) == free
        for node in ("n1", "n2"):
            labels = {"k": node}
            within_reach = sorted(
                (size_of(present[name]), name)
                for name in free
                if (matcher := required_nodes(present[name])) is None or matcher.matches(labels, "")
            )
            assert list(index.free(kind, 0, labels)) == [name for _, name in within_reach]
