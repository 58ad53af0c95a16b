"""Conversion between JSON objects and typed structs that reuses unchanged parts.

The store holds JSON; readers in this process use structs. A change replaces few parts of an
object and shares the others. So `derive_struct` makes the struct of the new object from the
struct of the old one. `overlay` writes a changed struct back into the JSON that it came from,
which preserves the fields that no struct declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.overlay import overlay, wire_fields
from kubesched.api.pod import PodSpec, PodStatus
from kubesched.cluster.apiserver.rules.strategies.shared_specs import SharedSpec, compute_once

__all__ = ["derive_struct", "make_struct", "overlay", "set_node", "set_status"]

S = TypeVar("S", bound=msgspec.Struct)
Json = dict[str, Any]

_ABSENT: Any = object()


def make_struct(kind: type[S], data: Mapping[str, Any]) -> S:
    """Convert an object to its struct. Pods that share a spec share its struct."""
    spec = data.get("spec")
    if type(spec) is not SharedSpec or kind is not Pod:
        return msgspec.convert(data, kind)
    rest = msgspec.convert({key: data[key] for key in data if key != "spec"}, kind)
    return replace(rest, spec=compute_once(_pod_spec, spec))


def derive_struct(view: S, old: Mapping[str, Any], new: Mapping[str, Any], version: str = "") -> S:
    """Make the struct of `new` from `view`, the struct of `old`.

    If `version` is not empty, the struct gets it as its resource version.

    The structs share top-level parts that are the same object in `old` and `new`, and the spec
    of a pod that was bound to its node. All other parts are converted, which is faster than a
    search for unchanged parts further down.

    Raises:
        msgspec.ValidationError: a changed part does not have its declared type.
    """
    if new is old and version:
        metadata: Any = view.metadata  # type: ignore[attr-defined]  # every stored type has it
        return replace(view, metadata=replace(metadata, resource_version=version))
    spec = new.get("spec")
    if old.get("spec") is not spec and type(view) is Pod and _is_assigned(old.get("spec"), spec):
        # Only the node is new, so the rest of the spec's struct is reused.
        view, old = set_node(view, old, new)
    changed = [key for key, value in new.items() if old.get(key, _ABSENT) is not value]
    changes: dict[str, Any] = {}
    if len(changed) == len(new):
        view = make_struct(type(view), new)
    else:
        fields = wire_fields(type(view))
        for key in changed:
            if (field := fields.get(key)) is not None:
                changes[field.attribute] = _converted(new[key], field.type, key)
        if not old.keys() <= new.keys():
            changes |= _removed_attributes(type(view), old, new)
    if version:
        metadata = changes.get("metadata") or view.metadata  # type: ignore[attr-defined]
        changes["metadata"] = replace(metadata, resource_version=version)
    return replace(view, **changes) if changes else view


def _removed_attributes(
    kind: type[msgspec.Struct], old: Mapping[str, Any], new: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the defaults of the attributes whose top-level parts were removed."""
    fields = wire_fields(kind)
    removed = (fields.get(key) for key in old.keys() - new.keys())
    return {field.attribute: field.default for field in removed if field is not None}


def set_node(view: S, old: Mapping[str, Any], bound: Mapping[str, Any]) -> tuple[S, Json]:
    """Set the node of a pod in its struct and in its JSON.

    The caller guarantees that nothing else in the spec of `bound` is new. `derive_struct` would
    have to compare the specs to find that out.
    """
    assert isinstance(view, Pod)
    spec = replace(view.spec, node_name=bound["spec"]["nodeName"])
    return replace(view, spec=spec), {**old, "spec": bound["spec"]}


def set_status(view: S, status: Json) -> S:
    """Replace the status of a pod's struct by a status in JSON."""
    assert isinstance(view, Pod)
    return replace(view, status=_converted(status, PodStatus, "status"))


def _converted(value: Any, kind: Any, key: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        # The error has a path relative to the part. Prefix it with the name of the part.
        raise msgspec.ValidationError(str(exc).replace("`$", f"`$.{key}", 1)) from exc


def _is_assigned(old: Any, new: Any) -> bool:
    """Whether `new` is `old` with a node name added and nothing else changed."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return False
    if len(new) != len(old) + 1:
        return False
    node = new.get("nodeName")
    if not isinstance(node, str) or "nodeName" in old:
        return False
    return all(new.get(key) is value for key, value in old.items())


def _pod_spec(spec: Mapping[str, Any]) -> PodSpec:
    return msgspec.convert(spec, PodSpec)
