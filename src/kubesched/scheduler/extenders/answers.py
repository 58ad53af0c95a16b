"""Decodes the responses of extenders, as leniently as the reference (docs/reference/04 §18.2).

Keys match in any case, null counts as absent, and unknown fields are ignored. A value of the wrong
type is an error with the reference's text. Node objects are returned as bytes: there may be
thousands, and usually they equal those that were sent.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar

import msgspec

from kubesched.api.int64 import MAX_INT64, MIN_INT64
from kubesched.foundation.client.extender_client import ExtenderError

__all__ = [
    "FilterAnswer",
    "MetaVictims",
    "read_bind_error",
    "read_filter",
    "read_preemption",
    "read_scores",
]

Json = dict[str, Any]
_T = TypeVar("_T")

_NULL = b"null"
_decode = msgspec.json.decode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw] | None).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw] | None).decode


class _HostPriority(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    Host: str = ""
    Score: Annotated[int, msgspec.Meta(ge=MIN_INT64, le=MAX_INT64)] = 0


_scores = msgspec.json.Decoder(list[_HostPriority]).decode


class FilterAnswer(NamedTuple):
    """The response to a filter call: accepted nodes, in either form, and refused ones."""

    nodes: list[bytes] | None
    node_names: list[str] | None
    failed: Mapping[str, str]
    failed_and_unresolvable: Mapping[str, str]
    error: str


class MetaVictims(NamedTuple):
    """The uids of the victims on a node, and how many disruption budgets they violate."""

    uids: tuple[str, ...]
    violations: int


def _readable(read: Callable[[bytes], _T]) -> Callable[[bytes], _T]:
    """Decorate a decoder: a response that cannot be decoded becomes an ExtenderError."""

    @functools.wraps(read)
    def read_or_fail(answer: bytes) -> _T:
        try:
            return read(answer)
        except RecursionError as exc:
            raise ExtenderError("exceeded max depth") from exc
        except (msgspec.MsgspecError, UnicodeError) as exc:
            raise ExtenderError(f"json: cannot unmarshal: {exc}") from exc

    return read_or_fail


@_readable
def read_filter(answer: bytes) -> FilterAnswer:
    kind = "ExtenderFilterResult"
    parts = _parts(answer, f"v1.{kind}")
    items: list[bytes] | None = None
    nodes = parts.pop("nodes", _NULL)
    if not _is_null(nodes):
        listed = _parts(nodes, "v1.NodeList", f"{kind}.Nodes").get("items", _NULL)
        items = _items(listed, "[]v1.Node", f"{kind}.Nodes.items")
    fields = {name: _decode(part) for name, part in parts.items()}
    names = fields.get("nodenames")
    return FilterAnswer(
        items,
        None if names is None else _texts(names, f"{kind}.NodeNames"),
        _messages(fields.get("failednodes"), f"{kind}.FailedNodes"),
        _messages(fields.get("failedandunresolvablenodes"), f"{kind}.FailedAndUnresolvableNodes"),
        _text(fields.get("error"), f"{kind}.Error"),
    )


@_readable
def read_scores(answer: bytes) -> list[tuple[str, int]]:
    """Decode a prioritize response: (node name, score) in the order of the response."""
    try:
        return [(each.Host, each.Score) for each in _scores(answer)]
    except msgspec.ValidationError:
        pass  # not in the usual form; decode it leniently
    scores = []
    for item in _list(_decode(answer), "v1.HostPriorityList", ""):
        fields = _fields(item, "v1.HostPriority")
        host = _text(fields.get("host"), "HostPriority.Host")
        scores.append((host, _integer(fields.get("score"), "HostPriority.Score")))
    return scores


@_readable
def read_bind_error(answer: bytes) -> str:
    """Decode a bind response: the error, empty if the extender bound the pod."""
    fields = _fields(_decode(answer), "v1.ExtenderBindingResult")
    return _text(fields.get("error"), "ExtenderBindingResult.Error")


@_readable
def read_preemption(answer: bytes) -> dict[str, MetaVictims]:
    """Decode a preempt response: victims by node name."""
    kind = "ExtenderPreemptionResult.NodeNameToMetaVictims"
    fields = _fields(_decode(answer), "v1.ExtenderPreemptionResult")
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


def _parts(value: bytes, kind: str, where: str = "") -> dict[str, bytes]:
    """Return the members of an object, not decoded, by their names in lower case."""
    try:
        members = _members(value)
    except msgspec.ValidationError:
        raise _mismatch(_decode(value), kind, where) from None
    return {} if members is None else {key.lower(): bytes(raw) for key, raw in members.items()}


def _items(value: bytes, kind: str, where: str) -> list[bytes]:
    try:
        items = _elements(value)
    except msgspec.ValidationError:
        raise _mismatch(_decode(value), kind, where) from None
    return [] if items is None else [bytes(raw) for raw in items]


def _is_null(value: bytes) -> bool:
    return value.strip() == _NULL


def _fields(value: Any, kind: str, where: str = "") -> Json:
    """Return the fields of an object by their names in lower case."""
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
