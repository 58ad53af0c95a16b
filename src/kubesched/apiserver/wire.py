"""How stored objects look on the wire.

The store leaves out what says nothing. The reference writes some of it all the same: empty
structures, and null for times that were never set. Clients of the JSON API may count on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api.meta import Status
from kubesched.apiserver.resources import Resource

__all__ = ["status_body", "wire_form"]

Json = dict[str, Any]

_NODE_INFO = dict.fromkeys(
    (
        "machineID",
        "systemUUID",
        "bootID",
        "kernelVersion",
        "osImage",
        "containerRuntimeVersion",
        "kubeletVersion",
        "kubeProxyVersion",
        "operatingSystem",
        "architecture",
    ),
    "",
)


def wire_form(resource: Resource, data: Json) -> Json:
    """The object with its kind and version, and with what the reference always writes."""
    shown = _SHOWN.get(resource.kind)
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    return {**head, **(data if shown is None else shown(data))}


def _spec_and_status(data: Json) -> Json:
    return {"spec": {}, "status": {}, **data}


def _conditions(status: Json, *times: str) -> Json:
    conditions = status.get("conditions")
    if not conditions:
        return status
    empty = dict.fromkeys(times)
    return {**status, "conditions": [{**empty, **condition} for condition in conditions]}


def _node(data: Json) -> Json:
    status = data.get("status", {})
    info = status.get("nodeInfo")
    status = {
        "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
        **status,
        "nodeInfo": _NODE_INFO if info is None else {**_NODE_INFO, **info},
    }
    status = _conditions(status, "lastHeartbeatTime", "lastTransitionTime")
    return {"spec": {}, **data, "status": status}


def _pod(data: Json) -> Json:
    status = _conditions(data.get("status", {}), "lastProbeTime", "lastTransitionTime")
    return {**data, "status": status}


def _event(data: Json) -> Json:
    return {
        "eventTime": None,
        "regarding": {},
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        **data,
    }


def _core_event(data: Json) -> Json:
    return {
        "eventTime": None,
        "involvedObject": {},
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "reportingComponent": "",
        "reportingInstance": "",
        **data,
    }


def _either_event(data: Json) -> Json:
    return _core_event(data) if "involvedObject" in data else _event(data)


def _spec_only(data: Json) -> Json:
    return {"spec": {}, **data}


_SHOWN: dict[str, Callable[[Json], Json]] = {
    "Node": _node,
    "Pod": _pod,
    "Event": _either_event,
    "Lease": _spec_only,
    **dict.fromkeys(
        (
            "DaemonSet",
            "Deployment",
            "Job",
            "Namespace",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "PodDisruptionBudget",
            "ReplicaSet",
            "ReplicationController",
            "ResourceClaim",
            "Service",
            "StatefulSet",
        ),
        _spec_and_status,
    ),
}


def status_body(status: Status) -> Json:
    """A Status as the reference writes it: metadata always, other empty fields never."""
    body: Json = {"kind": status.kind, "apiVersion": status.api_version}
    metadata = status.metadata
    body["metadata"] = {"continue": metadata.continue_token} if metadata.continue_token else {}
    for field in ("status", "message", "reason"):
        if value := getattr(status, field):
            body[field] = value
    if status.details is not None:
        body["details"] = msgspec.json.decode(msgspec.json.encode(status.details))
    if status.code:
        body["code"] = status.code
    return body
