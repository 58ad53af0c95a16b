"""Limits of the embedded API server for requests, connections and watches."""

from __future__ import annotations

from kubesched.foundation.http.http_server import HttpLimits

__all__ = ["ApiLimits"]


class ApiLimits(HttpLimits, frozen=True):
    """The HTTP limits of the server, and its limits for watches."""

    # A larger request is refused with 413. The reference's limit.
    body_bytes: int = 3 * 1024 * 1024
    body_seconds: float = 30.0
    handshake_seconds: float = 10.0
    header_seconds: float = 10.0
    idle_seconds: float = 180.0
    # A client that reads nothing of a list or watch for this long is dropped.
    stalled_seconds: float = 10.0
    # The maximum number of watches. Further ones are refused with 429.
    watches: int = 2000
    # The duration of a watch whose request has no timeout; clients open a new one then.
    watch_seconds: float = 1800.0
    # The period of the bookmarks of a watch that allows them.
    bookmark_seconds: float = 60.0
