"""One try to place one pod."""

from __future__ import annotations

from typing import NamedTuple

from kubesched.framework import CycleState, QueuedPodInfo
from kubesched.runtime.framework import Framework

__all__ = ["Attempt"]


class Attempt(NamedTuple):
    """Which pod is tried, by which profile, with what its plugins noted, and since when."""

    framework: Framework
    state: CycleState
    queued: QueuedPodInfo
    started_ns: int  # of the monotonic clock
