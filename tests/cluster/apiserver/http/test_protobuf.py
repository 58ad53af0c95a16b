"""Decoding and encoding of protobuf bodies, built field by field."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cluster.apiserver.http.protobuf import openapi_v2, read_protobuf, write_protobuf
from kubesched.cluster.apiserver.http.protobuf.message_definitions import CRD, messages
from kubesched.cluster.apiserver.http.protobuf.wire_encoding import (
    MalformedError,
    fields,
    text,
    varint,
    wrapped,
)
from kubesched.cluster.apiserver.rules.schema import (
    collect_definitions,
    definition_of,
    unknown_fields,
)
from tests.cluster.apiserver.http.client import Client

PROTOBUF = "application/vnd.kubernetes.protobuf"


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def envelope(api_version: str, kind: str, content: bytes) -> bytes:
    head = wrapped(1, text(1, api_version) + text(2, kind))
    return b"k8s\0" + head + wrapped(2, content)


def metadata(name: str) -> bytes:
    # A typed client encodes empty fields too: generateName, namespace, a zero time.
    empty_time = wrapped(8, number(1, 0) + number(2, 0))
    labels = wrapped(11, text(1, "app") + text(2, "x"))
    return wrapped(1, text(1, name) + text(2, "") + text(3, "") + empty_time + labels)


def test_inline_messages_are_decoded() -> None:
    port = wrapped(6, text(1, "http") + number(2, 0) + number(3, 80) + text(4, "TCP"))
    request = wrapped(2, text(1, "cpu") + wrapped(2, text(1, "100m")))
    get = wrapped(2, text(1, "/") + wrapped(2, number(1, 1) + number(2, 0) + text(3, "http")))
    probe = wrapped(10, wrapped(1, get) + number(2, 5))
    container = wrapped(2, text(1, "c") + text(2, "i") + port + wrapped(8, request) + probe)
    volume = wrapped(1, text(1, "v") + wrapped(2, wrapped(2, b"")))
    toleration = wrapped(22, text(1, "k") + number(5, -1))
    spec = wrapped(2, volume + container + text(3, "") + number(4, 0) + number(11, 0) + toleration)
    body = envelope("v1", "Pod", metadata("p") + spec + wrapped(3, b""))
    assert read_protobuf(body) == {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": "p", "labels": {"app": "x"}},
        "spec": {
            "volumes": [{"name": "v", "emptyDir": {}}],
            "containers": [
                {
                    "name": "c",
                    "image": "i",
                    "ports": [{"name": "http", "containerPort": 80, "protocol": "TCP"}],
                    "resources": {"requests": {"cpu": "100m"}},
                    "livenessProbe": {
                        "httpGet": {"path": "/", "port": "http"},
                        "initialDelaySeconds": 5,
                    },
                }
            ],
            "terminationGracePeriodSeconds": 0,
            "tolerations": [{"key": "k", "tolerationSeconds": -1}],
        },
        "status": {},
    }


def test_an_object_in_binary_form_is_created() -> None:
    client = Client()
    body = envelope("v1", "ConfigMap", metadata("c") + wrapped(2, text(1, "a") + text(2, "1")))
    path = "/api/v1/namespaces/default/configmaps"
    code, created = client.send("POST", path, body, content_type=PROTOBUF)
    assert code == 201
    assert created["data"] == {"a": "1"}


REFUSED = {
    "no magic": b"x",
    "no content": b"",
    "cut off": envelope("v1", "Pod", wrapped(1, b"abc"))[:-2],
    "an unknown kind": envelope("v9", "Thing", b""),
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED)
def test_malformed_bodies_are_refused(body: bytes) -> None:
    with pytest.raises(MalformedError):
        read_protobuf(body)
    path = "/api/v1/namespaces/default/pods"
    code, status = Client().send("POST", path, body, content_type=PROTOBUF)
    assert (code, status["reason"]) == (400, "BadRequest")


@given(st.binary(max_size=60))
def test_random_bytes_are_decoded_or_refused(content: bytes) -> None:
    try:
        document = read_protobuf(envelope("v1", "Pod", content))
    except MalformedError:
        return
    assert document["kind"] == "Pod"


def decoded(message: bytes, number: int) -> list[Any]:
    return [value for field, value in fields(message) if field == number]


def test_openapi_v2_contains_the_definitions_and_their_references() -> None:
    document = openapi_v2(collect_definitions(["io.k8s.api.core.v1.ConfigMap"]))
    assert decoded(document, 1) == [b"2.0"]
    (definitions,) = decoded(document, 9)
    named = {
        decoded(entry, 1)[0].decode(): decoded(entry, 2)[0] for entry in decoded(definitions, 1)
    }
    assert set(named) >= {
        "io.k8s.api.core.v1.ConfigMap",
        "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta",
    }
    (properties,) = decoded(named["io.k8s.api.core.v1.ConfigMap"], 25)
    names = {decoded(entry, 1)[0].decode() for entry in decoded(properties, 1)}
    assert names == {"apiVersion", "binaryData", "data", "immutable", "kind", "metadata"}


QUANTITY = "io.k8s.apimachinery.pkg.api.resource.Quantity"
TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.Time"
MICRO_TIME = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime"
SAMPLES: dict[str, Any] = {
    QUANTITY: "10m",
    TIME: "2026-11-15T07:43:48Z",
    MICRO_TIME: "2026-11-15T07:43:48.123456Z",
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": "25%",
    "io.k8s.apimachinery.pkg.runtime.RawExtension": {"any": [1]},
    "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1": {"f:a": {}},
    "io.k8s.apimachinery.pkg.apis.meta.v1.Duration": "1m0s",
    f"{CRD}JSON": {"a": None},
    f"{CRD}JSONSchemaPropsOrArray": {"type": "string"},
    f"{CRD}JSONSchemaPropsOrBool": True,
    f"{CRD}JSONSchemaPropsOrStringArray": ["a"],
}
SCALARS = {"s": "text", "i": 7, "b": True, "d": 1.5, "y": "AAEC"}


def sample(name: str, depth: int = 0) -> Any:
    """Return an object with a value in every field, down to recursive types."""
    if name in SAMPLES:
        return SAMPLES[name]
    if name.endswith("ExtraValue"):
        return ["x"]
    document: dict[str, Any] = {}
    for label, form, kind in messages()[name].values():
        if kind not in SCALARS and depth > 5:
            continue
        value = SCALARS[kind] if kind in SCALARS else sample(kind, depth + 1)
        if form == "inline":
            document |= value
        elif form == "map":
            document[label] = {"key": value}
        else:
            document[label] = [value] if form == "list" else value
    return document


@pytest.mark.parametrize(
    "resource",
    [
        each
        for each in Client().store.catalog.all()
        if definition_of(each.group, each.version, each.kind) in messages()
    ],
    ids=lambda each: f"{each.api_version} {each.kind}",
)
def test_encoded_objects_can_be_decoded(resource: Any) -> None:
    name = definition_of(resource.group, resource.version, resource.kind)
    assert name is not None
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    document = {**head, **sample(name)}
    assert read_protobuf(write_protobuf(document)) == document
    # Every encoded field is a published field of the kind.
    assert unknown_fields(resource.group, resource.version, resource.kind, document) == []


def test_a_toleration_without_a_value_has_none() -> None:
    toleration = wrapped(22, text(1, "k") + text(2, "Exists") + text(3, "") + text(4, ""))
    container = wrapped(2, text(1, "c") + text(2, "i"))
    body = envelope("v1", "Pod", metadata("p") + wrapped(2, container + toleration))
    assert read_protobuf(body)["spec"]["tolerations"] == [{"key": "k", "operator": "Exists"}]
    client = Client()
    code, _ = client.send("POST", "/api/v1/namespaces/default/pods", body, content_type=PROTOBUF)
    assert code == 201


def test_a_definition_in_binary_form_is_served() -> None:
    client = Client()
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {"size": {"type": "integer", "default": 1, "minimum": 0}},
                "x-kubernetes-validations": [{"rule": "self.size < 5"}],
            }
        },
    }
    definition = {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    code, made = client.send("POST", path, write_protobuf(definition), content_type=PROTOBUF)
    assert code == 201, made
    assert made["spec"]["versions"][0]["schema"]["openAPIV3Schema"] == schema
    things = "/apis/example.com/v1/namespaces/default/things"
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {}}
    assert client.create(things, thing)["spec"] == {"size": 1}
    thing["metadata"] = {"name": "u"}
    assert client.send("POST", things, {**thing, "spec": {"size": 7}})[0] == 422


def test_clients_that_read_nothing_else_get_the_binary_form() -> None:
    client = Client()
    client.create(
        "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"a": "1"}}
    )
    path = "/api/v1/namespaces/default/configmaps"
    answer: Any = client.ask("GET", f"{path}/c", accept=PROTOBUF)
    assert answer.content_type == PROTOBUF
    assert read_protobuf(answer.body)["data"] == {"a": "1"}
    listed: Any = client.ask("GET", path, accept=PROTOBUF)
    assert listed.body.startswith(b"k8s\0")
    both: Any = client.ask("GET", path, accept=f"{PROTOBUF},application/json")
    assert both.content_type == "application/json"
    assert client.send("GET", path, accept=f"{PROTOBUF};as=Table;g=meta.k8s.io;v=v1")[0] == 406


def test_a_watch_in_binary_form_is_framed() -> None:
    client = Client()
    path = "/api/v1/namespaces/default/configmaps"
    client.create(path, {"metadata": {"name": "c"}})
    stream: Any = client.ask("GET", f"{path}?watch=1", accept=PROTOBUF)
    assert stream.content_type == f"{PROTOBUF};stream=watch"
    frames = stream.encode(stream.watcher.read())
    size = int.from_bytes(frames[:4], "big")
    assert len(frames) == size + 4
    event = dict(fields(frames[4:]))
    assert event[1] == b"ADDED"
    inner: Any = dict(fields(event[2]))[1]  # type: ignore[arg-type]
    assert read_protobuf(inner)["metadata"]["name"] == "c"


def test_schemas_within_schemas_without_end_are_refused() -> None:
    content = b""
    for _ in range(20_000):
        content = wrapped(28, content)
    with pytest.raises(MalformedError):
        read_protobuf(
            envelope(
                "apiextensions.k8s.io/v1",
                "CustomResourceDefinition",
                wrapped(2, wrapped(7, wrapped(4, wrapped(1, content)))),
            )
        )
