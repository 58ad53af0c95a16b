"""The paths and queries of objects on an API server."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import quote, urlencode

from kubesched.api.kinds import Kind

__all__ = ["group_target", "target"]


def group_target(group: str, version: str) -> str:
    """Return the path of a version of an API group; the core group has no name."""
    return f"/apis/{group}/{version}" if group else f"/api/{version}"


def target(
    kind: Kind,
    namespace: str | None,
    name: str = "",
    subresource: str = "",
    query: Mapping[str, str] | None = None,
) -> str:
    """Return the path and query of an object, or of the collection without a name.

    Values of the query that are empty are left out.
    """
    parts = [group_target(kind.group, kind.version)]
    if kind.namespaced and namespace:
        parts.append(f"namespaces/{quote(namespace, safe='')}")
    parts.append(kind.plural)
    if name:
        parts.append(quote(name, safe=""))
    if subresource:
        parts.append(subresource)
    path = "/".join(parts)
    given = {key: value for key, value in (query or {}).items() if value}
    return f"{path}?{urlencode(given)}" if given else path
