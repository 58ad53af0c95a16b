"""Talking to an API server: informers, listers, the event recorder."""

from __future__ import annotations

from kubesched.foundation.client.event_recorder import (
    EventBroadcaster,
    EventRecorder,
    truncate_note,
)
from kubesched.foundation.client.informer import Informer
from kubesched.foundation.client.informer_factory import (
    NON_TERMINAL_PODS,
    InformerFactory,
    InformerOptions,
)
from kubesched.foundation.client.informer_store import Change, ObjectStore

__all__ = [
    "NON_TERMINAL_PODS",
    "Change",
    "EventBroadcaster",
    "EventRecorder",
    "Informer",
    "InformerFactory",
    "InformerOptions",
    "ObjectStore",
    "truncate_note",
]
