"""Conversion between the API versions of HorizontalPodAutoscaler.

The store holds version 2. Version 1 has only the CPU metric.
"""

from __future__ import annotations

from typing import Any

__all__ = ["from_version_1", "to_version_1"]

Json = dict[str, Any]

_PERCENTAGE = "targetCPUUtilizationPercentage"
_CURRENT = "currentCPUUtilizationPercentage"


def _cpu(metrics: Any, part: str) -> int | None:
    for metric in metrics or ():
        resource = metric.get("resource") or {}
        if metric.get("type") == "Resource" and resource.get("name") == "cpu":
            value: int | None = (resource.get(part) or {}).get("averageUtilization")
            return value
    return None


def from_version_1(document: Json) -> Json:
    """Convert an object of version 1 to the stored form."""
    spec = dict(document.get("spec") or {})
    percentage = spec.pop(_PERCENTAGE, None)
    if percentage is not None:
        target = {"type": "Utilization", "averageUtilization": percentage}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    stored = {**document, "spec": spec}
    if isinstance(document.get("status"), dict):
        status = dict(document["status"])
        current = status.pop(_CURRENT, None)
        if current is not None:
            used = {"name": "cpu", "current": {"averageUtilization": current}}
            status["currentMetrics"] = [{"type": "Resource", "resource": used}]
        stored["status"] = status
    return stored


def to_version_1(document: Json) -> Json:
    """Convert a stored object to version 1."""
    spec = dict(document.get("spec") or {})
    target = _cpu(spec.pop("metrics", None), "target")
    spec.pop("behavior", None)
    if target is not None:
        spec[_PERCENTAGE] = target
    shown = {**document, "spec": spec}
    if isinstance(document.get("status"), dict):
        status = dict(document["status"])
        current = _cpu(status.pop("currentMetrics", None), "current")
        status.pop("conditions", None)
        if current is not None:
            status[_CURRENT] = current
        shown["status"] = status
    return shown
