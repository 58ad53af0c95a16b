"""The JSON form of stored objects on the wire.

The store omits empty fields. The reference writes some of them: empty structures, and null for
times that were never set. Clients of the JSON API may rely on them.
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
    """Add the kind, the API version and the fields that the reference always writes."""
    complete = _COMPLETED_BY.get(resource.kind)
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    return {**head, **(data if complete is None else complete(data))}


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


def _with_counts(*counts: str) -> Callable[[Json], Json]:
    """Return a function that adds zero counts to the status of an object.

    Clients that validate responses, such as the official Python client, require them.
    """
    zeros = dict.fromkeys(counts, 0)

    def complete(data: Json) -> Json:
        status = data.get("status", {})
        if zeros.keys() <= status.keys():
            return data
        return {"spec": {}, **data, "status": {**zeros, **status}}

    return complete


_COMPLETED_BY: dict[str, Callable[[Json], Json]] = {
    "Node": node_wire_form,
    "Pod": pod_wire_form,
    "Event": _either_event,
    "Lease": _spec_only,
    "DaemonSet": _with_counts(
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady"
    ),
    "PodDisruptionBudget": _with_counts(
        "disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"
    ),
    "ReplicaSet": _with_counts("replicas"),
    "ReplicationController": _with_counts("replicas"),
    "StatefulSet": _with_counts("replicas", "availableReplicas"),
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
    """Encode a Status as the reference does: always with metadata, without other empty fields."""
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
