"""One try to place one pod."""

from __future__ import annotations

import msgspec

from kubesched.framework import CycleState, QueuedPodInfo
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["Attempt"]


class Attempt(msgspec.Struct, frozen=True, eq=False):
    """Which pod is tried, by which profile, with what its plugins noted, and since when."""

    framework: Framework
    state: CycleState
    queued: QueuedPodInfo
    started_ns: int  # of the monotonic clock
