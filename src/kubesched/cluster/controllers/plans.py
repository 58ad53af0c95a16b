"""What is to be done for one object, as values."""

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
    kind: type[ApiObject]
    document: Json
    reports: bool = False
    """Whether an event on the owner says so: `SuccessfulCreate`, or `FailedCreate`."""
    optional: bool = False
    """Whether it is well if the object is already there."""


class Delete(msgspec.Struct, frozen=True):
    subject: Any
    grace_period_seconds: int | None = None
    propagation: Literal["", "Background", "Foreground"] = ""
    reports: bool = False
    """Whether an event on the owner says so: `SuccessfulDelete`."""


class Patch(msgspec.Struct, frozen=True):
    """A merge patch of an object, or of its status."""

    subject: Any
    patch: Json
    subresource: str = ""
    strategic: bool = False


class RecordEvent(msgspec.Struct, frozen=True):
    """Something for people to read."""

    subject: Any
    reason: str
    message: str
    warning: bool = False


Action = Create | Delete | Patch | RecordEvent


class ActionPlan(msgspec.Struct, frozen=True):
    actions: Sequence[Action] = ()
    again_ns: int | None = None
    """When to look again, though nothing may have changed by then."""


def status_patch(subject: Any, document: Mapping[str, Any], status: Json) -> list[Action]:
    """The write that makes a status so, if it is not. A value of None is to be absent."""
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
    """Conditions with these set, and some taken away; times move only where something does.

    With `updated` the time of a change to anything is kept as well.
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
