"""Disks that pods use without a claim, and which of them two pods cannot share.

The rules are in docs/reference/07 §7.3.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.api import Volume

__all__ = ["DiskUse", "disk_use", "share_a_disk"]

# Disks of the four relevant kinds -> whether a pod needs the disk exclusively.
DiskUse = Mapping[tuple[str, ...], bool]

_NONE: DiskUse = {}


def disk_use(volumes: Iterable[Volume]) -> DiskUse:
    """Return the disks that these volumes use."""
    use: dict[tuple[str, ...], bool] = {}
    for volume in volumes:
        if (gce := volume.gce_persistent_disk) is not None:
            _add_use(use, ("gce", gce.pd_name), written=not gce.read_only)
        if (ebs := volume.aws_elastic_block_store) is not None:
            _add_use(use, ("ebs", ebs.volume_id), written=True)  # even if it is only read
        if (iscsi := volume.iscsi) is not None:
            _add_use(use, ("iscsi", iscsi.iqn), written=not iscsi.read_only)
        if (rbd := volume.rbd) is not None:
            for monitor in rbd.monitors:  # one common monitor is enough
                name = ("rbd", monitor, rbd.pool, rbd.image)
                _add_use(use, name, written=not rbd.read_only)
    return use or _NONE


def _add_use(use: dict[tuple[str, ...], bool], name: tuple[str, ...], *, written: bool) -> None:
    use[name] = written or use.get(name, False)


def share_a_disk(wanted: DiskUse, used: DiskUse) -> bool:
    """Whether both use a disk that at least one of them needs exclusively.

    Iterates the smaller mapping, for either may have thousands of disks.
    """

    few, many = (wanted, used) if len(wanted) <= len(used) else (used, wanted)
    return any(name in many and (written or many[name]) for name, written in few.items())
