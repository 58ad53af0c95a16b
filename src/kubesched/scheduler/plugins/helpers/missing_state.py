"""The result of a filter whose PreFilter did not write its state."""

from __future__ import annotations

import numpy as np

from kubesched.framework import NodeView, Rejections, Status

__all__ = ["reject_all"]


def reject_all(nodes: NodeView, status: Status) -> Rejections:
    """Return the same status for every node."""
    return Rejections(np.ones(len(nodes), dtype=np.uint8), (status,))
