"""Events: one stored object with two faces, core/v1 and events.k8s.io/v1.

The newer form is stored; the core form is a renaming of its fields.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.rules.strategies.base import Json, Strategy
from kubesched.cluster.apiserver.rules.validation.objects import check_event
from kubesched.cluster.apiserver.rules.validation.problems import Problem

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


class EventStrategy(Strategy):
    def check_new(self, new: Json, /) -> list[Problem]:
        return check_event(new)


def to_core(event: Json) -> Json:
    return {_CORE_NAMES.get(key, key): value for key, value in event.items()}


def from_core(event: Json) -> Json:
    return {_NEW_NAMES.get(key, key): value for key, value in event.items()}
