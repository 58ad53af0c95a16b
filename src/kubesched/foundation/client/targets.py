"""The paths and queries of objects on an API server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import quote, urlencode

from kubesched.api.kinds import Kind

__all__ = ["group_target", "target"]

# What `quote` leaves as it is.
_PLAIN = re.compile(r"[A-Za-z0-9_.~-]+")


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
    path = _version_path(kind.api_version)
    if kind.namespaced and namespace:
        path = f"{path}/namespaces/{_segment(namespace)}"
    path = f"{path}/{kind.plural}"
    if name:
        path = f"{path}/{_segment(name)}"
    if subresource:
        path = f"{path}/{subresource}"
    given = {key: value for key, value in query.items() if value} if query else None
    return f"{path}?{urlencode(given)}" if given else path


@lru_cache(maxsize=256)
def _version_path(api_version: str) -> str:
    group, _, version = api_version.rpartition("/")
    return group_target(group, version)


def _segment(text: str) -> str:
    """Return the text as a part of a path. Names of objects seldom need quotes."""
    return text if _PLAIN.fullmatch(text) else quote(text, safe="")
