"""Bodies in Kubernetes' binary form, written out field by field, and what they say."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.apiserver.http.protobuf import openapi_v2, read_protobuf
from kubesched.apiserver.http.protobuf.encoding import (
    MalformedError,
    fields,
    text,
    varint,
    wrapped,
)
from kubesched.apiserver.rules.schema import referenced
from tests.apiserver.http.client import Client

PROTOBUF = "application/vnd.kubernetes.protobuf"


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value & (1 << 64) - 1)


def envelope(api_version: str, kind: str, content: bytes) -> bytes:
    head = wrapped(1, text(1, api_version) + text(2, kind))
    return b"k8s\0" + head + wrapped(2, content)


def metadata(name: str) -> bytes:
    # A typed client writes empty fields too: generateName, namespace, a time of zero.
    empty_time = wrapped(8, number(1, 0) + number(2, 0))
    labels = wrapped(11, text(1, "app") + text(2, "x"))
    return wrapped(1, text(1, name) + text(2, "") + text(3, "") + empty_time + labels)


def test_a_pod_is_read_with_what_its_types_inline() -> None:
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
def test_what_cannot_be_read_is_refused(body: bytes) -> None:
    with pytest.raises(MalformedError):
        read_protobuf(body)
    path = "/api/v1/namespaces/default/pods"
    code, status = Client().send("POST", path, body, content_type=PROTOBUF)
    assert (code, status["reason"]) == (400, "BadRequest")


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused(content: bytes) -> None:
    try:
        document = read_protobuf(envelope("v1", "Pod", content))
    except MalformedError:
        return
    assert document["kind"] == "Pod"


def decoded(message: bytes, number: int) -> list[Any]:
    return [value for field, value in fields(message) if field == number]


def test_openapi_v2_holds_the_definitions_and_what_they_need() -> None:
    document = openapi_v2(referenced(["io.k8s.api.core.v1.ConfigMap"]))
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
