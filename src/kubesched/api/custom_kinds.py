"""Custom kinds: resources that plugins watch, and that are known by name only.

The metadata of their objects is decoded as for every object; `spec` and `status` stay plain JSON.
"""

from __future__ import annotations

import types
from functools import cache
from typing import Any, ClassVar, NamedTuple

from kubesched.api.base import ApiObject
from kubesched.api.kinds import Kind
from kubesched.api.meta import ObjectMeta

__all__ = ["CustomObject", "CustomResource", "custom_kind", "custom_resource", "named_custom_kind"]

_by_kind: dict[tuple[str, str], Kind] = {}
_bases: dict[str, tuple[type[CustomObject], bool]] = {}


class CustomObject(ApiObject):
    """An object of a custom kind."""

    custom_kind: ClassVar[Kind | None] = None

    metadata: ObjectMeta = ObjectMeta()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def custom_kind(resource: str, kind_name: str = "") -> Kind | None:
    """Return the kind of a name such as `foos.v1.example.com`, or None.

    The same name returns the same kind with the same type, which `ApiAccess` accepts. To create
    objects, pass the name of the kind (`Foo`) in one of the calls; without it, the server's
    discovery is requested.
    """
    made = _made(resource)
    if made is not None and kind_name:
        made.type.kind = kind_name
        _by_kind[made.api_version, kind_name] = made
    return made


def custom_resource(
    resource: str,
    kind_name: str,
    base: type[CustomObject] = CustomObject,
    *,
    namespaced: bool = True,
) -> CustomResource:
    """Return the kind and type of a custom resource for a plugin that declares its fields.

    `base` declares fields beside `spec` and `status`. Call this when the plugin's module is
    imported, before any other call requests the kind.

    Raises:
        ValueError: the name is not `plural.version.group`.
    """
    _bases[resource] = base, namespaced
    kind = custom_kind(resource, kind_name)
    if kind is None:
        raise ValueError(f"not the name of a resource: {resource!r}")
    return CustomResource(kind, kind.type)  # type: ignore[arg-type]  # its type is a CustomObject


def named_custom_kind(api_version: str, kind_name: str) -> Kind | None:
    """Return the custom kind that a manifest names, if `custom_kind` was called with its name."""
    return _by_kind.get((api_version, kind_name))


class CustomResource(NamedTuple):
    """A custom kind, and the type of its objects."""

    kind: Kind
    type: type[CustomObject]


@cache
def _made(resource: str) -> Kind | None:
    plural, version, group = (*resource.split(".", 2), "", "")[:3]
    if not (plural and version and group):
        return None
    base, namespaced = _bases.get(resource, (CustomObject, True))
    members = {
        "__module__": __name__,
        "api_version": f"{group}/{version}",
        "kind": plural,
    }
    made: type[CustomObject] = types.new_class(
        f"Custom_{plural}",
        (base,),
        {"frozen": True},
        lambda body: body.update(members),
    )
    # Without a namespace in the path, a server lists all objects, namespaced or not.
    kind = made.custom_kind = Kind(made, plural, namespaced)
    return kind
