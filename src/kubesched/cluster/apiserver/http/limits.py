"""How much a server lets its clients take."""

from __future__ import annotations

import msgspec

__all__ = ["Limits"]


class Limits(msgspec.Struct, frozen=True):
    body_bytes: int = 3 * 1024 * 1024
    """A larger request is refused with 413. The reference's limit."""
    watches: int = 2000
    """One more is refused with 429."""
    connections: int = 1000
    """One more is closed at once. Fewer if the process may not open so many files."""
    header_seconds: float = 10.0
    """The first request of a connection must have begun by then."""
    idle_seconds: float = 180.0
    """A connection without requests is closed after this time."""
    body_seconds: float = 30.0
    """A body must have arrived by then."""
    stalled_seconds: float = 10.0
    """A watcher that does not read for this long is dropped."""
    watch_seconds: float = 1800.0
    """How long a watch lasts that does not say; clients begin a new one then."""
    bookmark_seconds: float = 60.0
    """How often a watch that allows bookmarks gets one."""
