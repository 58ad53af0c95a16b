"""Taking devices from a claim that keeps its own pod from being placed (docs/reference/08 §5.5).

Which writes are needed is decided within the attempt; they are done beside it. The change they
make is the event that brings the pod back. Should a write fail, there is none: then the pods that
were told of it are tried again after a while.
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

_PAUSE_NS = 10 * SECOND  # before pods are tried again whose claim could not be given back

NO_CLAIMS = Status.unschedulable("no new claims to deallocate")
DEALLOCATED = Status.unschedulable("deallocation of ResourceClaim completed")
DELETED = Status.unschedulable("deletion of ResourceClaim completed")
UNRESERVED = Status.unresolvable("ResourceClaim unreserved for PodGroup")
STILL_NOT = Status.unschedulable("still not schedulable")


class ClaimDeallocation:
    """PostFilter for pods with claims."""

    def __init__(self, handle: Handle, groups: GroupClaims, writer: ClaimWriter) -> None:
        self._handle = handle
        self._groups = groups
        self._writer = writer
        self._under_way: dict[str, dict[str, Pod]] = {}  # the pods that wait for it, by claim uid

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
                continue  # its devices are only thought of, within a cycle of its group
            group = data.groups.get(place)
            if group is not None and self._is_kept_in_vain(claim, group):
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

    def _is_kept_in_vain(self, claim: ResourceClaim, group: PodGroup) -> bool:
        """Whether a group has reserved a claim that no pod of it uses yet."""
        uid = group.metadata.uid
        is_reserved = any(user.uid == uid for user in claim.status.reserved_for)
        return is_reserved and not self._groups.has_placed_pods(group)

    def _spawn(self, claim: ResourceClaim, pod: Pod, write: Coroutine[Any, Any, None]) -> None:
        """Write beside the loop, unless the same is under way for another pod."""
        uid = claim.metadata.uid
        waiting = self._under_way.get(uid)
        if waiting is not None:
            waiting[pod_key(pod)] = pod
            write.close()
            return
        self._under_way[uid] = {pod_key(pod): pod}
        self._handle.spawn(self._written(claim, write), "give back a claim")

    async def _written(self, claim: ResourceClaim, write: Coroutine[Any, Any, None]) -> None:
        try:
            await write
            is_done = True
        except ApiError as exc:
            name = f"{claim.metadata.namespace}/{claim.metadata.name}"
            log.error("Giving back a claim failed", exc=exc, claim=name)
            is_done = False
        finally:
            waiting = self._under_way.pop(claim.metadata.uid)
        if not is_done:
            await self._handle.clock.sleep(_PAUSE_NS)
            self._handle.activate(waiting)


def _is_only_used_by(claim: ResourceClaim, pod: Pod) -> bool:
    users = claim.status.reserved_for
    return not users or (len(users) == 1 and users[0].uid == pod.metadata.uid)
