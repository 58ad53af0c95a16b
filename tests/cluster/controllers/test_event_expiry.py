"""Events are deleted an hour after their last occurrence."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from kubesched.api.core import Event
from kubesched.api.time import parse_time
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.controllers.event_expiry import EventExpiry
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MINUTE, ManualClock, current_clock
from kubesched.foundation.util.components import running

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
        ({"lastTimestamp": "9999-01-01T00:00:00Z"}, 61, 0),
    ],
)
def test_when_events_end(body: dict[str, Any], minutes: int, left: int) -> None:
    store = store_with(body)
    gone = EventExpiry(store, ManualClock()).expire(NOON + minutes * MINUTE)
    assert gone == 1 - left
    assert len(store.collection(store.catalog.by_type(Event)).objects) == left


def test_events_with_invalid_times_are_deleted() -> None:
    store = store_with({})
    resource = store.catalog.by_type(Event)
    for record in store.collection(resource).objects.values():
        record.data["series"] = {"lastObservedTime": "soon"}
    assert EventExpiry(store, ManualClock()).expire(NOON + 61 * MINUTE) == 1


def test_a_store_that_refuses_is_retried_later() -> None:
    refusals = [True]

    def keep(change: Any) -> None:
        if change.type == "DELETED" and refusals:
            raise api_errors.internal_error("the disk is full")

    async def main() -> None:
        clock = current_clock()
        store = Store(random.Random(0), now_ns=clock.now_ns(), on_change=keep)
        event = {
            "metadata": {"name": "e", "namespace": "default"},
            "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        }
        store.create(store.catalog.by_type(Event), "default", event, clock.now_ns())
        async with running(EventExpiry(store, clock)):
            await asyncio.sleep(70 * 60)
            assert store.collection(store.catalog.by_type(Event)).objects
            refusals.clear()
            await asyncio.sleep(10 * 60)
            assert not store.collection(store.catalog.by_type(Event)).objects

    virtual_loop.run(main, seed=0)
