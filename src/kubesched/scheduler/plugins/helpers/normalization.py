"""Normalization of scores to 0..100 (docs/reference/05 §5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.framework import MAX_NODE_SCORE
from kubesched.framework.engine import kernels

__all__ = ["default_normalize"]


def default_normalize(scores: NDArray[np.int64], *, reverse: bool = False) -> NDArray[np.int64]:
    """Scale the scores so that the highest becomes 100, or 0 with `reverse`."""
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_NODE_SCORE) if reverse else scores
    scaled = kernels.divide_toward_zero(scores * MAX_NODE_SCORE, highest)
    return np.subtract(MAX_NODE_SCORE, scaled, out=scaled) if reverse else scaled
