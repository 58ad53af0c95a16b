"""Why no free volume suits a claim: the sizes and access modes that there are."""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.api import PersistentVolume, PersistentVolumeClaim
from kubesched.api.quantity import Quantity, parse_quantity
from kubesched.scheduler.plugins.helpers.wording import listed, plural

__all__ = ["why_none_suits"]

_STORAGE = "storage"


def why_none_suits(claim: PersistentVolumeClaim, free: Sequence[PersistentVolume]) -> str:
    """Compare the free volumes of the claim's class with the claim; empty if nothing differs."""
    if not free:
        return "no volume of it is free"
    asked = claim.spec.resources.requests.get(_STORAGE)
    largest = max(free, key=_size)
    count = f"{plural(len(free), 'volume')} of it {'is' if len(free) == 1 else 'are'} free"
    if asked is not None and _size(largest) < parse_quantity(asked):
        shown = largest.spec.capacity.get(_STORAGE, "0")
        return f"{count}, and the largest, {largest.metadata.name}, has only {shown}"
    modes = set(claim.spec.access_modes)
    if not any(modes <= set(each.spec.access_modes) for each in free):
        there = sorted({mode for each in free for mode in each.spec.access_modes})
        return f"{count}, none with the access modes {listed(sorted(modes))} (but {listed(there)})"
    return ""


def _size(volume: PersistentVolume) -> Quantity:
    return parse_quantity(volume.spec.capacity.get(_STORAGE, "0"))
