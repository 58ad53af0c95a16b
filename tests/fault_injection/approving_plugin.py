"""A second Permit plugin: a pod with `NEEDS_TWO_APPROVALS` waits for both plugins.

The plugin of `faulty_plugin.py` allows such a pod after a second. This one allows it when a storage
class with its name exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kubesched.api import Pod, StorageClass
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    Plugin,
    Status,
    Wait,
)

__all__ = ["NEEDS_TWO_APPROVALS", "ApprovingPlugin", "allow_later"]

# The annotation of a pod that waits on Permit for two plugins.
NEEDS_TWO_APPROVALS = "example.com/needs-two-approvals"
_LOOKS_EVERY_S = 0.25
_PATIENCE_NS = 120 * SECOND


class ApprovingPlugin(Plugin):
    """Makes pods with the annotation wait for a storage class."""

    name = "ApprovingPlugin"

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        assert handle is not None
        self._handle, self._classes = handle, handle.lister(StorageClass)

    def events_to_register(self) -> Sequence[ClusterEventWithHint] | None:
        return (ClusterEventWithHint(ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD)),)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        if NEEDS_TWO_APPROVALS not in pod.metadata.annotations:
            return SUCCESS
        asyncio.get_running_loop().call_later(_LOOKS_EVERY_S, self._look, pod)
        return Wait(_PATIENCE_NS)

    def _look(self, pod: Pod) -> None:
        """Allow a pod that waits, or look again later."""
        waiting = self._handle.waiting_pod(pod.metadata.uid)
        if waiting is None:
            return
        if self._classes.get(pod.metadata.name) is not None:
            waiting.allow(self.name)
        else:
            asyncio.get_running_loop().call_later(_LOOKS_EVERY_S, self._look, pod)


def allow_later(handle: Handle, plugin: str, pod: Pod) -> Wait:
    """Return the answer of the first plugin to a pod, and allow the pod after a second."""

    def allow() -> None:
        waiting = handle.waiting_pod(pod.metadata.uid)
        if waiting is not None:
            waiting.allow(plugin)

    asyncio.get_running_loop().call_later(1, allow)
    return Wait(_PATIENCE_NS)
