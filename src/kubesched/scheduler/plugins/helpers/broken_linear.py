"""A piecewise linear score over utilization (docs/reference/05 §6.2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubesched.foundation.util.ints import div_trunc
from kubesched.scheduler.config.args import UtilizationShapePoint

__all__ = ["broken_linear"]


def broken_linear(shape: Sequence[UtilizationShapePoint], scale: int) -> Callable[[int], int]:
    """Return the function through the points of a shape, constant outside of them.

    Between two points it divides toward zero, which differs from flooring on a falling segment.
    """
    points = [(point.utilization, point.score * scale) for point in shape]

    def function(percent: int) -> int:
        before: tuple[int, int] | None = None
        for at, score in points:
            if percent <= at:
                if before is None:
                    return score
                rise = (score - before[1]) * (percent - before[0])
                return before[1] + div_trunc(rise, at - before[0])
            before = at, score
        return points[-1][1]

    return function
