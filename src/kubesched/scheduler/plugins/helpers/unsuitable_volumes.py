"""Why no free volume suits a claim: the sizes, access modes and labels that there are."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubesched.api import CSIStorageCapacity, PersistentVolume, PersistentVolumeClaim
from kubesched.api.labels import Selector
from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.framework.explaining import ObjectReader
from kubesched.scheduler.plugins.helpers.volume_claims import claim_class, volume_class
from kubesched.scheduler.plugins.helpers.wording import listed, plural

__all__ = ["largest_size", "size_left", "why_none_suits", "why_unsuitable", "without_labels"]

_STORAGE = "storage"
_FILESYSTEM = "Filesystem"


def why_none_suits(claim: PersistentVolumeClaim, free: Sequence[PersistentVolume]) -> str:
    """Compare the free volumes of the claim's class with the claim; empty if nothing differs.

    Each condition is about the volumes that meet the conditions before it.
    """
    if not free:
        return "no volume of it is free"
    count = f"{plural(len(free), 'volume')} of it {'is' if len(free) == 1 else 'are'} free"
    left = [each for each in free if _is_large_enough(claim, each)]
    if not left:
        largest = max(free, key=_size)
        shown = largest.spec.capacity.get(_STORAGE, "0")
        return f"{count}, and the largest, {largest.metadata.name}, has only {shown}"
    for is_met, describe in _CONDITIONS:
        before, left = left, [each for each in left if is_met(claim, each)]
        if not left:
            none = "none" if len(before) == len(free) else "none that is suitable otherwise"
            return f"{count}, {none} with {describe(claim, before)}"
    return ""


def why_unsuitable(claim: PersistentVolumeClaim, volume: PersistentVolume) -> str:
    """Say what a claim wants that a volume does not have; empty if nothing differs."""
    if not _is_large_enough(claim, volume):
        return f"has only {volume.spec.capacity.get(_STORAGE, '0')}"
    if claim_class(claim) != volume_class(volume):
        return f"is of class {volume_class(volume)!r}, not {claim_class(claim)!r}"
    for is_met, describe in _CONDITIONS:
        if not is_met(claim, volume):
            return f"does not have {describe(claim, [volume])}"
    return ""


def without_labels(
    claim: PersistentVolumeClaim, free: Sequence[PersistentVolume]
) -> list[PersistentVolume]:
    """Return the volumes that meet every condition of the claim but its selector."""
    return [
        each
        for each in free
        if _is_large_enough(claim, each)
        and not _has_labels(claim, each)
        and all(is_met(claim, each) for is_met, _ in _CONDITIONS if is_met is not _has_labels)
    ]


def largest_size(free: Sequence[PersistentVolume]) -> str:
    """Return the size of the largest volume; empty without volumes."""
    if not free:
        return ""
    return str(max(free, key=_size).spec.capacity.get(_STORAGE, ""))


def size_left(objects: ObjectReader, class_name: str) -> str:
    """Return the largest volume that a driver can make, as it publishes; empty if unknown."""
    sizes = [
        min((each.capacity, each.maximum_volume_size or each.capacity), key=parse_quantity)
        for each in objects.list(CSIStorageCapacity)
        if each.storage_class_name == class_name and each.capacity is not None
    ]
    return str(max(sizes, key=parse_quantity)) if sizes else ""


def _size(volume: PersistentVolume) -> Quantity:
    return parse_quantity(volume.spec.capacity.get(_STORAGE, "0"))


def _is_large_enough(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    asked = claim.spec.resources.requests.get(_STORAGE)
    return asked is None or _size(volume) >= parse_quantity(asked)


def _has_modes(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def _shown_modes(claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> str:
    there = sorted({mode for each in volumes for mode in each.spec.access_modes})
    return f"the access modes {listed(sorted(claim.spec.access_modes))} (but {listed(there)})"


def _volume_mode(part: PersistentVolume | PersistentVolumeClaim) -> str:
    return part.spec.volume_mode or _FILESYSTEM


def _has_volume_mode(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    return _volume_mode(claim) == _volume_mode(volume)


def _shown_volume_mode(claim: PersistentVolumeClaim, volumes: Sequence[PersistentVolume]) -> str:
    return f"the volumeMode {_volume_mode(claim)} (but {_volume_mode(volumes[0])})"


def _has_labels(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    wanted = claim.spec.selector
    if wanted is None:
        return True
    return Selector.from_label_selector(wanted).matches(volume.metadata.labels)


def _shown_labels(claim: PersistentVolumeClaim, _: Sequence[PersistentVolume]) -> str:
    return f"the labels of the claim's selector {Selector.from_label_selector(claim.spec.selector)}"


_IsMet = Callable[[PersistentVolumeClaim, PersistentVolume], bool]
_Describe = Callable[[PersistentVolumeClaim, Sequence[PersistentVolume]], str]
_CONDITIONS: tuple[tuple[_IsMet, _Describe], ...] = (
    (_has_modes, _shown_modes),
    (_has_volume_mode, _shown_volume_mode),
    (_has_labels, _shown_labels),
)
