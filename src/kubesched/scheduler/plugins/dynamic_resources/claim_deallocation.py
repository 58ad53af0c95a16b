"""Deallocation of a claim whose devices prevent its own pod from fitting.

docs/reference/08 §5.5.

PostFilter decides which write is needed and starts it in the background. The change of the claim is
the event that requeues the pod. If the write fails, there is no event: the waiting pods are then
requeued after a delay.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from kubesched.api import ApiError, Pod, PodGroup, ResourceClaim
from kubesched.api.pod_facts import pod_key
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Handle, Status
from kubesched.scheduler.plugins.dynamic_resources.claim_writing import ClaimWriter
from kubesched.scheduler.plugins.dynamic_resources.group_claims import GroupClaims
from kubesched.scheduler.plugins.dynamic_resources.pod_devices import PodDevices, is_in_memory

__all__ = ["ClaimDeallocation"]

log = get_logger(__name__)

_PAUSE_NS = 10 * SECOND  # before pods are requeued after a failed write

NO_CLAIMS = Status.unschedulable("no new claims to deallocate")
DEALLOCATED = Status.unschedulable("deallocation of ResourceClaim completed")
DELETED = Status.unschedulable("deletion of ResourceClaim completed")
UNRESERVED = Status.unresolvable("ResourceClaim unreserved for PodGroup")
STILL_NOT = Status.unschedulable("still not schedulable")


class ClaimDeallocation:
    """PostFilter for pods with claims: deallocates or deletes at most one claim."""

    def __init__(self, handle: Handle, groups: GroupClaims, writer: ClaimWriter) -> None:
        self._handle = handle
        self._groups = groups
        self._writer = writer
        self._waiting_pods: dict[str, dict[str, Pod]] = {}  # uid of the claim -> pods by key

    def run(self, data: PodDevices, pod: Pod) -> Status:
        if not data.claims:
            return NO_CLAIMS
        for place in sorted(data.unavailable):
            if place == data.special:
                if is_in_memory(data.claims[place]):
                    continue
                break
            claim = data.claims[place]
            if place in data.shared:
                continue  # allocated in memory only, within a cycle of its group
            group = data.groups.get(place)
            if group is not None and self._is_reserved_without_use(claim, group):
                self._spawn(claim, pod, self._writer.release(claim, group))
                return UNRESERVED
            if _is_only_used_by(claim, pod):
                self._spawn(claim, pod, self._writer.deallocate(claim))
                return DEALLOCATED
        if data.special is not None and not is_in_memory(data.claims[data.special]):
            claim = data.claims[data.special]
            self._spawn(claim, pod, self._writer.delete_special(claim))
            return DELETED
        return STILL_NOT

    def _is_reserved_without_use(self, claim: ResourceClaim, group: PodGroup) -> bool:
        """Whether a claim is reserved for a group of which no pod uses it yet."""
        uid = group.metadata.uid
        is_reserved = any(user.uid == uid for user in claim.status.reserved_for)
        return is_reserved and not self._groups.has_placed_pods(group)

    def _spawn(self, claim: ResourceClaim, pod: Pod, write: Coroutine[Any, Any, None]) -> None:
        """Write in the background, unless another pod has started the same write."""
        uid = claim.metadata.uid
        waiting = self._waiting_pods.get(uid)
        if waiting is not None:
            waiting[pod_key(pod)] = pod
            write.close()
            return
        self._waiting_pods[uid] = {pod_key(pod): pod}
        self._handle.spawn(self._written(claim, write), "release a claim")

    async def _written(self, claim: ResourceClaim, write: Coroutine[Any, Any, None]) -> None:
        try:
            await write
            is_done = True
        except ApiError as exc:
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            log.error("Cannot deallocate a claim", exc=exc, claim=name)
            is_done = False
        finally:
            waiting = self._waiting_pods.pop(claim.metadata.uid)
        if not is_done:
            await self._handle.clock.sleep(_PAUSE_NS)
            self._handle.activate(waiting)


def _is_only_used_by(claim: ResourceClaim, pod: Pod) -> bool:
    users = claim.status.reserved_for
    return not users or (len(users) == 1 and users[0].uid == pod.metadata.uid)
