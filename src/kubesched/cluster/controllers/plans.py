"""What is to be done for one object, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api.base import ApiObject

__all__ = ["Action", "Create", "Delete", "Patch", "Plan", "status_patch"]

Json = dict[str, Any]


class Create(msgspec.Struct, frozen=True):
    kind: type[ApiObject]
    document: Json


class Delete(msgspec.Struct, frozen=True):
    subject: Any


class Patch(msgspec.Struct, frozen=True):
    """A merge patch of an object, or of its status."""

    subject: Any
    patch: Json
    subresource: str = ""


Action = Create | Delete | Patch


class Plan(msgspec.Struct, frozen=True):
    actions: Sequence[Action] = ()
    again_ns: int | None = None
    """When to look again, though nothing may have changed by then."""


def status_patch(subject: Any, document: Mapping[str, Any], status: Json) -> list[Action]:
    """The write that makes a status so, if it is not. A value of None is to be absent."""
    stored = document.get("status", {})
    changed = {key: value for key, value in status.items() if stored.get(key) != value}
    return [Patch(subject, {"status": changed}, "status")] if changed else []


def conditions_with(
    stored: Sequence[Mapping[str, Any]], wanted: Sequence[Json], now: str
) -> list[Json]:
    """Conditions with these set; times move only where something does."""
    by_type = {each["type"]: dict(each) for each in stored}
    for condition in wanted:
        before = by_type.get(condition["type"], {})
        if all(before.get(key) == value for key, value in condition.items()):
            continue
        moved = before.get("status") != condition["status"]
        transition = now if moved else before.get("lastTransitionTime", now)
        by_type[condition["type"]] = {
            **before,
            **condition,
            "lastUpdateTime": now,
            "lastTransitionTime": transition,
        }
    return list(by_type.values())
