"""Objects that do not match their type; one such object must not hide all others.

A server that is newer than this program, or a custom resource without a schema, may have a field of
another type than expected. Such an object is ignored and logged; the rest of its list or watch is
processed.
"""

from __future__ import annotations

from typing import TypeVar

import msgspec

from kubesched.api import codec
from kubesched.api.access import ObjectList
from kubesched.api.base import ApiStruct
from kubesched.api.meta import ListMeta
from kubesched.foundation.util.logging import get_logger

__all__ = ["leave_out", "read_what_can_be"]

T = TypeVar("T", bound=msgspec.Struct)

log = get_logger(__name__)


class _Page(ApiStruct):
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = ()


class _Identity(ApiStruct):
    name: str = ""
    namespace: str = ""
    resource_version: str = ""


class _Named(ApiStruct):
    metadata: _Identity = _Identity()


def read_what_can_be(body: bytes, kind: type[T]) -> ObjectList[T]:
    """A page, without the objects that cannot be read.

    Raises:
        msgspec.MsgspecError: it is not even a page.
    """
    page = codec.decode(body, _Page)
    items = []
    for each in page.items or ():
        try:
            items.append(codec.decode(bytes(each), kind))
        except msgspec.MsgspecError as why:
            leave_out(kind, bytes(each), why)
    return ObjectList(items, page.metadata.resource_version, page.metadata.continue_token)


def leave_out(kind: type[msgspec.Struct], body: bytes, why: msgspec.MsgspecError) -> str:
    """Log an object that is ignored. Returns its version if that can be read."""
    try:
        metadata = codec.decode(body, _Named).metadata
    except msgspec.MsgspecError:
        metadata = _Identity()
    name = "/".join(filter(None, (metadata.namespace, metadata.name)))
    log.error("Object cannot be read and is left out", exc=why, type=kind.__name__, object=name)
    return metadata.resource_version
