"""The PodGroupScheduled condition of a PodGroup's status (docs/reference/09 §13)."""

from __future__ import annotations

import random
from typing import Any

from kubesched.api import Condition, PodGroup
from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.time import format_time
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import Status
from kubesched.framework.pod_status_writer import send_status_patch
from kubesched.framework.status_writes import StatusWrites

__all__ = ["POD_GROUP_SCHEDULED", "PodGroupConditionWriter", "condition_of", "condition_patch"]

log = get_logger(__name__)

POD_GROUP_SCHEDULED = "PodGroupScheduled"


def condition_of(status: Status, generation: int = 0) -> Condition:
    """Return the condition for the verdict of a group cycle, without a transition time."""
    message = ""
    if status.is_success:
        value, reason = "True", "Scheduled"
    elif status.is_rejected:
        value, reason, message = "False", "Unschedulable", status.message
    else:
        value, reason, message = "False", "SchedulerError", status.message
    return Condition(
        type=POD_GROUP_SCHEDULED,
        status=value,
        reason=reason,
        message=message,
        observed_generation=generation,
    )


def condition_patch(group: PodGroup, wanted: Condition, now_ns: int) -> dict[str, Any] | None:
    """Return a strategic merge patch with the changes to the condition; None if there are none.

    A group that was scheduled once stays scheduled: members that are added later may still wait.
    """
    conditions = group.status.conditions
    current = next((each for each in conditions if each.type == wanted.type), None)
    if current is not None and current.status == "True" and wanted.status == "False":
        return None
    patch = _changed_fields(current, wanted)
    if not patch:
        return None
    if current is None or current.status != wanted.status:
        patch["lastTransitionTime"] = format_time(now_ns)
    changed: dict[str, Any] = {"conditions": [{"type": wanted.type, **patch}]}
    if conditions:
        types = [each.type for each in conditions]
        if current is None:
            types.append(wanted.type)
        changed["$setElementOrder/conditions"] = [{"type": each} for each in types]
    return {"status": changed}


def _changed_fields(current: Condition | None, wanted: Condition) -> dict[str, Any]:
    """Return the fields of `wanted` that differ from the current condition, by their JSON names.

    A new condition has all of its fields, but a generation only if there is one.
    """
    fields: dict[str, Any] = {}
    for field, name in _FIELDS.items():
        value = getattr(wanted, field)
        has_changed = current is None or getattr(current, field) != value
        if has_changed and (value or field != "observed_generation"):
            fields[name] = value
    return fields


_FIELDS = {
    "status": "status",
    "reason": "reason",
    "message": "message",
    "observed_generation": "observedGeneration",
}


class PodGroupConditionWriter:
    """Writes the condition of PodGroups. A failure is logged, not raised."""

    def __init__(
        self, api: ApiAccess, clock: Clock, rng: random.Random, writes: StatusWrites
    ) -> None:
        self._api = api
        self._clock = clock
        self._random = rng
        self._writes = writes

    async def write(self, group: PodGroup, status: Status) -> None:
        """Write the verdict of a group cycle if it differs from the newest state of the group."""
        wanted = condition_of(status, group.metadata.generation)
        try:
            await self._writes.write(
                self._api,
                group,
                lambda newest: condition_patch(newest, wanted, self._clock.now_ns()),
                lambda patch: send_status_patch(self._api, self._clock, self._random, group, patch),
            )
        except ApiError as exc:
            log.error("Failed to update PodGroup status", exc=exc, group=group)
