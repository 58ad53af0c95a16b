"""PrioritySort: higher priority first, then longer waiting time.

docs/reference/05 §7.1.
"""

from __future__ import annotations

from kubesched.framework import Plugin, QueuedPodInfo
from kubesched.scheduler.config.plugin_names import PRIORITY_SORT

__all__ = ["PrioritySort"]


class PrioritySort(Plugin):
    """QueueSort plugin: order the active queue by priority, then by time."""

    name = PRIORITY_SORT

    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, int]:
        return -(queued.pod.spec.priority or 0), queued.timestamp_ns
