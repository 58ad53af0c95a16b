"""Disks that pods name without a claim, and when two pods cannot share one.

The rules are in docs/reference/07 §7.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.api import Volume

__all__ = ["DiskUse", "disk_use", "share_a_disk"]

DiskUse = Mapping[tuple[str, ...], bool]
"""Disks of the four kinds that are looked at, and whether one that is shared must not be."""

_NONE: DiskUse = {}


def disk_use(volumes: Iterable[Volume]) -> DiskUse:
    """What these volumes use, under names by which others would use it too."""
    use: dict[tuple[str, ...], bool] = {}
    for volume in volumes:
        if (gce := volume.gce_persistent_disk) is not None:
            _note(use, ("gce", gce.pd_name), written=not gce.read_only)
        if (ebs := volume.aws_elastic_block_store) is not None:
            _note(use, ("ebs", ebs.volume_id), written=True)  # also of those that only read
        if (iscsi := volume.iscsi) is not None:
            _note(use, ("iscsi", iscsi.iqn), written=not iscsi.read_only)
        if (rbd := volume.rbd) is not None:
            for monitor in rbd.monitors:  # one in common is enough
                name = ("rbd", monitor, rbd.pool, rbd.image)
                _note(use, name, written=not rbd.read_only)
    return use or _NONE


def _note(use: dict[tuple[str, ...], bool], name: tuple[str, ...], *, written: bool) -> None:
    use[name] = written or use.get(name, False)


def share_a_disk(wanted: DiskUse, used: DiskUse) -> bool:
    """Whether a disk is among both, and cannot be used twice at a time.

    Looked up, for either may name thousands.
    """
    few, many = (wanted, used) if len(wanted) <= len(used) else (used, wanted)
    return any(name in many and (written or many[name]) for name, written in few.items())
