"""How stored objects look on the wire.

The store leaves out what says nothing. The reference writes some of it all the same: empty
structures, and null for times that were never set. Clients of the JSON API may count on it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from kubesched.api.meta import Status
from kubesched.api.raw_objects import node_wire_form, pod_wire_form
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource

__all__ = ["status_body", "wire_form"]

Json = dict[str, Any]


def wire_form(resource: Resource, data: Json) -> Json:
    """The object with its kind and version, and with what the reference always writes."""
    shown = _SHOWN.get(resource.kind)
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    return {**head, **(data if shown is None else shown(data))}


def _spec_and_status(data: Json) -> Json:
    return {"spec": {}, "status": {}, **data}


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


def _counting(*counts: str) -> Callable[[Json], Json]:
    """For kinds whose status has numbers that are there even when they are zero.

    Clients that check what they read (the official Python client does) refuse a status without.
    """
    zeros = dict.fromkeys(counts, 0)

    def shown(data: Json) -> Json:
        status = data.get("status", {})
        if zeros.keys() <= status.keys():
            return data
        return {"spec": {}, **data, "status": {**zeros, **status}}

    return shown


_SHOWN: dict[str, Callable[[Json], Json]] = {
    "Node": node_wire_form,
    "Pod": pod_wire_form,
    "Event": _either_event,
    "Lease": _spec_only,
    "DaemonSet": _counting(
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"
    ),
    "PodDisruptionBudget": _counting(
        "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"
    ),
    "ReplicaSet": _counting("replicas"),
    "ReplicationController": _counting("replicas"),
    "StatefulSet": _counting("replicas", "availableReplicas"),
    **dict.fromkeys(
        (
            "CronJob",
            "Deployment",
            "Job",
            "Namespace",
            "PersistentVolume",
            "PersistentVolumeClaim",
            "ResourceClaim",
            "Service",
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
