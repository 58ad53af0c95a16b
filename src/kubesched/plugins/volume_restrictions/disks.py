"""Disks that pods name without a claim, and when two pods cannot share one.

The rules are in docs/reference/07 §7.3.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api import Pod, Volume

__all__ = ["disks_of", "share_a_disk"]


def disks_of(pod: Pod) -> tuple[Volume, ...]:
    """Volumes of the pod that are disks of the four kinds that are looked at."""
    volumes = pod.spec.volumes
    if not volumes:
        return ()
    return tuple(
        volume
        for volume in volumes
        if volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        or volume.iscsi is not None
        or volume.rbd is not None
    )


def share_a_disk(wanted: Iterable[Volume], used: Iterable[Volume]) -> bool:
    """Whether a disk is among both, and cannot be used twice at a time."""
    used = tuple(used)
    return any(_conflict(volume, other) for volume in wanted for other in used)


def _conflict(volume: Volume, other: Volume) -> bool:
    """Of two volumes; each has one source."""
    gce, other_gce = volume.gce_persistent_disk, other.gce_persistent_disk
    if gce is not None and other_gce is not None and gce.pd_name == other_gce.pd_name:
        return not (gce.read_only and other_gce.read_only)
    ebs, other_ebs = volume.aws_elastic_block_store, other.aws_elastic_block_store
    if ebs is not None and other_ebs is not None and ebs.volume_id == other_ebs.volume_id:
        return True  # also of two that only read
    iscsi, other_iscsi = volume.iscsi, other.iscsi
    if iscsi is not None and other_iscsi is not None and iscsi.iqn == other_iscsi.iqn:
        return not (iscsi.read_only and other_iscsi.read_only)
    rbd, other_rbd = volume.rbd, other.rbd
    return (
        rbd is not None
        and other_rbd is not None
        and not set(rbd.monitors).isdisjoint(other_rbd.monitors)
        and (rbd.pool, rbd.image) == (other_rbd.pool, other_rbd.image)
        and not (rbd.read_only and other_rbd.read_only)
    )
