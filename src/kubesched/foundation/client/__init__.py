"""The client of an API server: transports, informers, event recorders, leader election."""

from __future__ import annotations

from kubesched.foundation.client.event_recorder import (
    EventBroadcaster,
    EventsV1Recorder,
    truncate_note,
)
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.informer_factory import (
    NON_TERMINAL_PODS,
    InformerFactory,
    InformerOptions,
)
from kubesched.foundation.client.informer_store import ObjectStore, StoreChange

__all__ = [
    "NON_TERMINAL_PODS",
    "EventBroadcaster",
    "EventsV1Recorder",
    "InformerFactory",
    "InformerOptions",
    "ObjectStore",
    "SharedInformer",
    "StoreChange",
    "truncate_note",
]
