"""What a URL's path names: a resource, one of its objects, or a part of one."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

__all__ = ["RequestTarget", "parse_path"]

_OF_NAMESPACES = frozenset({"status", "finalize"})


class RequestTarget(NamedTuple):
    group: str
    version: str
    plural: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""


def parse_path(path: str) -> RequestTarget | None:
    """The resource that a path leads to, known or not; None if it leads to no resource."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    if parts[0] == "api" and len(parts) > 2:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 3:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = None
    # `namespaces/x/status` is a part of the namespace x, any other third part a resource in it.
    if rest[0] == "namespaces" and len(rest) > 2 and not _is_part_of_namespace(rest):
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3 or not all(rest):
        return None
    plural, name, subresource = (*rest, "", "")[:3]
    return RequestTarget(group, version, plural, namespace, name, subresource)


def _is_part_of_namespace(rest: list[str]) -> bool:
    return len(rest) == 3 and rest[2] in _OF_NAMESPACES
