"""The strategy of events, and the conversion between core/v1 and events.k8s.io/v1.

The store holds the form of events.k8s.io/v1. The core form has other names for the same fields.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.errors.field_problems import FieldProblem
from kubesched.cluster.apiserver.rules.strategies.resource_strategy import Json, ResourceStrategy
from kubesched.cluster.apiserver.rules.validation.object_validation import check_event

__all__ = ["EventStrategy", "from_core", "to_core"]

_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
    "reportingController": "reportingComponent",
}
_NEW_NAMES = {core: new for new, core in _CORE_NAMES.items()}


class EventStrategy(ResourceStrategy):
    """The rules for events."""

    def check_new(self, new: Json, /) -> list[FieldProblem]:
        return check_event(new)


def to_core(event: Json) -> Json:
    """Convert a stored event to core/v1."""
    return {_CORE_NAMES.get(key, key): value for key, value in event.items()}


def from_core(event: Json) -> Json:
    """Convert an event of core/v1 to the stored form."""
    return {_NEW_NAMES.get(key, key): value for key, value in event.items()}
