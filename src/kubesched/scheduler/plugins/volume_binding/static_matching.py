"""The free volume that a claim gets on a node: the smallest that fits.

docs/reference/07 §5.4.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from kubesched.api import PersistentVolume, PersistentVolumeClaim
from kubesched.api.labels import Selector
from kubesched.errors import SelectorError
from kubesched.framework.pod_limits import MOST_SELECTED_LABELS, requirements_of
from kubesched.scheduler.plugins.helpers.volume_claims import VolumeClaimError
from kubesched.scheduler.plugins.volume_binding.volume_index import (
    VolumeIndex,
    claimed_size,
    kind_of_claim,
    kind_of_volume,
    required_nodes,
    size_of,
)

__all__ = [
    "claim_selector",
    "find_match",
    "has_labels_and_modes",
    "is_reserved_for",
    "reserved_volume",
]


def find_match(
    claim: PersistentVolumeClaim,
    index: VolumeIndex,
    labels: Mapping[str, str],
    excluded: Collection[str],
) -> PersistentVolume | None:
    """Return the volume for the claim on a node with these labels.

    Raises:
        VolumeClaimError: the claim's selector is invalid.
    """
    selector = claim_selector(claim)
    reserved = reserved_volume(claim, index, excluded)
    if reserved is not None:
        # A reserved volume excludes all others.
        return reserved if _is_reachable(reserved, labels) else None
    for name in index.free(kind_of_claim(claim), claimed_size(claim), labels):
        if name in excluded:
            continue
        volume = index.get(name)
        if has_labels_and_modes(volume, claim, selector) and _is_reachable(volume, labels):
            return volume
    return None


def claim_selector(claim: PersistentVolumeClaim) -> Selector | None:
    """Return the claim's selector for labels of volumes, or None.

    Raises:
        VolumeClaimError: the selector is invalid.
    """
    if claim.spec.selector is None:
        return None
    name = f"{claim.metadata.namespace}/{claim.metadata.name}"
    count = requirements_of(claim.spec.selector)
    if count > MOST_SELECTED_LABELS:
        raise VolumeClaimError(
            f"claim {name} selects volumes by {count} labels, of which {MOST_SELECTED_LABELS} "
            "are allowed"
        )
    try:
        return Selector.from_label_selector(claim.spec.selector)
    except SelectorError as exc:
        raise VolumeClaimError(
            f"error creating internal label selector for claim: {name}: {exc}"
        ) from exc


def has_labels_and_modes(
    volume: PersistentVolume, claim: PersistentVolumeClaim, selector: Selector | None
) -> bool:
    """Whether a volume of the right kind and size has the labels and modes."""
    if selector is not None and not selector.matches(volume.metadata.labels):
        return False
    return set(claim.spec.access_modes) <= set(volume.spec.access_modes)


def reserved_volume(
    claim: PersistentVolumeClaim, index: VolumeIndex, excluded: Collection[str] = ()
) -> PersistentVolume | None:
    """Return a volume that is reserved for the claim and large enough, or None."""
    kind = size = None
    for name in index.reserved(claim):
        volume = index.get(name)
        if name in excluded or not is_reserved_for(volume, claim):
            continue
        if kind is None or size is None:
            kind, size = kind_of_claim(claim), claimed_size(claim)
        if (
            kind_of_volume(volume) == kind
            and size_of(volume) >= size
            and volume.metadata.deletion_timestamp is None
        ):
            return volume
    return None


def is_reserved_for(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    reference, metadata = volume.spec.claim_ref, claim.metadata
    return (
        reference is not None
        and reference.name == metadata.name
        and reference.namespace == metadata.namespace
        and reference.uid in ("", metadata.uid)
    )


def _is_reachable(volume: PersistentVolume, labels: Mapping[str, str]) -> bool:
    matcher = required_nodes(volume)
    return matcher is None or matcher.matches(labels, "")
