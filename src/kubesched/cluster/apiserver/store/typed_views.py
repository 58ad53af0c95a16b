"""Between plain JSON objects and typed structs, without redoing what did not change.

The store holds JSON; readers in this process hold structs. A change touches few of an
object's parts and shares the others, so the struct of the new object is made from the struct
of the old one (`derive`), and a changed struct is written back into the JSON it came from
(`overlay`), which keeps the fields that no struct declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.overlay import overlay, wire_fields
from kubesched.api.pod import PodSpec, PodStatus
from kubesched.cluster.apiserver.rules.strategies.shared_specs import SharedSpec, once

__all__ = ["derive", "on_node", "overlay", "typed_view", "with_status"]

S = TypeVar("S", bound=msgspec.Struct)
Json = dict[str, Any]

_ABSENT: Any = object()


def typed_view(kind: type[S], data: Mapping[str, Any]) -> S:
    """The struct of an object. Pods that share a spec share its struct."""
    spec = data.get("spec")
    if type(spec) is not SharedSpec or kind is not Pod:
        return msgspec.convert(data, kind)
    rest = msgspec.convert({key: data[key] for key in data if key != "spec"}, kind)
    return replace(rest, spec=once(_pod_spec, spec))


def derive(view: S, old: Mapping[str, Any], new: Mapping[str, Any], version: str = "") -> S:
    """The struct of `new`, given that `view` is the struct of `old`.

    With a `version`, that of the object once it has got this one, and nothing else.

    Top-level parts that are the same object in both are shared, and so is the spec of a pod that
    is given its node. Otherwise the conversion of a part is faster than looking further down
    for what it could share.

    Raises:
        msgspec.ValidationError: a changed part does not have its declared type.
    """
    if new is old and version:
        metadata: Any = view.metadata  # type: ignore[attr-defined]  # every stored type has it
        return replace(view, metadata=replace(metadata, resource_version=version))
    spec = new.get("spec")
    if old.get("spec") is not spec and type(view) is Pod and _is_assigned(old.get("spec"), spec):
        # Nothing else of the spec is new: its struct is not made again, nor kept twice.
        view, old = on_node(view, old, new)
    changed = [key for key, value in new.items() if old.get(key, _ABSENT) is not value]
    changes: dict[str, Any] = {}
    if len(changed) == len(new):
        view = typed_view(type(view), new)
    else:
        fields = wire_fields(type(view))
        for key in changed:
            if (field := fields.get(key)) is not None:
                changes[field.attribute] = _converted(new[key], field.type, key)
        if not old.keys() <= new.keys():
            for key in old.keys() - new.keys():
                if (field := fields.get(key)) is not None:
                    changes[field.attribute] = field.default
    if version:
        metadata = changes.get("metadata") or view.metadata  # type: ignore[attr-defined]
        changes["metadata"] = replace(metadata, resource_version=version)
    return replace(view, **changes) if changes else view


def on_node(view: S, old: Mapping[str, Any], bound: Mapping[str, Any]) -> tuple[S, Json]:
    """A pod's struct and its data with the node that it is bound to, and nothing else new.

    Whoever knows this to be all that is new about the spec saves `derive` from finding out.
    """
    assert isinstance(view, Pod)
    spec = replace(view.spec, node_name=bound["spec"]["nodeName"])
    return replace(view, spec=spec), {**old, "spec": bound["spec"]}


def with_status(view: S, status: Json) -> S:
    """A pod's struct with another status, given as JSON, and nothing else new."""
    assert isinstance(view, Pod)
    return replace(view, status=_converted(status, PodStatus, "status"))


def _converted(value: Any, kind: Any, key: str) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as exc:
        # The error names the place below `$`; say which part that is.
        raise msgspec.ValidationError(str(exc).replace("`$", f"`$.{key}", 1)) from exc


def _is_assigned(old: Any, new: Any) -> bool:
    """Whether a spec got its node, and that is all that is new about it."""
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
