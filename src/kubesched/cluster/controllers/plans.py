"""The plan of a controller for one object: the necessary writes and events, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from kubesched.api.base import ApiObject

__all__ = [
    "Action",
    "ActionPlan",
    "Create",
    "Delete",
    "Patch",
    "RecordEvent",
    "conditions_with",
    "status_patch",
]

Json = dict[str, Any]


class Create(msgspec.Struct, frozen=True):
    """Create an object."""

    kind: type[ApiObject]
    document: Json
    # Whether to record an event on the owner: `SuccessfulCreate` or `FailedCreate`.
    reports: bool = False
    # Whether an object that already exists counts as a success.
    optional: bool = False


class Delete(msgspec.Struct, frozen=True):
    """Delete an object."""

    subject: Any
    grace_period_seconds: int | None = None
    propagation: Literal["", "Background", "Foreground"] = ""
    # Whether to record an event on the owner: `SuccessfulDelete`.
    reports: bool = False


class Patch(msgspec.Struct, frozen=True):
    """Apply a merge patch or a strategic merge patch to an object or to its status."""

    subject: Any
    patch: Json
    subresource: str = ""
    strategic: bool = False
    # Whether the server refuses the patch if the object has changed since it was cached. For lists
    # that other clients write, too: the patch replaces the whole list.
    unless_changed: bool = False


class RecordEvent(msgspec.Struct, frozen=True):
    """Record an event about an object."""

    subject: Any
    reason: str
    message: str
    warning: bool = False


Action = Create | Delete | Patch | RecordEvent


class ActionPlan(msgspec.Struct, frozen=True):
    """The actions for one object, in order, and when to plan again."""

    actions: Sequence[Action] = ()
    # When to plan again even if nothing has changed; None: only after a change.
    again_ns: int | None = None


def status_patch(subject: Any, document: Mapping[str, Any], status: Json) -> list[Action]:
    """Return the patch to these status values, if any differs. None removes a value."""
    stored = document.get("status", {})
    changed = {key: value for key, value in status.items() if stored.get(key) != value}
    return [Patch(subject, {"status": changed}, "status")] if changed else []


def conditions_with(
    stored: Sequence[Mapping[str, Any]],
    wanted: Sequence[Json],
    now: str,
    *,
    updated: bool = False,
    without: Sequence[str] = (),
) -> list[Json]:
    """Return stored conditions with `wanted` set and the types in `without` removed.

    The transition time changes only with the status of a condition. With `updated` the time of
    any change is written as `lastUpdateTime`.
    """
    kept = [each for each in stored if each.get("type", "") not in without]
    by_type = {each.get("type", ""): dict(each) for each in kept}
    for condition in wanted:
        before = by_type.get(condition["type"], {})
        if all(before.get(key) == value for key, value in condition.items()):
            continue
        moved = before.get("status") != condition["status"]
        transition = now if moved else before.get("lastTransitionTime", now)
        by_type[condition["type"]] = {
            **before,
            **condition,
            **({"lastUpdateTime": now} if updated else {}),
            "lastTransitionTime": transition,
        }
    return list(by_type.values())
