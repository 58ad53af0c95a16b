"""Parsing of URL paths into a resource, an object name and a subresource."""

from __future__ import annotations

import re
from typing import NamedTuple
from urllib.parse import unquote

import msgspec

from kubesched.foundation.http.http_messages import Query, Request

__all__ = ["RequestTarget", "parse_path", "watch_by_path"]

# The older form of a watch: `/api/v1/watch/namespaces/default/pods`.
_WATCH = re.compile(r"(/api/[^/?]+|/apis/[^/?]+/[^/?]+)/watch(?=/)")

_OF_NAMESPACES = frozenset({"status", "finalize"})


class RequestTarget(NamedTuple):
    """The resource, object or subresource that a URL path names."""

    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> RequestTarget | None:
    """Parse a path. Returns None if the path does not have the form of a resource path.

    The resource need not exist.
    """
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = None
    # `namespaces/x/status` is a subresource of x; any other third part is a resource in x.
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_part_of_namespace(rest):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return RequestTarget(group, version, plural, namespace, name, subresource)


def watch_by_path(request: Request) -> Request:
    """Return a watch in the older form, with `watch` in its path, in the form of a query."""
    match = _WATCH.match(request.target)
    if match is None or request.method != "GET":
        return request
    target = match.group(1) + request.target[match.end() :]
    query = Query([*request.query, ("watch", "1")])
    path = _WATCH.sub(r"\1", request.path, count=1)
    return msgspec.structs.replace(request, target=target, path=path, query=query)


def _is_part_of_namespace(rest: list[str]) -> bool:
    return len(rest) == 3 and rest[2] in _OF_NAMESPACES
