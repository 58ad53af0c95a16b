"""References from one object to another."""

from __future__ import annotations

from kubesched.api.base import ApiStruct

__all__ = [
    "LocalObjectReference",
    "ObjectReference",
    "SecretReference",
    "TypedLocalObjectReference",
    "TypedObjectReference",
]


class ObjectReference(ApiStruct):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class LocalObjectReference(ApiStruct):
    name: str = ""


class SecretReference(ApiStruct):
    name: str = ""
    namespace: str = ""


class TypedLocalObjectReference(ApiStruct):
    api_group: str | None = None
    kind: str = ""
    name: str = ""


class TypedObjectReference(ApiStruct):
    api_group: str | None = None
    kind: str = ""
    name: str = ""
    namespace: str | None = None
