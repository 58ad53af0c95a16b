"""EndpointSlices and Endpoints: the addresses of a Service's pods. Nothing is routed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubesched.api import Node, Pod, Service
from kubesched.api.discovery import EndpointSlice
from kubesched.api.labels import Selector
from kubesched.api.plain_kinds import plain_type
from kubesched.cluster.controllers.controller import Controller
from kubesched.cluster.controllers.object_index import ObjectIndex, is_ready
from kubesched.cluster.controllers.plans import Action, ActionPlan, Create, Patch
from kubesched.cluster.controllers.slice_reconciliation import (
    MANAGER_LABEL,
    SERVICE_LABEL,
    EndpointGroup,
    SliceMetadata,
    plan_slices,
)
from kubesched.cluster.controllers.triggers import (
    OwnChange,
    RelatedChange,
    SameNamespaceChange,
    controlled,
)

__all__ = ["ENDPOINTS", "ENDPOINTS_MANAGER", "ENDPOINT_SLICE_CONTROLLER", "plan_service"]

Json = dict[str, Any]

# The older form, which clients still read.
ENDPOINTS = plain_type("v1", "Endpoints")
# The label of Endpoints that this controller writes, and its value.
ENDPOINTS_MANAGER = ("endpoints.kubernetes.io/managed-by", "endpoint-controller")
_MOST_ADDRESSES = 1000
_TRUNCATED = {"endpoints.kubernetes.io/over-capacity": "truncated"}

_MANAGER = "endpointslice-controller.k8s.io"
_HEADLESS_LABEL = "service.kubernetes.io/headless"
_OWN_LABELS = (SERVICE_LABEL, MANAGER_LABEL, _HEADLESS_LABEL)
_ZONE = "topology.kubernetes.io/zone"
_FINISHED = ("Succeeded", "Failed")


def plan_service(
    objects: ObjectIndex, owner: Service, document: Mapping[str, Any], _now_ns: int
) -> ActionPlan:
    """Write the addresses of the pods that a Service selects."""
    if owner.metadata.deletion_timestamp is not None:
        return ActionPlan()
    if not owner.spec.selector or owner.spec.type == "ExternalName":
        # Another client writes the endpoints. Those that exist stay, as in the reference.
        return ActionPlan()
    spec = document["spec"]
    pods = _selected_pods(objects, owner)
    groups = _groups(objects, owner, spec, pods)
    labels = {key: v for key, v in owner.metadata.labels.items() if key not in _OWN_LABELS}
    labels |= {SERVICE_LABEL: owner.metadata.name, MANAGER_LABEL: _MANAGER, **_headless(owner)}
    slices = plan_slices(
        objects, SliceMetadata(owner, labels, {}), groups or [EndpointGroup("IPv4", [], [])]
    )
    return ActionPlan([*slices, *_endpoints_actions(objects, owner, _subsets(spec, groups))])


def _selected_pods(objects: ObjectIndex, owner: Service) -> list[Pod]:
    """Return the pods of a Service that have an address, by name."""
    selector = Selector.from_map(owner.spec.selector or {})
    return sorted(
        (
            pod
            for pod in objects.pods_matching(owner.metadata.namespace, selector)
            if pod.status.pod_ip and pod.status.phase not in _FINISHED
        ),
        key=lambda pod: pod.metadata.name,
    )


def _headless(owner: Service) -> dict[str, str]:
    """Return the label of objects of a Service that has no cluster IP."""
    return {_HEADLESS_LABEL: ""} if owner.spec.cluster_ip in ("", "None") else {}


def _groups(
    objects: ObjectIndex, owner: Service, spec: Mapping[str, Any], pods: Iterable[Pod]
) -> list[EndpointGroup]:
    """Return the endpoints by their ports: a port with a name may differ from pod to pod."""
    groups: dict[bytes, EndpointGroup] = {}
    for pod in pods:
        ports = _ports_of(pod, spec)
        key = msgspec.json.encode(ports)
        group = groups.setdefault(key, EndpointGroup("IPv4", ports, []))
        group.endpoints.append(_endpoint(objects, owner, pod, spec))
    return list(groups.values())


def _ports_of(pod: Pod, spec: Mapping[str, Any]) -> list[Json]:
    """Return the ports of a Service with the numbers that they have in a pod.

    A port whose name the pod does not have is left out.
    """
    ports = []
    for port in spec.get("ports") or ():
        number = _target_number(pod, port)
        if number is None:
            continue
        written: Json = {"name": port.get("name", ""), "protocol": port.get("protocol", "TCP")}
        written["port"] = number
        if application := port.get("appProtocol"):
            written["appProtocol"] = application
        ports.append(written)
    return ports


def _target_number(pod: Pod, port: Mapping[str, Any]) -> int | None:
    """Return the number of a Service's target port in a pod; None if the pod has no such name."""
    target: int | str | None = port.get("targetPort", port.get("port"))
    if not isinstance(target, str):
        return target
    sidecars = [each for each in pod.spec.init_containers if each.restart_policy == "Always"]
    for container in (*pod.spec.containers, *sidecars):
        for each in container.ports:
            if each.name == target and (each.protocol or "TCP") == port.get("protocol", "TCP"):
                return each.container_port
    return None


