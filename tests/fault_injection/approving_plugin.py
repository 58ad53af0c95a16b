"""A second Permit plugin: a pod with `NEEDS_TWO_APPROVALS` waits for both plugins.

A pod with `REJECTED_ONCE` waits on Permit, is activated meanwhile, and is rejected once.

The plugin of `faulty_plugin.py` allows such a pod after a second. This one allows it when a storage
class with its name exists.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kubesched.api import Pod, StorageClass
from kubesched.api.pod_facts import pod_key
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

__all__ = ["NEEDS_TWO_APPROVALS", "REJECTED_ONCE", "ApprovingPlugin", "allow_later"]

# The annotation of a pod that waits on Permit for two plugins.
NEEDS_TWO_APPROVALS = "example.com/needs-two-approvals"
# The annotation of a pod that is activated while it is in flight, and then rejected, once.
REJECTED_ONCE = "example.com/rejected-once"
_LOOKS_EVERY_S = 0.25
_PATIENCE_NS = 120 * SECOND


class ApprovingPlugin(Plugin):
    """Makes pods with the annotation wait for a storage class."""

    name = "ApprovingPlugin"

    def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
        super().__init__(args, handle)
        assert handle is not None
        self._handle, self._classes = handle, handle.lister(StorageClass)
        self._rejected: set[str] = set()  # uids

    def events_to_register(self) -> Sequence[ClusterEventWithHint] | None:
        return (ClusterEventWithHint(ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD)),)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
        uid, loop = pod.metadata.uid, asyncio.get_running_loop()
        if REJECTED_ONCE in pod.metadata.annotations and uid not in self._rejected:
            self._rejected.add(uid)
            loop.call_later(1, self._handle.activate, {pod_key(pod): pod})
            loop.call_later(2, self._reject, pod)
            return Wait(_PATIENCE_NS)
        if NEEDS_TWO_APPROVALS not in pod.metadata.annotations:
            return SUCCESS
        loop.call_later(_LOOKS_EVERY_S, self._look, pod)
        return Wait(_PATIENCE_NS)

    def _reject(self, pod: Pod) -> None:
        waiting = self._handle.waiting_pod(pod.metadata.uid)
        if waiting is not None:
            waiting.reject(self.name, "it is rejected once")

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
