"""EndpointSlices and Endpoints: the addresses of a Service's pods. Nothing is routed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Node, Pod, Service
from kubesched.api.discovery import EndpointSlice
from kubesched.api.labels import Selector
from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference, is_ready
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Delete, Patch
from kubesched.cluster.controllers.triggers import OwnChange, SameNamespaceChange, controlled

__all__ = ["ENDPOINTS", "ENDPOINT_SLICE_CONTROLLER", "plan_service"]

Json = dict[str, Any]

# The older form, which clients still read.
ENDPOINTS = plain_type("v1", "Endpoints")
_MOST_ADDRESSES = 1000

_SERVICE_LABEL = "kubernetes.io/service-name"
_MANAGER_LABEL = "endpointslice.kubernetes.io/managed-by"
_MANAGER = "endpointslice-controller.k8s.io"
_PER_SLICE = 100
_ZONE = "topology.kubernetes.io/zone"
_FINISHED = ("Succeeded", "Failed")


def plan_service(
    objects: ObjectIndex, owner: Service, document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Write the addresses of the pods that a Service selects."""
    slices: list[EndpointSlice] = [
        each
        for each in objects.controlled(owner.metadata.uid, EndpointSlice)
        if each.metadata.labels.get(_MANAGER_LABEL) == _MANAGER
    ]
    if owner.metadata.deletion_timestamp is not None:
        return ActionPlan()
    if not owner.spec.selector or owner.spec.type == "ExternalName":
        return ActionPlan([Delete(each) for each in slices])
    with_unready = bool(document["spec"].get("publishNotReadyAddresses"))
    endpoints = [
        _endpoint(objects, pod, with_unready=with_unready) for pod in _selected_pods(objects, owner)
    ]
    ports = [_port(port) for port in document["spec"].get("ports", ())]
    actions = _slice_actions(objects, owner, slices, endpoints, ports)
    return ActionPlan([*actions, *_endpoints_actions(objects, owner, endpoints, ports)])


def _selected_pods(objects: ObjectIndex, owner: Service) -> list[Pod]:
    """Return the pods of a Service that have an address, by name."""
    matches = Selector.from_map(owner.spec.selector or {}).matches
    return sorted(
        (
            pod
            for pod in objects.within(Pod, owner.metadata.namespace)
            if pod.status.pod_ip
            and pod.status.phase not in _FINISHED
            and matches(pod.metadata.labels)
        ),
        key=lambda pod: pod.metadata.name,
    )


def _slice_actions(
    objects: ObjectIndex,
    owner: Service,
    slices: list[EndpointSlice],
    endpoints: list[Json],
    ports: list[Json],
) -> list[Action]:
    """Write the endpoints to slices, the oldest slice first."""
    parts = [
        endpoints[start : start + _PER_SLICE] for start in range(0, len(endpoints), _PER_SLICE)
    ] or [[]]
    ordered = sorted(
        slices, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name)
    )
    actions: list[Action] = []
    for number, part in enumerate(parts):
        if number >= len(ordered):
            actions.append(Create(EndpointSlice, _slice(owner, part, ports)))
            continue
        stored = objects.document(
            EndpointSlice, owner.metadata.namespace, ordered[number].metadata.name
        )
        is_same = stored is not None and (
            stored.get("endpoints", []) == part and stored.get("ports", []) == ports
        )
        if not is_same:
            actions.append(Patch(ordered[number], {"endpoints": part, "ports": ports}))
    return actions + [Delete(each) for each in ordered[len(parts) :]]


def _endpoints_actions(
    objects: ObjectIndex, owner: Service, endpoints: list[Json], ports: list[Json]
) -> list[Action]:
    """Write the Endpoints object of a Service."""
    subsets = _subsets(endpoints, ports)
    name, namespace = owner.metadata.name, owner.metadata.namespace
    existing = objects.find(ENDPOINTS, namespace, name)
    if existing is None:
        document = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": dict(owner.metadata.labels),
                "ownerReferences": [controller_reference(owner)],
            },
            "subsets": subsets,
        }
        return [Create(ENDPOINTS, document, optional=True)]
    stored = objects.document(ENDPOINTS, namespace, name)
    if stored is None or stored.get("subsets", []) == subsets:
        return []
    return [Patch(existing, {"subsets": subsets})]


def _subsets(endpoints: list[Json], ports: list[Json]) -> list[Json]:
    ready = [_address(each) for each in endpoints if each["conditions"]["ready"]]
    unready = [
        _address(each)
        for each in endpoints
        if not each["conditions"]["ready"] and not each["conditions"]["terminating"]
    ]
    subset: Json = {}
    if ready:
        subset["addresses"] = ready[:_MOST_ADDRESSES]
    if unready:
        subset["notReadyAddresses"] = unready[:_MOST_ADDRESSES]
    if subset and ports:
        subset["ports"] = [{key: v for key, v in port.items() if v != ""} for port in ports]
    return [subset] if subset else []


def _address(endpoint: Json) -> Json:
    address = {
        "ip": endpoint["addresses"][0],
        "nodeName": endpoint["nodeName"],
        "targetRef": endpoint["targetRef"],
    }
    if "hostname" in endpoint:
        address["hostname"] = endpoint["hostname"]
    return address


def _slice(owner: Service, endpoints: list[Json], ports: list[Json]) -> Json:
    name = owner.metadata.name
    labels = {**owner.metadata.labels, _SERVICE_LABEL: name, _MANAGER_LABEL: _MANAGER}
    return {
        "metadata": {
            "generateName": f"{name}-",
            "namespace": owner.metadata.namespace,
            "labels": labels,
            "ownerReferences": [controller_reference(owner)],
        },
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": ports,
    }


def _endpoint(objects: ObjectIndex, pod: Pod, *, with_unready: bool) -> Json:
    terminating = pod.metadata.deletion_timestamp is not None
    serving = is_ready(pod)
    endpoint: Json = {
        "addresses": [pod.status.pod_ip],
        "conditions": {
            "ready": with_unready or (serving and not terminating),
            "serving": serving,
            "terminating": terminating,
        },
        "nodeName": pod.spec.node_name,
        "targetRef": {
            "kind": "Pod",
            "name": pod.metadata.name,
            "namespace": pod.metadata.namespace,
            "uid": pod.metadata.uid,
        },
    }
    if pod.spec.hostname and pod.spec.subdomain:
        endpoint["hostname"] = pod.spec.hostname
    node: Node | None = objects.find(Node, "", pod.spec.node_name)
    if node is not None and (zone := node.metadata.labels.get(_ZONE)):
        endpoint["zone"] = zone
    return endpoint


def _port(port: Mapping[str, Any]) -> Json:
    target = port.get("targetPort", port.get("port"))
    written: Json = {"name": port.get("name", ""), "protocol": port.get("protocol", "TCP")}
    written["port"] = target if isinstance(target, int) else port.get("port")
    if app := port.get("appProtocol"):
        written["appProtocol"] = app
    return written


ENDPOINT_SLICE_CONTROLLER = Controller(
    "endpoint-slice-controller",
    Service,
    plan_service,
    triggers=(
        OwnChange(Service),
        controlled(EndpointSlice, by=Service),
        controlled(ENDPOINTS, by=Service),
        SameNamespaceChange(Pod, Service),
    ),
)
