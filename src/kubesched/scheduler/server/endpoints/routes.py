"""The handlers by path: an exact match, else the longest prefix.

docs/reference/02 §5.
"""

from __future__ import annotations

from kubesched.foundation.http.http_messages import (
    Handler,
    Request,
    Response,
    text_error,
)

__all__ = ["Routes"]


class Routes:
    """Handlers by path. Slashes and dots are not normalized."""

    def __init__(self) -> None:
        self._exact: dict[str, Handler] = {}
        self._prefixes: dict[str, Handler] = {}
        self._listed: set[str] = set()

    def add(self, path: str, handler: Handler, *, listed: bool = True) -> None:
        """Register a handler for one path. An unlisted path does not appear on the index page."""
        assert path not in self._exact, path
        self._exact[path] = handler
        if listed:
            self._listed.add(path)

    def add_prefix(self, prefix: str, handler: Handler) -> None:
        """Register a handler for every path with a prefix, which ends with a slash."""
        assert prefix.endswith("/"), prefix
        self._prefixes[prefix] = handler

    def find(self, path: str) -> Handler:
        exact = self._exact.get(path)
        if exact is not None:
            return exact
        fitting = [prefix for prefix in self._prefixes if path.startswith(prefix)]
        if not fitting:
            return _not_found
        return self._prefixes[max(fitting, key=lambda prefix: (prefix.count("/"), len(prefix)))]

    def first_segments(self) -> list[str]:
        """Return the first segments of the listed paths, sorted."""
        return sorted({f"/{path.split('/')[1]}" for path in self._listed})


async def _not_found(_: Request) -> Response:
    return text_error("404 page not found", 404)