def _endpoint(objects: ObjectIndex, owner: Service, pod: Pod, spec: Mapping[str, Any]) -> Json:
    terminating = pod.metadata.deletion_timestamp is not None
    serving = is_ready(pod)
    endpoint: Json = {
        "addresses": [pod.status.pod_ip],
        "conditions": {
            "ready": bool(spec.get("publishNotReadyAddresses")) or (serving and not terminating),
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
    if pod.spec.hostname and pod.spec.subdomain == owner.metadata.name:
        endpoint["hostname"] = pod.spec.hostname
    node: Node | None = objects.find(Node, "", pod.spec.node_name)
    if node is not None and (zone := node.metadata.labels.get(_ZONE)):
        endpoint["zone"] = zone
    return endpoint


# The older form


def _subsets(spec: Mapping[str, Any], groups: Iterable[EndpointGroup]) -> list[Json]:
    """Return the subsets of the Endpoints object: addresses with the same ports."""
    with_unready = bool(spec.get("publishNotReadyAddresses"))
    is_headless = spec.get("clusterIP", "") in ("", "None")
    subsets = []
    for group in groups:
        if not group.ports and (spec.get("ports") or not is_headless):
            continue
        subset: Json = {}
        for endpoint in sorted(group.endpoints, key=lambda each: each["addresses"][0]):
            conditions = endpoint["conditions"]
            if conditions["terminating"] and not with_unready:
                continue
            is_listed = with_unready or conditions["serving"]
            part = "addresses" if is_listed else "notReadyAddresses"
            subset.setdefault(part, []).append(_address(endpoint))
        if subset:
            ports = [{key: v for key, v in port.items() if v != ""} for port in group.ports]
            subsets.append({**subset, "ports": ports} if ports else subset)
    return subsets


def _truncated(subsets: list[Json]) -> list[Json]:
    """Drop addresses above the limit of an Endpoints object, unready ones first."""
    room = _MOST_ADDRESSES
    cut = [dict(each) for each in subsets]
    for part in ("addresses", "notReadyAddresses"):
        for each in cut:
            if part in each:
                each[part] = each[part][:room]
                room -= len(each[part])
                if not each[part]:
                    del each[part]
    return [each for each in cut if each.keys() - {"ports"}]


def _address(endpoint: Json) -> Json:
    address = {
        "ip": endpoint["addresses"][0],
        "nodeName": endpoint["nodeName"],
        "targetRef": endpoint["targetRef"],
    }
    if "hostname" in endpoint:
        address["hostname"] = endpoint["hostname"]
    return address


def _endpoints_actions(
    objects: ObjectIndex, owner: Service, subsets: list[Json]
) -> Sequence[Action]:
    """Write the Endpoints object of a Service."""
    name, namespace = owner.metadata.name, owner.metadata.namespace
    written = _truncated(subsets)
    notes: dict[str, str | None] = dict(_TRUNCATED) if written != subsets else {}
    manager, value = ENDPOINTS_MANAGER
    labels = {**owner.metadata.labels, manager: value, **_headless(owner)}
    existing = objects.find(ENDPOINTS, namespace, name)
    if existing is None:
        metadata: Json = {"name": name, "namespace": namespace, "labels": labels}
        if notes:
            metadata["annotations"] = notes
        return [Create(ENDPOINTS, {"metadata": metadata, "subsets": written}, optional=True)]
    stored = objects.document(ENDPOINTS, namespace, name)
    if stored is None:
        return []
    patch = _endpoints_patch(stored, written, labels, notes)
    return [Patch(existing, patch)] if patch else []


def _endpoints_patch(
    stored: Mapping[str, Any],
    written: list[Json],
    labels: Mapping[str, str],
    notes: Mapping[str, str | None],
) -> Json:
    """Return the changes of a stored Endpoints object; empty if it is up to date."""
    stored_labels = stored["metadata"].get("labels", {})
    stored_notes = stored["metadata"].get("annotations", {})
    notes = notes or {key: None for key in _TRUNCATED if key in stored_notes}
    patch: Json = {}
    if (stored.get("subsets") or []) != written:
        patch["subsets"] = written
    if stored_labels != labels:
        removed = {key: None for key in stored_labels if key not in labels}
        patch.setdefault("metadata", {})["labels"] = {**removed, **labels}
    if any(stored_notes.get(key) != value for key, value in notes.items()):
        patch.setdefault("metadata", {})["annotations"] = notes
    return patch


def _service_of_endpoints(
    objects: ObjectIndex, endpoints: Any, _before: Any | None, _gone: bool
) -> Sequence[str]:
    """Find the Service that has the name of an Endpoints object."""
    service = objects.find(Service, endpoints.metadata.namespace, endpoints.metadata.name)
    return () if service is None else (service.metadata.uid,)


ENDPOINT_SLICE_CONTROLLER = Controller(
    "endpoint-slice-controller",
    Service,
    plan_service,
    triggers=(
        OwnChange(Service),
        controlled(EndpointSlice, by=Service),
        RelatedChange(ENDPOINTS, Service, _service_of_endpoints),
        SameNamespaceChange(Pod, Service),
    ),
)
