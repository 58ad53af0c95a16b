"""Free volumes by class, mode and size, and by the nodes that can reach them.

The rules are in docs/reference/07 §5.4.

A volume with node affinity is filed under the labels that a node must have to reach it, so only
volumes that are within reach of a node are looked at, from the smallest that is large enough.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import chain
from typing import Final, NamedTuple

from kubesched.api import PersistentVolume, PersistentVolumeClaim
from kubesched.api.node_selector import NodeMatcher
from kubesched.api.quantity import quantity_from_json
from kubesched.scheduler.plugins.helpers.volume_claims import claim_class, volume_class

__all__ = [
    "Anchor",
    "VolumeIndex",
    "VolumeKind",
    "claimed_size",
    "is_free",
    "kind_of_claim",
    "kind_of_volume",
    "required_nodes",
    "size_of",
]

_FILESYSTEM: Final = "Filesystem"

Anchor = tuple[str, str]  # a label that a node must have: key, value
_Listed = tuple[int, str]  # size in billionths, name


class VolumeKind(NamedTuple):
    """What must be the same of a claim and a volume."""

    class_name: str
    mode: str
    attributes_class: str


class _Shelf:
    """Free volumes of one kind, each list from small to large."""

    __slots__ = ("anchored", "anywhere", "keys")

    def __init__(self) -> None:
        self.anywhere: list[_Listed] = []
        self.anchored: dict[Anchor, list[_Listed]] = {}
        self.keys: dict[str, int] = {}  # label keys of anchors, with the number of lists

    def lists_for(self, labels: Mapping[str, str]) -> list[list[_Listed]]:
        found = [self.anywhere] if self.anywhere else []
        for key in self.keys:
            value = labels.get(key)
            if value is not None and (listed := self.anchored.get((key, value))):
                found.append(listed)
        return found

    def add(self, anchors: tuple[Anchor, ...] | None, listed: _Listed) -> None:
        if anchors is None:
            insort(self.anywhere, listed)
            return
        for anchor in anchors:
            volumes = self.anchored.get(anchor)
            if volumes is None:
                volumes = self.anchored[anchor] = []
                self.keys[anchor[0]] = self.keys.get(anchor[0], 0) + 1
            insort(volumes, listed)

    def remove(self, anchors: tuple[Anchor, ...] | None, listed: _Listed) -> None:
        if anchors is None:
            _take_out(self.anywhere, listed)
            return
        for anchor in anchors:
            volumes = self.anchored[anchor]
            _take_out(volumes, listed)
            if not volumes:
                del self.anchored[anchor]
                self.keys[anchor[0]] -= 1
                if not self.keys[anchor[0]]:
                    del self.keys[anchor[0]]

    @property
    def is_empty(self) -> bool:
        return not self.anywhere and not self.anchored


class VolumeIndex:
    """Free volumes, and those that are spoken for, by claim."""

    def __init__(self) -> None:
        self._shelves: dict[VolumeKind, _Shelf] = {}
        # "namespace/name" of a claim -> names of volumes; there is hardly ever more than one.
        self._by_claim: dict[str, tuple[str, ...]] = {}
        self._filed: dict[str, PersistentVolume] = {}
        self.listeners: list[Callable[[PersistentVolume | None, PersistentVolume | None], None]]
        self.listeners = []  # told (before, after) of volumes

    def put(self, name: str, volume: PersistentVolume | None) -> None:
        """The volume of that name is like this from now on; None: there is none."""
        before = self._filed.get(name)
        if before is volume:
            return
        if before is not None:
            self._take(before)
        if volume is not None:
            self._filed[name] = volume
            self._put(volume)
        else:
            del self._filed[name]
        for listener in self.listeners:
            listener(before, volume)

    def get(self, name: str) -> PersistentVolume:
        """A volume that is in the index, as it was put."""
        return self._filed[name]

    def has_free(self, kind: VolumeKind) -> bool:
        return kind in self._shelves

    def reserved(self, claim: PersistentVolumeClaim) -> list[str]:
        """Names of volumes whose claimRef names the claim, whatever its uid."""
        metadata = claim.metadata
        return sorted(self._by_claim.get(f"{metadata.namespace}/{metadata.name}", ()))

    def free(self, kind: VolumeKind, least: int, labels: Mapping[str, str]) -> Iterator[str]:
        """Names of free volumes that such a node may reach, from the smallest large enough."""
        shelf = self._shelves.get(kind)
        if shelf is None:
            return
        lists = [_from(least, listed) for listed in shelf.lists_for(labels)]
        for _, name in heapq.merge(*lists) if len(lists) > 1 else chain(*lists):
            yield name

    def all_free(self, kind: VolumeKind, least: int) -> Iterator[str]:
        """Names of all free volumes of a kind that are large enough."""
        shelf = self._shelves.get(kind)
        if shelf is None:
            return
        seen: set[str] = set()
        for listed in (shelf.anywhere, *shelf.anchored.values()):
            for size, name in listed:
                if size >= least and name not in seen:
                    seen.add(name)
                    yield name

    def _put(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            key = f"{reference.namespace}/{reference.name}"
            self._by_claim[key] = (*self._by_claim.get(key, ()), volume.metadata.name)
        elif is_free(volume):
            kind = kind_of_volume(volume)
            shelf = self._shelves.get(kind)
            if shelf is None:
                shelf = self._shelves[kind] = _Shelf()
            shelf.add(_anchors(volume), (size_of(volume), volume.metadata.name))

    def _take(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            key = f"{reference.namespace}/{reference.name}"
            left = tuple(name for name in self._by_claim[key] if name != volume.metadata.name)
            if left:
                self._by_claim[key] = left
            else:
                del self._by_claim[key]
        elif is_free(volume):
            kind = kind_of_volume(volume)
            shelf = self._shelves[kind]
            shelf.remove(_anchors(volume), (size_of(volume), volume.metadata.name))
            if shelf.is_empty:
                del self._shelves[kind]


def _from(least: int, listed: list[_Listed]) -> Iterator[_Listed]:
    """The part of a list that is large enough."""
    for place in range(bisect_left(listed, (least, "")), len(listed)):
        yield listed[place]


def is_free(volume: PersistentVolume) -> bool:
    """Whether any claim may take it."""
    return (
        volume.spec.claim_ref is None
        and volume.status.phase == "Available"
        and volume.metadata.deletion_timestamp is None
    )


def kind_of_volume(volume: PersistentVolume) -> VolumeKind:
    spec = volume.spec
    return VolumeKind(
        volume_class(volume),
        spec.volume_mode or _FILESYSTEM,
        spec.volume_attributes_class_name or "",
    )


def kind_of_claim(claim: PersistentVolumeClaim) -> VolumeKind:
    spec = claim.spec
    return VolumeKind(
        claim_class(claim),
        spec.volume_mode or _FILESYSTEM,
        spec.volume_attributes_class_name or "",
    )


def size_of(volume: PersistentVolume) -> int:
    """The capacity, exactly, in billionths of a byte."""
    return quantity_from_json(volume.spec.capacity.get("storage")).nanos


def claimed_size(claim: PersistentVolumeClaim) -> int:
    """What the claim asks for, exactly, in billionths of a byte."""
    return quantity_from_json(claim.spec.resources.requests.get("storage")).nanos


def required_nodes(volume: PersistentVolume) -> NodeMatcher | None:
    """Which nodes can reach the volume; None: all of them."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    return NodeMatcher.parse(affinity.required)


def _anchors(volume: PersistentVolume) -> tuple[Anchor, ...] | None:
    """Labels of which a node must have one to reach the volume; None if that cannot be said."""
    matcher = required_nodes(volume)
    return None if matcher is None else _anchors_of(matcher)


@lru_cache(maxsize=4096)
def _anchors_of(matcher: NodeMatcher) -> tuple[Anchor, ...] | None:
    anchors: set[Anchor] = set()
    for term in matcher.terms:
        if term.errors:
            continue  # such a term matches no node
        wanted = [each for each in term.selector.requirements if each.operator == "in"]
        if not wanted:
            return None
        narrowest = min(wanted, key=lambda each: (len(each.value_set), each.key))
        anchors.update((narrowest.key, value) for value in narrowest.value_set)
    return tuple(sorted(anchors))


def _take_out(volumes: list[_Listed], listed: _Listed) -> None:
    place = bisect_left(volumes, listed)
    assert volumes[place] == listed, "a volume that was filed is where it was filed"
    del volumes[place]
