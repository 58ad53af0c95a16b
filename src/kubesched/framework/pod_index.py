"""The pods on the nodes, grouped by what selectors and affinity terms can see of them."""

from __future__ import annotations

from kubesched.engine import NodeTable
from kubesched.framework.pod_info import PodInfo

__all__ = ["PodIndex"]


class PodIndex:
    """Kept in step with the node table by the cache: one call per pod that comes or goes."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table

    def add(self, row: int, pod_info: PodInfo) -> None:
        """A pod is on the node in this row."""

    def remove(self, row: int, pod_info: PodInfo) -> None:
        """A pod (the very PodInfo that was added) left the node in this row."""
