"""Patches of a pod's status by the scheduler and its plugins (docs/reference/04 §16)."""

from __future__ import annotations

import random
from typing import Any, Protocol, TypeVar

from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.pod import Pod, PodCondition
from kubesched.api.scheduling import PodGroup
from kubesched.api.time import format_time
from kubesched.foundation.util.clock import MILLISECOND, Clock
from kubesched.framework.status_writes import StatusWrites

__all__ = [
    "POD_SCHEDULED",
    "PodStatusWriter",
    "StatusWriter",
    "for_this_object",
    "send_status_patch",
    "status_patch",
]

T = TypeVar("T", Pod, PodGroup)

POD_SCHEDULED = "PodScheduled"
_RETRIED_REASONS = frozenset({"InternalError", "ServiceUnavailable", "Conflict"})
_TRIES = 4
_FIRST_DELAY_NS = 10 * MILLISECOND
_DELAY_FACTOR = 5
_JITTER = 0.1


def status_patch(
    pod: Pod, condition: PodCondition | None, nominated_node: str | None, now_ns: int
) -> dict[str, Any] | None:
    """Return a strategic merge patch of the changes, or None if there are none."""
    changes: dict[str, Any] = {}
    if condition is not None and not _is_outdated(pod, condition):
        changes.update(_condition_change(pod, condition, now_ns))
    if nominated_node is not None and nominated_node != pod.status.nominated_node_name:
        changes["nominatedNodeName"] = nominated_node or None
    return {"status": changes} if changes else None


def _is_outdated(pod: Pod, condition: PodCondition) -> bool:
    """Whether the pod has a node, and the condition says that it has none.

    The binding has succeeded although its answer was lost, or after the condition was computed.
    """
    is_unplaced = condition.type == POD_SCHEDULED and condition.status == "False"
    return is_unplaced and bool(pod.spec.node_name)


def _condition_change(pod: Pod, wanted: PodCondition, now_ns: int) -> dict[str, Any]:
    conditions = pod.status.conditions
    current = next((each for each in conditions if each.type == wanted.type), None)
    if (
        current is not None
        and current.status == wanted.status
        and current.reason == wanted.reason
        and current.message == wanted.message
    ):
        return {}
    types = [each.type for each in conditions]
    patch: dict[str, Any] = {"type": wanted.type}
    if current is None:
        types.append(wanted.type)
    if current is None or current.status != wanted.status:
        patch["lastTransitionTime"] = format_time(now_ns)
    patch.update(
        lastProbeTime=None,
        status=wanted.status,
        reason=wanted.reason,
        message=wanted.message,
    )
    if wanted.observed_generation:
        patch["observedGeneration"] = wanted.observed_generation
    return {
        "$setElementOrder/conditions": [{"type": each} for each in types],
        "conditions": [patch],
    }


def for_this_object(target: Pod | PodGroup, patch: dict[str, Any]) -> dict[str, Any]:
    """Return the patch with the uid: the server refuses it for another object of that name."""
    uid = target.metadata.uid
    return {"metadata": {"uid": uid}, **patch} if uid else patch


class StatusWriter(Protocol):
    """Writes what changed in the status of a pod."""

    async def write(
        self, pod: Pod, condition: PodCondition | None, nominated_node: str | None
    ) -> None:
        """Patch what changed, if anything; `PodStatusWriter` has the details."""


class PodStatusWriter(StatusWriter):
    """Sends status patches, and retries while the server is overloaded."""

    def __init__(
        self, api: ApiAccess, clock: Clock, rng: random.Random, writes: StatusWrites
    ) -> None:
        self._api = api
        self._clock = clock
        self._random = rng
        self._writes = writes

    async def write(
        self, pod: Pod, condition: PodCondition | None, nominated_node: str | None
    ) -> None:
        """Patch the differences from the newest state of the pod, if any.

        Earlier writes to the pod end first. A nominated node of None stays as it is; an empty one
        is cleared.

        Raises:
            ApiError: all tries failed.
        """
        await self._writes.write(
            self._api,
            pod,
            lambda newest: status_patch(newest, condition, nominated_node, self._clock.now_ns()),
            lambda patch: send_status_patch(self._api, self._clock, self._random, pod, patch),
        )

    def has_changes(
        self, pod: Pod, condition: PodCondition | None, nominated_node: str | None
    ) -> bool:
        """Whether `write` would send a patch, now or after a write in flight."""
        newest = self._writes.newest_known(pod)
        return (
            newest is None
            or status_patch(newest, condition, nominated_node, self._clock.now_ns()) is not None
        )


async def send_status_patch(
    api: ApiAccess, clock: Clock, rng: random.Random, target: T, patch: dict[str, Any]
) -> T:
    """Patch the status of an object, and retry while the server is overloaded.

    Return the object as the server has stored it.

    Raises:
        ApiError: all tries failed, or another object has taken the name.
    """
    metadata, delay_ns = target.metadata, _FIRST_DELAY_NS
    patch = for_this_object(target, patch)
    for attempt in range(1, _TRIES + 1):
        try:
            return await api.patch(
                type(target), metadata.name, metadata.namespace, patch, subresource="status"
            )
        except ApiError as exc:
            # Code 0: the connection was refused or broke.
            if attempt == _TRIES or (exc.reason not in _RETRIED_REASONS and exc.code != 0):
                raise
        jitter = 1 + _JITTER * rng.random()
        await clock.sleep(int(delay_ns * jitter))
        delay_ns *= _DELAY_FACTOR
    raise AssertionError("the last try returns or raises")
