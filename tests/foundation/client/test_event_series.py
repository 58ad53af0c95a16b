"""The table of event series is bounded, and the series that may recur are evicted last."""

from __future__ import annotations

import pytest

from kubesched.api.reference import ObjectReference
from kubesched.foundation.client import event_series
from kubesched.foundation.client.event_series import EventKey, EventSeriesCache
from kubesched.foundation.util.clock import MINUTE


def key(number: int, kind: str = "Warning") -> EventKey:
    regarding = ObjectReference(kind="Pod", namespace="default", name=f"p{number}")
    return EventKey(kind, "Binding", "Reason", "scheduler", "scheduler-a", regarding, None)


def record(cache: EventSeriesCache, event: EventKey, now_ns: int = 0) -> str:
    """Record an event; return whether it was created, became a series, or was counted."""
    known, sending = cache.repeat(event, now_ns)
    if not known:
        cache.add(event, "name", "note", now_ns)
        return "created"
    return "counted" if sending is None else "series"


def test_a_repeated_event_becomes_a_series() -> None:
    cache = EventSeriesCache()
    assert [record(cache, key(1)) for _ in range(4)] == ["created", "series", "counted", "counted"]
    (series,) = cache.all_series()
    assert series.series_count == 4


def test_single_normal_events_do_not_evict_warnings() -> None:
    cache = EventSeriesCache()
    record(cache, key(0))
    for number in range(5_000):
        record(cache, key(number, "Normal"))
    assert len(cache) == 1 + event_series._KEPT["Normal"]
    assert record(cache, key(0)) == "series"
    assert record(cache, key(4_999, "Normal")) == "series"
    assert record(cache, key(0, "Normal")) == "created"


def test_warnings_and_series_are_bounded_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_series, "_KEPT", {"Normal": 2, "Warning": 5})
    monkeypatch.setattr(event_series, "_SERIES_KEPT", 3)
    cache = EventSeriesCache()
    for number in range(50):
        record(cache, key(number))
    assert len(cache) == 5
    for number in range(50, 100):
        record(cache, key(number))
        record(cache, key(number))
    assert len(cache.all_series()) == 3
    assert len(cache) == 7  # the last single event became a series


def test_old_events_are_dropped_and_a_series_is_sent_a_last_time() -> None:
    cache = EventSeriesCache()
    record(cache, key(1))
    for _ in range(2):
        record(cache, key(2))
    record(cache, key(3), now_ns=6 * MINUTE)
    (finished,) = cache.take_finished(7 * MINUTE)
    assert finished.recorded.key == key(2)
    cache.forget(finished)
    assert len(cache) == 1
