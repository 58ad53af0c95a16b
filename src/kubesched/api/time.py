"""Conversion between RFC 3339 times on the wire and nanoseconds since the epoch.

`metav1.Time` has whole seconds, `metav1.MicroTime` has six decimals. They are written in UTC, and
may have any offset and precision when read.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

__all__ = ["format_micro_time", "format_time", "parse_time"]

_RFC3339: Final = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:[.,](\d+))?(?:[Zz]|([+-])(\d{2}):(\d{2}))",
    re.ASCII,
)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)
# Longer texts have more decimals than any time needs. They are not cached, to bound the cache.
_LONGEST_CACHED: Final = 40


def parse_time(text: str) -> int:
    """Parse a time; digits beyond nanoseconds are truncated.

    Raises:
        ValueError: the text is not an RFC 3339 time.
    """
    return _parse_cached(text) if len(text) <= _LONGEST_CACHED else _parse(text)


def _parse(text: str) -> int:
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"not an RFC 3339 time: {text!r}")
    date, clock, fraction, sign, hours, minutes = match.groups()
    try:
        moment = datetime.fromisoformat(f"{date}T{clock}+00:00")
    except ValueError as exc:
        raise ValueError(f"not an RFC 3339 time: {text!r}") from exc
    seconds = (moment - _EPOCH) // _SECOND
    if sign:
        offset = int(hours) * 3600 + int(minutes) * 60
        seconds += offset if sign == "-" else -offset
    nanoseconds = int(fraction[:9].ljust(9, "0")) if fraction else 0
    return seconds * 1_000_000_000 + nanoseconds


_parse_cached = lru_cache(maxsize=4096)(_parse)


def format_time(ns: int) -> str:
    """Format a time with whole seconds, such as a `creationTimestamp`."""
    return _time_text(ns // 1_000_000_000)


def format_micro_time(ns: int) -> str:
    """Format a time with six decimals, as in leases and events."""
    return f"{_time_text(ns // 1_000_000_000)[:-1]}.{ns // 1000 % 1_000_000:06d}Z"


@lru_cache(maxsize=64)
def _time_text(seconds: int) -> str:
    """Format a time in seconds; cached, because times often repeat."""
    return f"{_minute_text(seconds // 60)}{seconds % 60:02}Z"


@lru_cache(maxsize=64)
def _minute_text(minutes: int) -> str:
    return (_EPOCH + timedelta(minutes=minutes)).isoformat()[:17]
