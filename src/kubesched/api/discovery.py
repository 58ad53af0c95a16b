"""Types of `discovery.k8s.io/v1`: endpoints of services."""

from __future__ import annotations

from typing import ClassVar

from kubesched.api.base import ApiObject, ApiStruct, Int32
from kubesched.api.meta import ObjectMeta
from kubesched.api.reference import ObjectReference

__all__ = ["Endpoint", "EndpointConditions", "EndpointPort", "EndpointSlice"]


class EndpointConditions(ApiStruct):
    ready: bool | None = None
    serving: bool | None = None
    terminating: bool | None = None


class Endpoint(ApiStruct):
    addresses: tuple[str, ...] = ()
    conditions: EndpointConditions = EndpointConditions()
    hostname: str | None = None
    target_ref: ObjectReference | None = None
    node_name: str | None = None
    zone: str | None = None


class EndpointPort(ApiStruct):
    name: str | None = None
    protocol: str | None = None
    port: Int32 | None = None


class EndpointSlice(ApiObject):
    api_version: ClassVar[str] = "discovery.k8s.io/v1"
    kind: ClassVar[str] = "EndpointSlice"

    metadata: ObjectMeta = ObjectMeta()
    address_type: str = ""
    endpoints: tuple[Endpoint, ...] = ()
    ports: tuple[EndpointPort, ...] = ()
