"""QOSSort: among pods of equal priority, those in the class Guaranteed come first."""

from __future__ import annotations

from kubesched.contrib.quality_of_service import quality_of
from kubesched.framework import Plugin, QueuedPodInfo

__all__ = ["QOSSort"]


class QOSSort(Plugin):
    """Order pods by priority, then by quality of service, then by time."""

    name = "QOSSort"

    def sort_key(self, queued: QueuedPodInfo) -> tuple[int, int, int]:
        pod = queued.pod
        return -(pod.spec.priority or 0), quality_of(pod), queued.timestamp_ns
