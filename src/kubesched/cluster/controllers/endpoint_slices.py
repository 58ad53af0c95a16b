"""EndpointSlices and Endpoints: where the pods of a Service are. Nothing is routed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kubesched.api import Node, Pod, Service
from kubesched.api.discovery import EndpointSlice
from kubesched.api.labels import Selector
from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.controllers.object_index import ObjectIndex, controller_reference, is_ready
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Delete, Patch

__all__ = ["ENDPOINTS", "plan_service"]

Json = dict[str, Any]

ENDPOINTS = plain_type("v1", "Endpoints")
"""The older form, which clients still read."""
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
    held: list[EndpointSlice] = [
        each
        for each in objects.controlled(owner.metadata.uid, EndpointSlice)
        if each.metadata.labels.get(_MANAGER_LABEL) == _MANAGER
    ]
    selector = owner.spec.selector
    if owner.metadata.deletion_timestamp is not None:
        return ActionPlan()
    if not selector or owner.spec.type == "ExternalName":
        return ActionPlan([Delete(each) for each in held])
    matches = Selector.from_map(selector).matches
    pods = sorted(
        (
            pod
            for pod in objects.within(Pod, owner.metadata.namespace)
            if pod.status.pod_ip
            and pod.status.phase not in _FINISHED
            and matches(pod.metadata.labels)
        ),
        key=lambda pod: pod.metadata.name,
    )
    unready = bool(document["spec"].get("publishNotReadyAddresses"))
    endpoints = [_endpoint(objects, pod, unready=unready) for pod in pods]
    wanted = [
        endpoints[start : start + _PER_SLICE] for start in range(0, len(endpoints), _PER_SLICE)
    ] or [[]]
    ports = [_port(port) for port in document["spec"].get("ports", ())]
    actions: list[Action] = []
    ordered = sorted(
        held, key=lambda each: (each.metadata.creation_timestamp or "", each.metadata.name)
    )
    for number, part in enumerate(wanted):
        if number >= len(ordered):
            actions.append(Create(EndpointSlice, _slice(owner, part, ports)))
            continue
        known = objects.document(
            EndpointSlice, owner.metadata.namespace, ordered[number].metadata.name
        )
        if known is None or known.get("endpoints", []) != part or known.get("ports", []) != ports:
            actions.append(Patch(ordered[number], {"endpoints": part, "ports": ports}))
    actions += [Delete(each) for each in ordered[len(wanted) :]]
    return ActionPlan([*actions, *_older_form(objects, owner, endpoints, ports)])


def _older_form(
    objects: ObjectIndex, owner: Service, endpoints: list[Json], ports: list[Json]
) -> list[Action]:
    ready = [_address(each) for each in endpoints if each["conditions"]["ready"]]
    waiting = [
        _address(each)
        for each in endpoints
        if not each["conditions"]["ready"] and not each["conditions"]["terminating"]
    ]
    subset: Json = {}
    if ready:
        subset["addresses"] = ready[:_MOST_ADDRESSES]
    if waiting:
        subset["notReadyAddresses"] = waiting[:_MOST_ADDRESSES]
    if subset and ports:
        subset["ports"] = [{key: v for key, v in port.items() if v != ""} for port in ports]
    subsets = [subset] if subset else []
    name, namespace = owner.metadata.name, owner.metadata.namespace
    held = objects.find(ENDPOINTS, namespace, name)
    if held is None:
        made = {
            "metadata": {
                "name": name,
                "namespace": namespace,
                "labels": dict(owner.metadata.labels),
                "ownerReferences": [controller_reference(owner)],
            },
            "subsets": subsets,
        }
        return [Create(ENDPOINTS, made, optional=True)]
    known = objects.document(ENDPOINTS, namespace, name)
    if known is None or known.get("subsets", []) == subsets:
        return []
    return [Patch(held, {"subsets": subsets})]


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


def _endpoint(objects: ObjectIndex, pod: Pod, *, unready: bool) -> Json:
    terminating = pod.metadata.deletion_timestamp is not None
    serving = is_ready(pod)
    endpoint: Json = {
        "addresses": [pod.status.pod_ip],
        "conditions": {
            "ready": unready or (serving and not terminating),
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
    made: Json = {"name": port.get("name", ""), "protocol": port.get("protocol", "TCP")}
    made["port"] = target if isinstance(target, int) else port.get("port")
    if app := port.get("appProtocol"):
        made["appProtocol"] = app
    return made
