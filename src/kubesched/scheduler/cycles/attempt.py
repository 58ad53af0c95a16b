"""One attempt to place one pod."""

from __future__ import annotations

import msgspec

from kubesched.framework import CycleState, QueuedPodInfo
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["Attempt"]


class Attempt(msgspec.Struct, frozen=True, eq=False):
    """A pod that is being scheduled: its profile, the state of its plugins, and the start."""

    framework: Framework
    state: CycleState
    queued: QueuedPodInfo
    started_ns: int  # of the monotonic clock
