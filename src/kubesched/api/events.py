"""Types of `events.k8s.io/v1`: the events that the scheduler writes.

`core.Event` is the older form of the same objects.
"""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.base import ApiObject, ApiStruct, Int32
from kubesched.api.core import EventSource
from kubesched.api.meta import ObjectMeta
from kubesched.api.reference import ObjectReference

__all__ = ["Event", "EventSeries"]


class EventSeries(ApiStruct):
    count: Int32 = 0
    last_observed_time: str | None = None


class Event(ApiObject):
    api_version: ClassVar[str] = "events.k8s.io/v1"
    kind: ClassVar[str] = "Event"

    metadata: ObjectMeta = ObjectMeta()
    event_time: str | None = None
    series: EventSeries | None = None
    reporting_controller: str = ""
    reporting_instance: str = ""
    action: str = ""
    reason: str = ""
    regarding: ObjectReference = ObjectReference()
    related: ObjectReference | None = None
    note: str = ""
    type: str = ""
    deprecated_source: EventSource = EventSource()
    deprecated_first_timestamp: str | None = None
    deprecated_last_timestamp: str | None = None
    deprecated_count: Int32 = 0
