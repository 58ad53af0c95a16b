"""Requests and answers as values, without sockets."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from kubesched.api.meta import Status
from kubesched.cluster.apiserver.store.store_watch import WatchedChange, Watcher

__all__ = ["JSON", "TEXT", "Answer", "Request", "Stream"]

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Request(msgspec.Struct, frozen=True):
    """What a client asks."""

    method: str
    path: str
    """Percent-decoded only where it is taken apart."""
    query: Mapping[str, str] = {}
    headers: Mapping[str, str] = {}
    """By lower-case name."""
    body: bytes = b""

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    def flag(self, name: str) -> bool:
        """Whether a parameter of the query is on: given as `1`, `true` or without a value."""
        return self.query.get(name, "false").lower() not in ("false", "0")


class Answer(msgspec.Struct, frozen=True):
    """What a client gets back."""

    status: int
    body: bytes
    content_type: str = JSON
    headers: Mapping[str, str] = {}


class Stream(msgspec.Struct, frozen=True):
    """An answer that goes on as things change: a watch."""

    watcher: Watcher
    encode: Callable[[Sequence[WatchedChange]], bytes]
    """Events as lines."""
    bookmark: Callable[[int, bool], bytes]
    """A bookmark of a revision, which may say that the initial events have all been sent."""
    revision: Callable[[], int]
    """The newest revision, which a watcher that has nothing to read has seen."""
    timeout_seconds: float | None
    bookmarks: bool
    error: Callable[[Status], bytes]
    """What says that the watch cannot go on."""
    content_type: str
    initial_events: bool
    """Whether the client waits to be told that it has seen the initial state."""
