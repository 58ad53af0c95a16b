"""Kinds that are known by name alone: custom resources that plugins ask to be told about.

Their objects are read as far as every object is the same; what is particular stays as plain
JSON in `spec` and `status`.
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
    """An object of a kind that has no type of its own here."""

    custom_kind: ClassVar[Kind | None] = None

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


@cache
def custom_kind(resource: str, kind_name: str = "") -> Kind | None:
    """The kind of `plural.version.group`, such as `foos.v1.example.com`; None if it is none.

    The same name gives the same kind with the same type, for `ApiAccess` to be asked with. Who
    creates objects may say what their kind is called (`Foo`); otherwise the server is asked.
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
    # Without a namespace in the path a server lists all of them, whether there are any or not.
    kind = made.custom_kind = Kind(made, plural, namespaced=True)
    return kind
