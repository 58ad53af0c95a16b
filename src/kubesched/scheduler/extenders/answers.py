"""What extenders answer, read as leniently as the reference reads it (spec 04 §18.2).

Keys count whatever their case, null counts as absent, and what is not known is ignored. A value
of another type than expected is an error that says so in the reference's words.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from kubesched.client.extender_client import ExtenderError
from kubesched.util.ints import MAX_INT64, MIN_INT64

__all__ = [
    "FilterAnswer",
    "MetaVictims",
    "read_bind_error",
    "read_filter",
    "read_preemption",
    "read_scores",
]

Json = dict[str, Any]


class FilterAnswer(NamedTuple):
    """Which nodes are left, in either form, and why the others are not."""

    nodes: list[Json] | None
    node_names: list[str] | None
    failed: Mapping[str, str]
    failed_and_unresolvable: Mapping[str, str]
    error: str


class MetaVictims(NamedTuple):
    """Whom to preempt on a node, by uid."""

    uids: tuple[str, ...]
    violations: int


def read_filter(answer: Any) -> FilterAnswer:
    kind = "ExtenderFilterResult"
    fields = _fields(answer, f"v1.{kind}")
    nodes = fields.get("nodes")
    items: list[Json] | None = None
    if nodes is not None:
        listed = _fields(nodes, "v1.NodeList", f"{kind}.Nodes").get("items")
        items = []
        for item in _list(listed, "[]v1.Node", f"{kind}.Nodes.items"):
            items.append(_object(item, "v1.Node", f"{kind}.Nodes.items"))
    names = fields.get("nodenames")
    return FilterAnswer(
        items,
        None if names is None else _texts(names, f"{kind}.NodeNames"),
        _messages(fields.get("failednodes"), f"{kind}.FailedNodes"),
        _messages(fields.get("failedandunresolvablenodes"), f"{kind}.FailedAndUnresolvableNodes"),
        _text(fields.get("error"), f"{kind}.Error"),
    )


def read_scores(answer: Any) -> list[tuple[str, int]]:
    """(node name, score) in the order of the answer."""
    scores = []
    for item in _list(answer, "v1.HostPriorityList", ""):
        fields = _fields(item, "v1.HostPriority")
        host = _text(fields.get("host"), "HostPriority.Host")
        scores.append((host, _integer(fields.get("score"), "HostPriority.Score")))
    return scores


def read_bind_error(answer: Any) -> str:
    """Why the extender did not bind the pod; empty if it did."""
    fields = _fields(answer, "v1.ExtenderBindingResult")
    return _text(fields.get("error"), "ExtenderBindingResult.Error")


def read_preemption(answer: Any) -> dict[str, MetaVictims]:
    """Victims by node name."""
    kind = "ExtenderPreemptionResult.NodeNameToMetaVictims"
    fields = _fields(answer, "v1.ExtenderPreemptionResult")
    by_node = _object(fields.get("nodenametometavictims"), "map[string]*v1.MetaVictims", kind)
    return {name: _meta_victims(value, kind) for name, value in by_node.items()}


def _meta_victims(value: Any, where: str) -> MetaVictims:
    fields = _fields(value, "v1.MetaVictims", where)
    pods = _list(fields.get("pods"), "[]*v1.MetaPod", f"{where}.Pods")
    uids = tuple(
        _text(_fields(pod, "v1.MetaPod", f"{where}.Pods").get("uid"), f"{where}.Pods.UID")
        for pod in pods
    )
    return MetaVictims(uids, _integer(fields.get("numpdbviolations"), f"{where}.NumPDBViolations"))


# -- values ------------------------------------------------------------------------------------


def _fields(value: Any, kind: str, where: str = "") -> Json:
    """The fields of an object under their names in lower case."""
    return {key.lower(): each for key, each in _object(value, kind, where).items()}


def _object(value: Any, kind: str, where: str) -> Json:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise _mismatch(value, kind, where)
    return value


def _list(value: Any, kind: str, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise _mismatch(value, kind, where)
    return value


def _text(value: Any, where: str) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _mismatch(value, "string", where)
    return value


def _texts(value: Any, where: str) -> list[str]:
    return [_text(each, where) for each in _list(value, "[]string", where)]


def _messages(value: Any, where: str) -> dict[str, str]:
    found = _object(value, "v1.FailedNodesMap", where)
    return {name: _text(message, where) for name, message in found.items()}


def _integer(value: Any, where: str) -> int:
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool):
        raise _mismatch(value, "int64", where)
    if not MIN_INT64 <= value <= MAX_INT64:
        raise _mismatch(value, "int64", where)
    return value


def _mismatch(value: Any, kind: str, where: str) -> ExtenderError:
    match value:
        case bool():
            found = "bool"
        case int() | float():
            found = f"number {value}" if kind == "int64" else "number"
        case str():
            found = "string"
        case list():
            found = "array"
        case _:
            found = "object"
    place = f"Go struct field {where}" if where else "Go value"
    return ExtenderError(f"json: cannot unmarshal {found} into {place} of type {kind}")
