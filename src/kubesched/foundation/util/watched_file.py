"""A file that may be replaced while the process runs."""

from __future__ import annotations

import os
from pathlib import Path

from kubesched.foundation.util.clock import MINUTE, SECOND

__all__ = ["POLL_PERIOD_NS", "WatchedFile"]

POLL_PERIOD_NS = SECOND
# Some mounts replace files without a change in their metadata.
_REREAD_PERIOD_NS = MINUTE


class WatchedFile:
    """Detects changes of a file's content, mostly by its metadata."""

    def __init__(self, path: str) -> None:
        self.path = Path(path)
        self.content = b""
        self._seen: tuple[int, ...] = ()
        self._read_at_ns = 0

    def read(self, now_ns: int) -> bytes:
        """Read the file. Raises OSError."""
        self._seen = self._stat()
        self.content = self.path.read_bytes()
        self._read_at_ns = now_ns
        return self.content

    def changed(self, now_ns: int) -> bool:
        """Check the file. Returns True if `content` is new. An unreadable file has not changed."""
        try:
            seen = self._stat()
            if seen == self._seen and now_ns - self._read_at_ns < _REREAD_PERIOD_NS:
                return False
            before = self.content
            return self.read(now_ns) != before
        except OSError:
            return False

    def _stat(self) -> tuple[int, ...]:
        # Follows links: a mounted secret is a link to a link to the file.
        found = os.stat(self.path)
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size
