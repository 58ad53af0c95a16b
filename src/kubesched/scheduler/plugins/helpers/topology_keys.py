"""Topology keys with a typing error: the label that was probably meant."""

from __future__ import annotations

from kubesched.framework.explaining import RejectedNodes
from kubesched.scheduler.plugins.helpers.wording import nearest

__all__ = ["similar_key"]


def similar_key(rejected: RejectedNodes, key: str) -> str:
    """Return a label of nodes that is similar to a key; empty if a node has the key itself."""
    if any(key in node.labels for node in rejected.nodes):
        return ""
    return nearest(key, sorted({each for node in rejected.nodes for each in node.labels}))
