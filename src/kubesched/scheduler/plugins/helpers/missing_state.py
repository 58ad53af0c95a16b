"""What to answer when an earlier extension point did not leave its notes."""

from __future__ import annotations

import numpy as np

from kubesched.framework import NodeView, Rejections, Status

__all__ = ["reject_all"]


def reject_all(nodes: NodeView, status: Status) -> Rejections:
    """The same answer for every node."""
    return Rejections(np.ones(len(nodes), dtype=np.uint8), (status,))
