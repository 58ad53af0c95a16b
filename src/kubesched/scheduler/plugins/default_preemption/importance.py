"""The order of pods by importance (docs/reference/06 §0.5)."""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api.pod_facts import pod_priority, start_time_ns
from kubesched.framework import PodInfo

__all__ = ["most_important_first"]


def most_important_first(pods: Iterable[PodInfo], now_ns: int) -> list[PodInfo]:
    """Sort by priority, then by start time.

    A pod that has not started counts as starting now.
    """
    return sorted(
        pods,
        key=lambda pod_info: (-pod_priority(pod_info.pod), start_time_ns(pod_info.pod, now_ns)),
    )
