"""The scale of a workload: its number of replicas as an object of its own."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.http.tables.workloads import labels_text, selector_text
from kubesched.apiserver.rules import api_errors
from kubesched.apiserver.store.records import Record

__all__ = ["replicas_patch", "scale_of"]

Json = dict[str, Any]

_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(record: Record) -> Json:
    metadata, spec = record.data["metadata"], record.data.get("spec", {})
    selector = spec.get("selector") or {}
    is_plain = record.resource.kind == "ReplicationController"
    status: Json = {"replicas": record.data.get("status", {}).get("replicas", 0)}
    if selector:
        status["selector"] = labels_text(selector) if is_plain else selector_text(selector)
    replicas = spec.get("replicas", 0)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {field: metadata[field] for field in _SHOWN if field in metadata},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def replicas_patch(scale: Any, record: Record) -> Json:
    """The merge patch of a workload that a changed scale stands for. Raises ApiError."""
    if not isinstance(scale, dict) or not isinstance(scale.get("spec", {}), dict):
        text = 'Scale in version "v1" cannot be handled as a Scale: expected an object'
        raise api_errors.bad_request(text)
    replicas = scale.get("spec", {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        message = f"Scale {record.data['metadata']['name']!r}: spec.replicas: Invalid value"
        raise api_errors.bad_request(message)
    metadata = scale.get("metadata") or {}
    based_on = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
    return {"metadata": based_on, "spec": {"replicas": replicas}}
