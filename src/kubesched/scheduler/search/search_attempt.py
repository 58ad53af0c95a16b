"""The input of one search for a node."""

from __future__ import annotations

import msgspec

from kubesched.api import Pod
from kubesched.framework import CycleState, PodInfo
from kubesched.scheduler.runtime.framework import Framework

__all__ = ["SearchAttempt"]


class SearchAttempt(msgspec.Struct, frozen=True, eq=False):
    """A pod to find a node for, the profile that places it, and the state of its plugins."""

    framework: Framework
    state: CycleState
    pod_info: PodInfo

    @property
    def pod(self) -> Pod:
        return self.pod_info.pod
