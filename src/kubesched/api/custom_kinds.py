"""Kinds that are known by name only: custom resources that plugins watch.

The metadata of their objects is decoded as for every object; `spec` and `status` stay plain
JSON.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, ClassVar

from kubesched.api.base import ApiObject
from kubesched.api.kinds import Kind
from kubesched.api.meta import ObjectMeta

__all__ = ["CustomObject", "custom_kind"]


class CustomObject(ApiObject):
    """An object of a kind without a type of its own."""

    custom_kind: ClassVar[Kind | None] = None

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


@cache
def custom_kind(resource: str, kind_name: str = "") -> Kind | None:
    """Return the kind of a name such as `foos.v1.example.com`, or None.

    The same name returns the same kind with the same type, which `ApiAccess` accepts. To create
    objects, pass the name of the kind (`Foo`); without it, the server is asked.
    """
    plural, version, group = (*resource.split(".", 2), "", "")[:3]
    if not (plural and version and group):
        return None
    members = {
        "__module__": __name__,
        "api_version": f"{group}/{version}",
        "kind": kind_name or plural,
    }
    made: type[CustomObject] = types.new_class(
        f"Custom_{plural}", (CustomObject,), {"frozen": True}, lambda body: body.update(members)
    )
    # Without a namespace in the path, a server lists all objects, namespaced or not.
    kind = made.custom_kind = Kind(made, plural, namespaced=True)
    return kind
