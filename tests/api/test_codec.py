"""Recorded objects of the reference survive decoding and encoding."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubesched.api import (
    Container,
    CSINode,
    LabelSelector,
    ObjectMeta,
    Pod,
    PodAffinityTerm,
    PodSpec,
    PodStatus,
    ResourceRequirements,
    Service,
    Status,
    StatusDetails,
    by_api_version_kind,
)
from kubesched.api.codec import (
    decode,
    decode_list,
    encode,
    encode_list,
    from_builtins,
    to_builtins,
)

# Fields that kubesched does not read; all other fields of the goldens must be preserved.
UNUSED = {"metadata.managedFields"}


def recorded_objects(goldens: Path) -> Iterator[dict[str, Any]]:
    for path in sorted((goldens / "decisions").glob("*.jsonl.gz")):
        with gzip.open(path) as lines:
            for line in lines:
                scenario = json.loads(line)
                yield from scenario["objects"]
                yield from scenario["pending"]
    for name in ("pods", "events", "lease", "extender-pods", "extender-events"):
        document = json.loads((goldens / f"api/{name}.json").read_text())
        yield from _items(document)
    for line in (goldens / "wire.jsonl").read_text().splitlines():
        answer = json.loads(line)["response"]
        events = answer.get("events") or []
        bodies = [answer.get("body")] + [
            event["object"]
            for event in (events if isinstance(events, list) else [])
            if event["type"] != "BOOKMARK"
        ]
        for body in bodies:
            if isinstance(body, dict):
                yield from _items(body)


def _items(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    kind = document.get("kind", "")
    if not kind.endswith("List"):
        yield document
        return
    for item in document.get("items") or []:
        yield {"apiVersion": document["apiVersion"], "kind": kind.removesuffix("List"), **item}


def without_empty(value: Any) -> Any:
    """Drop values that the API treats as absent: null, zero and empty ones."""
    if isinstance(value, dict):
        pairs = ((key, without_empty(each)) for key, each in value.items())
        return {key: each for key, each in pairs if each not in (None, "", 0, False, [], {})}
    if isinstance(value, list):
        return [without_empty(each) for each in value]
    return value


def missing_paths(want: Any, got: Any, path: str = "") -> Iterator[str]:
    """Yield the paths where `got` lacks a value of `want` or has a different one."""
    if isinstance(want, dict) and isinstance(got, dict):
        for key, value in want.items():
            where = f"{path}.{key}" if path else key
            if key not in got:
                yield where
            else:
                yield from missing_paths(value, got[key], where)
    elif isinstance(want, list) and isinstance(got, list) and len(want) == len(got):
        for left, right in zip(want, got, strict=True):
            yield from missing_paths(left, right, path)
    elif want != got:
        yield f"{path}: {want!r} became {got!r}"


def test_recorded_objects_survive_a_round_trip(goldens: Path) -> None:
    lost: set[str] = set()
    count = 0
    for document in recorded_objects(goldens):
        kind = by_api_version_kind(document.get("apiVersion", ""), document.get("kind", ""))
        if kind is None:
            continue
        count += 1
        decoded = from_builtins(document, kind.type)
        assert decode(json.dumps(document), kind.type) == decoded
        encoded = json.loads(encode(decoded))
        want = without_empty(document)
        assert list(missing_paths(without_empty(encoded), want)) == []  # no values were added
        lost.update(missing_paths(want, encoded))
    assert count > 17_000
    assert lost <= UNUSED


def test_the_kind_and_version_come_first_and_from_the_type() -> None:
    assert encode(Pod()) == b'{"kind":"Pod","apiVersion":"v1"}'
    pod = Pod(metadata=ObjectMeta(name="p"))
    assert encode(pod) == b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}'
    assert encode(pod.metadata) == b'{"name":"p"}'


def test_an_object_from_a_list_equals_the_same_object_from_a_watch() -> None:
    listed = decode_list(b'{"metadata":{},"items":[{"metadata":{"name":"p"}}]}', Pod).items[0]
    watched = decode(b'{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"}}', Pod)
    assert listed == watched


def test_builtins_have_lists_and_the_api_names() -> None:
    spec = PodSpec(containers=(Container(name="c", command=("sh",)),), host_pid=True)
    status = PodStatus(pod_ip="10.0.0.1")
    assert to_builtins(Pod(spec=spec, status=status)) == {
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"containers": [{"name": "c", "command": ["sh"]}], "hostPID": True},
        "status": {"podIP": "10.0.0.1"},
    }


def test_a_page_has_its_version_and_continue_token() -> None:
    page = encode_list([Pod()], Pod, resource_version="7", continue_token="abc")
    assert json.loads(page) == {
        "kind": "PodList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7", "continue": "abc"},
        "items": [{}],
    }
    decoded = decode_list(page, Pod)
    assert (decoded.items, decoded.resource_version, decoded.continue_token) == (
        (Pod(),),
        "7",
        "abc",
    )


def test_an_empty_page_still_has_items() -> None:
    assert json.loads(encode_list([], Pod))["items"] == []


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ('{"spec":{"drivers":null}}', CSINode()),
        (
            '{"metadata":{"labels":null,"name":"n"},"spec":null}',
            CSINode(metadata=ObjectMeta(name="n")),
        ),
    ],
    ids=["a list", "a map and an object"],
)
def test_null_counts_as_absent_for_types_without_none(text: str, want: CSINode) -> None:
    assert decode(text, CSINode) == want
    assert from_builtins(json.loads(text), CSINode) == want


def test_absent_differs_from_empty_where_the_scheduler_needs_it() -> None:
    assert decode('{"spec":{}}', Service).spec.selector is None
    assert decode('{"spec":{"selector":{}}}', Service).spec.selector == {}
    assert decode('{"spec":{"nodeSelector":{}}}', Pod).spec.node_selector == {}
    assert decode("{}", Pod).spec.node_selector is None
    assert decode('{"labelSelector":{}}', PodAffinityTerm).label_selector == LabelSelector()
    assert decode('{"status":{"resources":{}}}', Pod).status.resources == ResourceRequirements()
    assert json.loads(encode(PodSpec(node_selector={}))) == {"nodeSelector": {}}


def test_a_status_names_its_details() -> None:
    text = '{"kind":"Status","code":404,"reason":"NotFound","details":{"name":"p","kind":"pods"}}'
    status = decode(text, Status)
    assert (status.code, status.reason) == (404, "NotFound")
    assert status.details == StatusDetails(name="p", kind="pods")


def test_a_type_error_names_the_path() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.spec\.nodeName"):
        decode('{"spec":{"nodeName":7}}', Pod)
