"""The latest time in objects: every time of the past in every kind counts."""

from __future__ import annotations

import typing
from typing import Any

import msgspec

from kubesched.api import Node, ObjectMeta, Pod, PodStatus
from kubesched.api.kinds import KINDS
from kubesched.api.latest_time import PAST_TIMES, latest_time_ns
from kubesched.api.time import parse_time
from kubesched.cluster.apiserver.rules.schema.definitions import definition_of, definitions
from kubesched.cluster.apiserver.rules.schema.definitions import reference_target as target

_TIMES = (
    "io.k8s.apimachinery.pkg.apis.meta.v1.Time",
    "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime",
)
# Of events, which are not objects of a capture; and the end of a grace period.
_OTHERS = {
    "deletion_timestamp",
    "deprecated_first_timestamp",
    "deprecated_last_timestamp",
    "event_time",
    "first_timestamp",
    "last_observed_time",
    "last_timestamp",
}


def test_every_field_that_is_a_time_in_the_published_schema_is_classified() -> None:
    found: set[str] = set()
    for kind in KINDS:
        name = definition_of(kind.group, kind.version, kind.kind)
        if name is not None:
            _collect(kind.type, name, found, ())
    assert found == PAST_TIMES | _OTHERS


def _collect(type_: Any, name: str, found: set[str], above: tuple[Any, ...]) -> None:
    """Collect the fields of a struct type that the schema declares as times."""
    if type_ in above:
        return
    fields = {each.encode_name: each for each in msgspec.structs.fields(type_)}
    for member, schema in definitions()[name].get("properties", {}).items():
        if member not in fields:
            continue
        inner = _definition(schema)
        if inner in _TIMES:
            found.add(fields[member].name)
        elif inner is not None:
            for part in _structs(fields[member].type):
                _collect(part, inner, found, (*above, type_))


def _definition(schema: dict[str, Any]) -> str | None:
    if (name := target(schema)) is not None:
        return name
    for part in (*schema.get("allOf", ()), schema.get("items"), schema.get("additionalProperties")):
        if isinstance(part, dict) and (name := _definition(part)) is not None:
            return name
    return None


def _structs(annotation: Any) -> list[Any]:
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        return [annotation]
    return [kind for part in typing.get_args(annotation) for kind in _structs(part)]


def test_the_latest_time_is_found_wherever_it_is() -> None:
    node = msgspec.convert(
        {
            "metadata": {"name": "a", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"taints": [{"key": "k", "timeAdded": "2026-05-01T00:00:00Z"}]},
            "status": {"conditions": [{"type": "Ready", "lastHeartbeatTime": "nonsense"}]},
        },
        Node,
    )
    pod = msgspec.convert(
        {
            "metadata": {"name": "p", "deletionTimestamp": "2027-01-01T00:00:00Z"},
            "status": {
                "initContainerStatuses": [
                    {
                        "name": "i",
                        "image": "x",
                        "imageID": "x",
                        "state": {"terminated": {"finishedAt": "2026-06-01T02:00:00+02:00"}},
                    }
                ]
            },
        },
        Pod,
    )
    assert latest_time_ns([node, pod]) == parse_time("2026-06-01T00:00:00Z")
    assert latest_time_ns([node]) == parse_time("2026-05-01T00:00:00Z")


def test_without_times_there_is_no_latest_one_and_absurd_ones_do_not_count() -> None:
    assert latest_time_ns([]) == 0
    meta = ObjectMeta(name="p", creation_timestamp="9999-12-31T23:59:59Z")
    assert latest_time_ns([Pod(metadata=meta, status=PodStatus(phase="Pending"))]) == 0
