"""Events end an hour after they last happened."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kubesched.api.core import Event
from kubesched.api.time import parse_time
from kubesched.apiserver import Store
from kubesched.cluster.controllers.event_expiry import EventExpiry
from kubesched.util.clock import MINUTE, ManualClock

NOON = parse_time("2026-01-01T12:00:00Z")


def store_with(body: dict[str, Any]) -> Store:
    store = Store(random.Random(0), now_ns=NOON)
    event = {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        **body,
    }
    store.create(store.catalog.by_type(Event), "default", event, NOON)
    return store


@pytest.mark.parametrize(
    ("body", "minutes", "left"),
    [
        ({}, 59, 1),
        ({}, 61, 0),
        ({"lastTimestamp": "2026-01-01T12:30:00Z"}, 61, 1),
        ({"lastTimestamp": "2026-01-01T12:30:00Z"}, 91, 0),
    ],
)
def test_when_events_end(body: dict[str, Any], minutes: int, left: int) -> None:
    store = store_with(body)
    gone = EventExpiry(store, ManualClock()).expire(NOON + minutes * MINUTE)
    assert gone == 1 - left
    assert len(store.collection(store.catalog.by_type(Event)).objects) == left
