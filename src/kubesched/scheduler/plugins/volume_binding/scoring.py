"""Score nodes by the share of their storage that a pod's claims use.

docs/reference/07 §5.6.

Active only with the feature gate StorageCapacityScoring.
"""

from __future__ import annotations

from collections.abc import Sequence

from kubesched.api.int64 import wrap_int64
from kubesched.api.quantity import parse_value
from kubesched.foundation.util.ints import div_trunc, round_half_away
from kubesched.framework import MAX_NODE_SCORE
from kubesched.scheduler.config.args import UtilizationShapePoint
from kubesched.scheduler.plugins.helpers.broken_linear import broken_linear
from kubesched.scheduler.plugins.volume_binding.volume_finder import PodVolumes

__all__ = ["StorageScore"]

_MAX_SHAPE_SCORE = 10
_FULL = 100


class StorageScore:
    """The mean, over storage classes, of the shape's score for the share in use."""

    def __init__(self, shape: Sequence[UtilizationShapePoint]) -> None:
        self._function = broken_linear(shape, MAX_NODE_SCORE // _MAX_SHAPE_SCORE)

    def __call__(self, volumes: PodVolumes) -> int:
        classes = _static(volumes) if volumes.static else _dynamic(volumes)
        if not classes:
            return 0
        total = sum(self._function(_percent(*usage)) for usage in classes.values())
        return round_half_away(total / len(classes))


def _static(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Return class -> (requested, capacity) for existing volumes.

    New ones do not count.
    """
    classes: dict[str, tuple[int, int]] = {}
    for volume, claim in volumes.static:
        name = volume.spec.storage_class_name
        requested, capacity = classes.get(name, (0, 0))
        requested += parse_value(claim.spec.resources.requests.get("storage", 0))
        capacity += parse_value(volume.spec.capacity.get("storage", 0))
        classes[name] = (requested, capacity)
    return classes


def _dynamic(volumes: PodVolumes) -> dict[str, tuple[int, int]]:
    """Return class -> (requested, capacity) for new volumes with a reported capacity."""
    classes: dict[str, tuple[int, int]] = {}
    for claim, space in volumes.dynamic:
        if space is None:
            continue
        name = claim.spec.storage_class_name or ""
        requested, _ = classes.get(name, (0, 0))
        requested += parse_value(claim.spec.resources.requests.get("storage", 0))
        classes[name] = (requested, parse_value(space.capacity or 0))
    return classes


def _percent(requested: int, capacity: int) -> int:
    if capacity == 0 or requested > capacity:
        return _FULL
    return div_trunc(wrap_int64(requested * 100), capacity)
