"""The age of continue tokens: a list cannot be continued consistently for ever.

The reference compacts its history every five minutes. The log of this server is longer, but
clients must handle the expiry, so tokens expire after the same time.
"""

from __future__ import annotations

from collections import deque

from kubesched.foundation.util.clock import SECOND

__all__ = ["ContinuationAges"]

_LIFETIME_NS = 5 * 60 * SECOND
_PRECISION_NS = SECOND


class ContinuationAges:
    """When the revisions of continue tokens were current."""

    def __init__(self) -> None:
        # Pairs of a time and the store's revision at that time, at most one per second.
        self._marks: deque[tuple[int, int]] = deque()
        # The highest revision that is too old.
        self._expired = -1

    def note(self, revision: int, now_ns: int) -> None:
        """Record that a token for the present revision is issued."""
        if not self._marks or now_ns - self._marks[-1][0] >= _PRECISION_NS:
            self._marks.append((now_ns, revision))

    def has_expired(self, revision: int, now_ns: int) -> bool:
        """Whether a token for this revision is too old."""
        while self._marks and now_ns - self._marks[0][0] >= _LIFETIME_NS:
            self._expired = max(self._expired, self._marks.popleft()[1])
        return revision <= self._expired
