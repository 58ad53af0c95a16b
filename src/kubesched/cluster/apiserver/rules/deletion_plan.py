"""Decisions about deletion: at once, after a grace period, or after the last finalizer.

These are pure functions of the stored object. The store carries out their decisions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.rules.generated_metadata import format_timestamp
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import ResourceStrategy

__all__ = [
    "FOREGROUND",
    "DeletionPlan",
    "add_foreground_finalizer",
    "ends_deletion",
    "plan_deletion",
]

Json = dict[str, Any]

_SECOND_NS = 1_000_000_000
# The finalizer of an owner that waits for the deletion of its dependents.
FOREGROUND = "foregroundDeletion"


class DeletionPlan(NamedTuple):
    """The steps of a deletion: store the marked object, if there is one, and then remove it."""

    marked: Json | None  # with a deletion timestamp
    remove: bool


def plan_deletion(
    strategy: ResourceStrategy, old: Json, grace_period_seconds: int | None, now_ns: int
) -> DeletionPlan:
    """Decide how to delete an object with this grace period."""
    metadata: Json = old["metadata"]
    has_finalizers = bool(metadata.get("finalizers"))
    if not strategy.graceful:
        if not has_finalizers:
            return DeletionPlan(None, remove=True)
        if "deletionTimestamp" in metadata:
            return DeletionPlan(None, remove=False)
        return DeletionPlan(_marked(old, format_timestamp(now_ns), 0, first=True), remove=False)
    if "deletionTimestamp" in metadata:
        current = metadata.get("deletionGracePeriodSeconds", 0)
        # A second deletion can only shorten the grace period of the first.
        if grace_period_seconds is None or grace_period_seconds >= current:
            return DeletionPlan(None, remove=False)
        period = grace_period_seconds
        began_ns = parse_time(metadata["deletionTimestamp"]) - current * _SECOND_NS
        marked = _marked(old, format_timestamp(began_ns + period * _SECOND_NS), period, first=False)
    else:
        period = strategy.grace_period(old, grace_period_seconds)
        marked = _marked(old, format_timestamp(now_ns + period * _SECOND_NS), period, first=True)
    return DeletionPlan(marked, remove=period == 0 and not has_finalizers)


def add_foreground_finalizer(data: Json) -> Json:
    """Add the finalizer for foreground deletion, unless the object is already being deleted."""
    metadata = data["metadata"]
    finalizers = metadata.get("finalizers", ())
    if FOREGROUND in finalizers or "deletionTimestamp" in metadata:
        return data
    return {**data, "metadata": {**metadata, "finalizers": [*finalizers, FOREGROUND]}}


def _marked(old: Json, when: str, period: int, *, first: bool) -> Json:
    metadata = {
        **old["metadata"],
        "deletionTimestamp": when,
        "deletionGracePeriodSeconds": period,
    }
    if first and "generation" in metadata:
        metadata["generation"] += 1
    return {**old, "metadata": metadata}


def ends_deletion(new: Json, old: Json) -> bool:
    """Whether an update removed the last finalizer of an object that is being deleted."""
    before = old["metadata"]
    return (
        "deletionTimestamp" in before
        and not before.get("deletionGracePeriodSeconds")
        and not new["metadata"].get("finalizers")
    )
