"""The scale subresource: the number of replicas of a workload as a `Scale` object."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from kubesched.cluster.apiserver.http.tables.workload_tables import labels_text, selector_text
from kubesched.cluster.apiserver.rules.custom import CustomStrategy
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.errors.field_problems import invalid
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.store.stored_records import Record

__all__ = [
    "SCALABLE",
    "ScalePaths",
    "make_replicas_patch",
    "make_scale",
    "scale_paths",
    "scaled_fields",
]

Json = dict[str, Any]

# Built-in resources that have a scale subresource.
SCALABLE = frozenset({"deployments", "replicasets", "replicationcontrollers", "statefulsets"})

_VERSION = "autoscaling/v1"
_SHOWN = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


class ScalePaths(NamedTuple):
    """The fields of an object from which its scale is made."""

    spec: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    # The path of a selector in string form. Built-in workloads have `spec.selector` instead.
    selector: tuple[str, ...] = ()


def scale_paths(resource: Resource) -> ScalePaths | None:
    """Return the scale paths of a resource, or None if it has no scale."""
    strategy = resource.strategy
    if isinstance(strategy, CustomStrategy):
        declared = strategy.custom.scale if strategy.custom is not None else None
        if declared is None:
            return None
        return ScalePaths(
            _steps(declared.get("specReplicasPath")),
            _steps(declared.get("statusReplicasPath")),
            _steps(declared.get("labelSelectorPath")),
        )
    return ScalePaths() if resource.plural in SCALABLE and resource.type is not None else None


def _steps(path: Any) -> tuple[str, ...]:
    return tuple(path.strip(".").split(".")) if isinstance(path, str) and path else ()


def _at(data: Any, path: tuple[str, ...]) -> Any:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data


def _selector(record: Record, paths: ScalePaths) -> str:
    if record.resource.type is None:
        found = _at(record.data, paths.selector) if paths.selector else None
        return found if isinstance(found, str) else ""
    selector = record.data.get("spec", {}).get("selector") or {}
    if not selector:
        return ""
    is_plain = record.resource.kind == "ReplicationController"
    return labels_text(selector) if is_plain else selector_text(selector)


def make_scale(record: Record, paths: ScalePaths) -> Json:
    """Return the Scale of an object."""
    metadata = record.data["metadata"]
    status: Json = {"replicas": _at(record.data, paths.status) or 0}
    if selector := _selector(record, paths):
        status["selector"] = selector
    replicas = _at(record.data, paths.spec) or 0
    shown = {field: metadata[field] for field in _SHOWN if field in metadata}
    if owners := list(_owners(metadata.get("managedFields") or (), paths)):
        shown["managedFields"] = owners
    return {
        "kind": "Scale",
        "apiVersion": _VERSION,
        "metadata": shown,
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _owners(entries: Iterable[Json], paths: ScalePaths) -> Iterator[Json]:
    """Yield the entries of the managers that own the number of replicas, in terms of the Scale."""
    for entry in entries:
        fields = entry.get("fieldsV1")
        if _at(fields, tuple(f"f:{step}" for step in paths.spec)) is not None:
            owned: Json = {"f:spec": {"f:replicas": {}}}
            yield {**entry, "apiVersion": _VERSION, "fieldsV1": owned}


def scaled_fields(scale: Json, paths: ScalePaths) -> Json:
    """Return the fields of the object that an applied Scale sets."""
    metadata = scale.get("metadata") or {}
    named = {key: metadata[key] for key in ("name", "namespace") if metadata.get(key)}
    replicas: Any = (scale.get("spec") or {}).get("replicas")
    if replicas is None:
        return {"metadata": named}
    for step in reversed(paths.spec):
        replicas = {step: replicas}
    return {"metadata": named, **replicas}


def make_replicas_patch(scale: Any, record: Record, paths: ScalePaths) -> Json:
    """Return the merge patch of a workload for a changed Scale. Raises ApiError."""
    parts = (
        (scale, scale.get("spec", {}), scale.get("metadata") or {})
        if isinstance(scale, dict)
        else ()
    )
    if not parts or not all(isinstance(part, dict) for part in parts):
        text = 'Scale in version "v1" cannot be handled as a Scale: expected an object'
        raise api_errors.bad_request(text)
    replicas = scale.get("spec", {}).get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        text = 'Scale in version "v1" cannot be handled as a Scale: spec.replicas must be a number'
        raise api_errors.bad_request(text)
    if replicas < 0:
        text = "must be greater than or equal to 0"
        problem = invalid("spec.replicas", replicas, text)
        name = record.data["metadata"]["name"]
        raise api_errors.invalid("Scale.autoscaling", name, [problem])
    metadata = scale.get("metadata") or {}
    based_on = {key: metadata[key] for key in ("uid", "resourceVersion") if metadata.get(key)}
    patch: Any = replicas
    for step in reversed(paths.spec):
        patch = {step: patch}
    return {"metadata": based_on, **patch}
