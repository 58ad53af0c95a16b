"""Tables of nodes, namespaces, services, events, config maps and similar kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.cluster.apiserver.http.tables.table import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    Column,
    Layout,
    age,
    since,
    wide,
)
from kubesched.cluster.apiserver.http.tables.workload_tables import labels_text

__all__ = ["CLUSTER"]

Json = Mapping[str, Any]

_ROLE = "node-role.kubernetes.io/"


def _node(node: Json, now_ns: int) -> Sequence[Any]:
    status = node.get("status", {})
    info = status.get("nodeInfo", {})
    addresses = {each.get("type"): each.get("address") for each in status.get("addresses", ())}
    return (
        node["metadata"]["name"],
        _node_state(node),
        _node_roles(node["metadata"].get("labels", {})),
        age(node, now_ns),
        info.get("kubeletVersion", ""),
        addresses.get("InternalIP") or NONE,
        addresses.get("ExternalIP") or NONE,
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    )


def _node_state(node: Json) -> str:
    states = [
        "Ready" if condition.get("status") == "True" else "NotReady"
        for condition in node.get("status", {}).get("conditions", ())
        if condition.get("type") == "Ready"
    ] or ["Unknown"]
    if node.get("spec", {}).get("unschedulable"):
        states.append("SchedulingDisabled")
    return ",".join(states)


def _node_roles(labels: Json) -> str:
    roles = {key.removeprefix(_ROLE) for key in labels if key.startswith(_ROLE)} - {""}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return ",".join(sorted(roles)) or NONE


def _namespace(data: Json, now_ns: int) -> Sequence[Any]:
    return (data["metadata"]["name"], data.get("status", {}).get("phase", ""), age(data, now_ns))


def _service(data: Json, now_ns: int) -> Sequence[Any]:
    spec = data.get("spec", {})
    ports = []
    for port in spec.get("ports", ()):
        node_port = f":{port['nodePort']}" if port.get("nodePort") else ""
        ports.append(f"{port.get('port')}{node_port}/{port.get('protocol', 'TCP')}")
    return (
        data["metadata"]["name"],
        spec.get("type", "ClusterIP"),
        spec.get("clusterIP") or NONE,
        ",".join(spec.get("externalIPs", ())) or NONE,
        ",".join(ports) or NONE,
        age(data, now_ns),
        labels_text(spec.get("selector")),
    )


def _event(data: Json, now_ns: int) -> Sequence[Any]:
    """Return the cells of an event in the form of core/v1 or of events.k8s.io/v1."""
    regarding = _first_of(data, "involvedObject", "regarding") or {}
    first = _first_of(data, "firstTimestamp", "deprecatedFirstTimestamp", "eventTime")
    last = _first_of(data, "lastTimestamp", "deprecatedLastTimestamp") or first
    count = _first_of(data, "count", "deprecatedCount") or 1
    if series := data.get("series"):
        last, count = series.get("lastObservedTime") or last, series.get("count", count)
    kind, name = regarding.get("kind", "").lower(), regarding.get("name", "")
    return (
        since(last, now_ns),
        data.get("type", ""),
        data.get("reason", ""),
        f"{kind}/{name}" if name else kind,
        regarding.get("fieldPath", ""),
        _event_source(data),
        (_first_of(data, "message", "note") or "").strip(),
        since(first, now_ns),
        count,
        data["metadata"]["name"],
    )


def _first_of(data: Json, *fields: str) -> Any:
    """Return the first value that is not empty, or None."""
    return next((value for field in fields if (value := data.get(field))), None)


def _event_source(data: Json) -> str:
    source = _first_of(data, "source", "deprecatedSource") or {}
    reporter = _first_of(data, "reportingController", "reportingComponent") or ""
    component = source.get("component") or reporter
    host = source.get("host")
    return f"{component}, {host}" if host else component


def _priority_class(data: Json, now_ns: int) -> Sequence[Any]:
    return (
        data["metadata"]["name"],
        data.get("value", 0),
        bool(data.get("globalDefault")),
        age(data, now_ns),
        data.get("preemptionPolicy", ""),
    )


def _lease(data: Json, now_ns: int) -> Sequence[Any]:
    holder = data.get("spec", {}).get("holderIdentity", "")
    return (data["metadata"]["name"], holder, age(data, now_ns))


def _config_map(data: Json, now_ns: int) -> Sequence[Any]:
    entries = len(data.get("data", {})) + len(data.get("binaryData", {}))
    return (data["metadata"]["name"], entries, age(data, now_ns))


def _secret(data: Json, now_ns: int) -> Sequence[Any]:
    kind, entries = data.get("type", ""), len(data.get("data", {}))
    return (data["metadata"]["name"], kind, entries, age(data, now_ns))


def _budget(data: Json, now_ns: int) -> Sequence[Any]:
    spec = data.get("spec", {})
    return (
        data["metadata"]["name"],
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        data.get("status", {}).get("disruptionsAllowed", 0),
        age(data, now_ns),
    )


CLUSTER: dict[str, Layout] = {
    "Node": Layout(
        (
            NAME,
            Column("Status"),
            Column("Roles"),
            AGE,
            Column("Version"),
            wide("Internal-IP"),
            wide("External-IP"),
            wide("OS-Image"),
            wide("Kernel-Version"),
            wide("Container-Runtime"),
        ),
        _node,
    ),
    "Namespace": Layout((NAME, Column("Status"), AGE), _namespace),
    "Service": Layout(
        (
            NAME,
            Column("Type"),
            Column("Cluster-IP"),
            Column("External-IP"),
            Column("Port(s)"),
            AGE,
            wide("Selector"),
        ),
        _service,
    ),
    "Event": Layout(
        (
            Column("Last Seen"),
            Column("Type"),
            Column("Reason"),
            Column("Object"),
            wide("Subobject"),
            wide("Source"),
            Column("Message"),
            wide("First Seen"),
            Column("Count", type="integer", priority=1),
            Column("Name", format="name", priority=1),
        ),
        _event,
    ),
    "PriorityClass": Layout(
        (
            NAME,
            Column("Value", type="integer"),
            Column("Global-Default", type="boolean"),
            AGE,
            Column("PreemptionPolicy"),
        ),
        _priority_class,
    ),
    "Lease": Layout((NAME, Column("Holder"), AGE), _lease),
    "ConfigMap": Layout((NAME, Column("Data"), AGE), _config_map),
    "Secret": Layout((NAME, Column("Type"), Column("Data"), AGE), _secret),
    "PodDisruptionBudget": Layout(
        (
            NAME,
            Column("Min Available"),
            Column("Max Unavailable"),
            Column("Allowed Disruptions", type="integer"),
            AGE,
        ),
        _budget,
    ),
}
