"""Free volumes by class, mode and size, and by the nodes that can reach them.

The rules are in docs/reference/07 §5.4.

A volume with node affinity is indexed by the labels that a node must have to reach it. A lookup
therefore visits only volumes within reach of the node, from the smallest that is large enough.
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
# A volume that more labels lead to is not indexed by labels: its lists would take too long to fill.
_MOST_ANCHORS: Final = 1_000

Anchor = tuple[str, str]  # a label that a node must have: key, value
_SizedName = tuple[int, str]  # size in billionths of a byte, name of the volume


class VolumeKind(NamedTuple):
    """The properties in which a claim and a volume must be equal."""

    class_name: str
    mode: str
    attributes_class: str


class _FreeVolumesOfKind:
    """Free volumes of one kind, in lists sorted by size."""

    __slots__ = ("anchored", "anywhere", "keys")

    def __init__(self) -> None:
        self.anywhere: list[_SizedName] = []
        self.anchored: dict[Anchor, list[_SizedName]] = {}
        self.keys: dict[str, int] = {}  # label keys of anchors, with the number of lists

    def lists_for(self, labels: Mapping[str, str]) -> list[list[_SizedName]]:
        found = [self.anywhere] if self.anywhere else []
        for key in self.keys:
            value = labels.get(key)
            if value is not None and (listed := self.anchored.get((key, value))):
                found.append(listed)
        return found

    def add(self, anchors: tuple[Anchor, ...] | None, listed: _SizedName) -> None:
        if anchors is None:
            insort(self.anywhere, listed)
            return
        for anchor in anchors:
            volumes = self.anchored.get(anchor)
            if volumes is None:
                volumes = self.anchored[anchor] = []
                self.keys[anchor[0]] = self.keys.get(anchor[0], 0) + 1
            insort(volumes, listed)

    def remove(self, anchors: tuple[Anchor, ...] | None, listed: _SizedName) -> None:
        if anchors is None:
            _remove_sorted(self.anywhere, listed)
            return
        for anchor in anchors:
            volumes = self.anchored[anchor]
            _remove_sorted(volumes, listed)
            if not volumes:
                del self.anchored[anchor]
                self.keys[anchor[0]] -= 1
                if not self.keys[anchor[0]]:
                    del self.keys[anchor[0]]

    @property
    def is_empty(self) -> bool:
        return not self.anywhere and not self.anchored


class VolumeIndex:
    """Free volumes by kind, and reserved volumes by claim."""

    def __init__(self) -> None:
        self._free: dict[VolumeKind, _FreeVolumesOfKind] = {}
        # "namespace/name" of a claim -> names of volumes; rarely more than one.
        self._by_claim: dict[str, tuple[str, ...]] = {}
        self._volumes: dict[str, PersistentVolume] = {}
        self.version = 0  # grows with every change
        # Called with (before, after) for each change of a volume.
        self.listeners: list[Callable[[PersistentVolume | None, PersistentVolume | None], None]]
        self.listeners = []

    def put(self, name: str, volume: PersistentVolume | None) -> None:
        """Add or replace the volume of that name; None removes it."""
        before = self._volumes.get(name)
        if before is volume:
            return
        self.version += 1
        if before is not None:
            self._remove(before)
        if volume is not None:
            self._volumes[name] = volume
            self._add(volume)
        else:
            del self._volumes[name]
        for listener in self.listeners:
            listener(before, volume)

    def get(self, name: str) -> PersistentVolume:
        """Return an indexed volume in its last added state."""
        return self._volumes[name]

    def has_free(self, kind: VolumeKind) -> bool:
        return kind in self._free

    def reserved(self, claim: PersistentVolumeClaim) -> list[str]:
        """Return the volumes whose claimRef names the claim, with any uid."""
        metadata = claim.metadata
        return sorted(self._by_claim.get(f"{metadata.namespace}/{metadata.name}", ()))

    def free(self, kind: VolumeKind, least: int, labels: Mapping[str, str]) -> Iterator[str]:
        """Yield free volumes that fit and are within reach, smallest first."""
        group = self._free.get(kind)
        if group is None:
            return
        lists = [_from_size(least, listed) for listed in group.lists_for(labels)]
        for _, name in heapq.merge(*lists) if len(lists) > 1 else chain(*lists):
            yield name

    def all_free(self, kind: VolumeKind, least: int) -> Iterator[str]:
        """Yield all free volumes of a kind that are large enough."""
        group = self._free.get(kind)
        if group is None:
            return
        seen: set[str] = set()
        for listed in (group.anywhere, *group.anchored.values()):
            for size, name in listed:
                if size >= least and name not in seen:
                    seen.add(name)
                    yield name

    def _add(self, volume: PersistentVolume) -> None:
        reference = volume.spec.claim_ref
        if reference is not None:
            key = f"{reference.namespace}/{reference.name}"
            self._by_claim[key] = (*self._by_claim.get(key, ()), volume.metadata.name)
        elif is_free(volume):
            kind = kind_of_volume(volume)
            group = self._free.get(kind)
            if group is None:
                group = self._free[kind] = _FreeVolumesOfKind()
            group.add(_anchors(volume), (size_of(volume), volume.metadata.name))

    def _remove(self, volume: PersistentVolume) -> None:
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
            group = self._free[kind]
            group.remove(_anchors(volume), (size_of(volume), volume.metadata.name))
            if group.is_empty:
                del self._free[kind]


def _from_size(least: int, listed: list[_SizedName]) -> Iterator[_SizedName]:
    """Yield the part of a list that is large enough."""
    for place in range(bisect_left(listed, (least, "")), len(listed)):
        yield listed[place]


def is_free(volume: PersistentVolume) -> bool:
    """Whether the volume is available to any claim."""
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
    """Return the exact capacity in billionths of a byte."""
    return quantity_from_json(volume.spec.capacity.get("storage")).nanos


def claimed_size(claim: PersistentVolumeClaim) -> int:
    """Return the exact requested size in billionths of a byte."""
    return quantity_from_json(claim.spec.resources.requests.get("storage")).nanos


def required_nodes(volume: PersistentVolume) -> NodeMatcher | None:
    """Return the matcher of the nodes that can reach the volume; None: all nodes."""
    affinity = volume.spec.node_affinity
    if affinity is None or affinity.required is None:
        return None
    return NodeMatcher.parse(affinity.required)


def _anchors(volume: PersistentVolume) -> tuple[Anchor, ...] | None:
    """Return labels of which a node must have at least one to reach the volume.

    The result is None if unknown, or if there are too many.
    """
    matcher = required_nodes(volume)
    return None if matcher is None else _anchors_of(matcher)


@lru_cache(maxsize=8192)
def _anchors_of(matcher: NodeMatcher) -> tuple[Anchor, ...] | None:
    anchors: set[Anchor] = set()
    for term in matcher.terms:
        if term.errors:
            continue  # such a term matches no node
        wanted = [each for each in term.selector.requirements if each.operator == "in"]
        if not wanted:
            return None
        narrowest = min(wanted, key=lambda each: (len(each.value_set), each.key))
        if len(anchors) + len(narrowest.value_set) > _MOST_ANCHORS:
            return None
        anchors.update((narrowest.key, value) for value in narrowest.value_set)
    return tuple(sorted(anchors))


def _remove_sorted(volumes: list[_SizedName], listed: _SizedName) -> None:
    place = bisect_left(volumes, listed)
    assert volumes[place] == listed, "an indexed volume is in the list of its anchor"
    del volumes[place]
