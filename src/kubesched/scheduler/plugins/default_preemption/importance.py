"""Which of two pods is the more important one (docs/reference/06 §0.5)."""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api.pod_facts import pod_priority, start_time_ns
from kubesched.framework import PodInfo

__all__ = ["most_important_first"]


def most_important_first(pods: Iterable[PodInfo], now_ns: int) -> list[PodInfo]:
    """Higher priority first, then who started earlier; a pod that has not starts now."""
    return sorted(
        pods,
        key=lambda pod_info: (-pod_priority(pod_info.pod), start_time_ns(pod_info.pod, now_ns)),
    )
