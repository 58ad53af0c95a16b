"""The endpoints of the Service `kubernetes`: the address of the API server itself."""

from __future__ import annotations

import ipaddress
from typing import Any
from urllib.parse import urlsplit

from kubesched.api.discovery import EndpointSlice
from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["publish_own_address"]

Json = dict[str, Any]

_NAME = "kubernetes"
_NAMESPACE = "default"
_LOOPBACK = "127.0.0.1"


def publish_own_address(store: Store, url: str, now_ns: int) -> None:
    """Write Endpoints and EndpointSlice of the Service `kubernetes`, if it exists."""
    if _NAME not in {
        each["metadata"]["name"] for each in store.in_namespace("services", _NAMESPACE)
    }:
        return
    port = urlsplit(url).port
    address = _address(urlsplit(url).hostname or "")
    ports = [{"name": "https", "port": port, "protocol": "TCP"}]
    labels = {"endpointslice.kubernetes.io/skip-mirror": "true"}
    older = {
        "metadata": {"name": _NAME, "labels": labels},
        "subsets": [{"addresses": [{"ip": address}], "ports": ports}],
    }
    newer = {
        "metadata": {"name": _NAME, "labels": {"kubernetes.io/service-name": _NAME}},
        "addressType": "IPv6" if ":" in address else "IPv4",
        "endpoints": [{"addresses": [address], "conditions": {"ready": True}}],
        "ports": ports,
    }
    with store.own_writes():
        _write(store, plain_type("v1", "Endpoints"), older, now_ns)
        _write(store, EndpointSlice, newer, now_ns)


def _address(host: str) -> str:
    """Return the address at which clients on this machine reach a server on this host."""
    try:
        found = ipaddress.ip_address(host)
    except ValueError:
        return _LOOPBACK
    return _LOOPBACK if found.is_unspecified else str(found)


def _write(store: Store, kind: Any, body: Json, now_ns: int) -> None:
    resource = store.catalog.by_type(kind)
    held = store.find_record(resource, _NAMESPACE, _NAME)
    if held is None:
        store.create(resource, _NAMESPACE, body, now_ns)
    elif any(held.data.get(key) != value for key, value in body.items() if key != "metadata"):
        # The address type is immutable: a new one needs a new object.
        store.delete(resource, _NAMESPACE, _NAME, now_ns)
        store.create(resource, _NAMESPACE, body, now_ns)
