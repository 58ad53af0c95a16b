"""EndpointSlices for Endpoints that clients write, and the removal of Endpoints of no Service."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api import Service
from kubesched.api.discovery import EndpointSlice
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.endpoint_slices import ENDPOINTS, ENDPOINTS_MANAGER
from kubesched.cluster.controllers.object_index import ObjectIndex
from kubesched.cluster.controllers.plans import Action, ActionPlan, Delete
from kubesched.cluster.controllers.slice_reconciliation import (
    MANAGER_LABEL,
    SERVICE_LABEL,
    EndpointGroup,
    SliceMetadata,
    plan_slices,
)
from kubesched.cluster.controllers.triggers import OwnChange, RelatedChange, controlled

__all__ = ["ENDPOINT_MIRRORING_CONTROLLER", "plan_endpoints"]

Json = dict[str, Any]

_MANAGER = "endpointslicemirroring-controller.k8s.io"
_SKIPPED_LABEL = "endpointslice.kubernetes.io/skip-mirror"
_LEADER_ANNOTATION = "control-plane.alpha.kubernetes.io/leader"
# Annotations that describe the Endpoints object itself.
_OWN_ANNOTATIONS = (
    "kubectl.kubernetes.io/last-applied-configuration",
    "endpoints.kubernetes.io/last-change-trigger-time",
)
_MOST_PER_SUBSET = 1000


def plan_endpoints(
    objects: ObjectIndex, owner: Any, document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Mirror Endpoints of a Service without a selector; delete Endpoints of a deleted Service."""
    metadata = owner.metadata
    if metadata.deletion_timestamp is not None:
        return ActionPlan()
    mirrored = [
        each
        for each in objects.controlled(metadata.uid, EndpointSlice)
        if each.metadata.labels.get(MANAGER_LABEL) == _MANAGER
    ]
    service: Service | None = objects.find(Service, metadata.namespace, metadata.name)
    if service is None and (mirrored or ENDPOINTS_MANAGER in metadata.labels.items()):
        return ActionPlan([Delete(owner)])
    if service is None or service.spec.selector is not None or _is_skipped(metadata):
        removals: list[Action] = [Delete(each) for each in mirrored]
        return ActionPlan(removals)
    labels = {**metadata.labels, SERVICE_LABEL: metadata.name, MANAGER_LABEL: _MANAGER}
    annotations = {k: v for k, v in metadata.annotations.items() if k not in _OWN_ANNOTATIONS}
    groups = _groups(document.get("subsets") or ())
    return ActionPlan(plan_slices(objects, SliceMetadata(owner, labels, annotations), groups))


def _is_skipped(metadata: Any) -> bool:
    is_election = _LEADER_ANNOTATION in metadata.annotations
    return is_election or metadata.labels.get(_SKIPPED_LABEL) == "true"


def _groups(subsets: Sequence[Mapping[str, Any]]) -> list[EndpointGroup]:
    """Return the addresses of subsets by address type and ports, each address once."""
    groups: dict[tuple[str, bytes], EndpointGroup] = {}
    seen: set[tuple[str, bytes, str]] = set()
    for subset in subsets:
        ports = [_port(each) for each in subset.get("ports") or ()]
        encoded = msgspec.json.encode(ports)
        for endpoint in _endpoints(subset):
            address = endpoint["addresses"][0]
            address_type = _address_type(address)
            if not address_type or (address_type, encoded, address) in seen:
                continue
            seen.add((address_type, encoded, address))
            group = groups.setdefault(
                (address_type, encoded), EndpointGroup(address_type, ports, [])
            )
            group.endpoints.append(endpoint)
    return list(groups.values())


def _endpoints(subset: Mapping[str, Any]) -> Iterator[Json]:
    """Yield the endpoints of a subset, ready ones first, up to the limit per subset."""
    count = 0
    for part, ready in (("addresses", True), ("notReadyAddresses", False)):
        for address in subset.get(part) or ():
            count += 1
            if count > _MOST_PER_SUBSET:
                return
            endpoint: Json = {"addresses": [address.get("ip", "")], "conditions": {"ready": ready}}
            for key in ("hostname", "nodeName", "targetRef"):
                if address.get(key):
                    endpoint[key] = address[key]
            yield endpoint


def _port(port: Mapping[str, Any]) -> Json:
    written = {"name": port.get("name", ""), "protocol": port.get("protocol", "TCP")}
    written["port"] = port.get("port")
    if application := port.get("appProtocol"):
        written["appProtocol"] = application
    return written


def _address_type(address: str) -> str:
    """Return the address type of an address; an empty text if it is not valid."""
    try:
        return f"IPv{ipaddress.ip_address(address).version}"
    except ValueError:
        return ""


def _endpoints_of_service(
    objects: ObjectIndex, service: Service, _before: Service | None, _gone: bool
) -> Sequence[str]:
    """Find the Endpoints object that has the name of a Service."""
    endpoints = objects.find(ENDPOINTS, service.metadata.namespace, service.metadata.name)
    return () if endpoints is None else (endpoints.metadata.uid,)


ENDPOINT_MIRRORING_CONTROLLER = Controller(
    "endpoint-slice-mirroring-controller",
    ENDPOINTS,
    plan_endpoints,
    triggers=(
        OwnChange(ENDPOINTS),
        controlled(EndpointSlice, by=ENDPOINTS),
        RelatedChange(Service, ENDPOINTS, _endpoints_of_service),
    ),
)
