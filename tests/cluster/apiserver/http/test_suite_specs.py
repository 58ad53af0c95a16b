"""The requests of specs in the official end-to-end test suite, step by step."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubesched.foundation.http.http_messages import Response
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]
APPLY = "application/apply-patch+yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PORTS = {
    "type": "array",
    "x-kubernetes-list-map-keys": ["containerPort", "protocol"],
    "x-kubernetes-list-type": "map",
    "items": {
        "type": "object",
        "required": ["containerPort", "protocol"],
        "properties": {
            "containerPort": {"type": "integer", "format": "int32"},
            "name": {"type": "string"},
            "protocol": {"type": "string"},
        },
    },
}


def served(client: Client, spec: Json, *versions: str) -> str:
    """Define a cluster-scoped resource with this spec and return its path."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    body = {
        "metadata": {"name": "noxus.mygroup.example.com"},
        "spec": {
            "group": "mygroup.example.com",
            "scope": "Cluster",
            "names": {"plural": "noxus", "kind": "Noxu", "listKind": "NoxuItemList"},
            "versions": [
                {"name": each, "served": True, "storage": index == 0, "schema": schema}
                for index, each in enumerate(versions or ("v1beta1", "v1beta2"))
            ],
        },
    }
    client.create(DEFINITIONS, body)
    return "/apis/mygroup.example.com/v1beta1/noxus/mytest"


def applied(client: Client, path: str, text: str, **query: str) -> tuple[int, Json]:
    asked = "&".join(f"{key}={value}" for key, value in {"fieldManager": "m", **query}.items())
    return client.send("PATCH", f"{path}?{asked}", text.encode(), content_type=APPLY)


NOXU = """
apiVersion: mygroup.example.com/v1beta1
kind: Noxu
metadata:
  name: mytest
  finalizers:
  - test-finalizer
"""
SPEC = """
spec:
  foo: foo1
  ports:
  - name: x
    containerPort: 80
    protocol: TCP
"""
FOO = {"foo": {"type": "string"}, "ports": PORTS}


def test_an_applied_field_must_be_declared() -> None:
    client = Client()
    path = served(client, {"type": "object", "properties": FOO})
    assert applied(client, path, NOXU + SPEC, fieldValidation="Strict")[0] == 201
    text = NOXU + "unknownField: unknown" + SPEC
    code, answer = applied(client, path, text, fieldValidation="Strict")
    assert code == 500
    assert ".unknownField: field not declared in schema" in answer["message"]


def test_metadata_of_embedded_objects_must_be_declared() -> None:
    client = Client()
    template = {"type": "object", "x-kubernetes-embedded-resource": True, "properties": {}}
    spec = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {**FOO, "template": template},
    }
    path = served(client, spec)
    text = NOXU.replace("  finalizers", "  unknownMeta: unknown\n  finalizers") + SPEC
    code, answer = applied(client, path, text, fieldValidation="Strict")
    assert code == 500
    assert ".metadata.unknownMeta: field not declared in schema" in answer["message"]


def test_a_repeated_key_is_named_with_its_line() -> None:
    client = Client()
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": FOO}
    path = served(client, spec)
    text = NOXU + "spec:\n  unknown: uk1\n  foo: foo1\n  foo: foo2\n"
    code, answer = applied(client, path, text, fieldValidation="Strict")
    assert code == 400
    assert 'line 11: key "foo" already set in map' in answer["message"]
    warned = client.ask("PATCH", f"{path}?fieldManager=m", text.encode(), content_type=APPLY)
    assert isinstance(warned, Response)
    assert "already set in map" in warned.headers["Warning"]


def test_bodies_in_go_have_tabs_and_trailing_commas() -> None:
    client = Client()
    text = """{
\t\t"apiVersion": "apps/v1",
\t\t"kind": "Deployment",
\t\t"metadata": {"name": "d"},
\t\t"spec": {
\t\t\t"selector": {"matchLabels": {"app": "nginx"}},
\t\t\t"template": {
\t\t\t\t"metadata": {"labels": {"app": "nginx"}},
\t\t\t\t"spec": {
\t\t\t\t\t"containers": [{
\t\t\t\t\t\t"name":  "nginx",
\t\t\t\t\t\t"image": "nginx",
\t\t\t\t\t}]
\t\t\t\t}
\t\t\t}
\t\t}
\t}"""
    code, answer = applied(client, "/apis/apps/v1/namespaces/default/deployments/d", text)
    assert code == 201, answer


def test_owned_fields_are_written_as_the_suite_compares_them() -> None:
    client = Client()
    pods = "/api/v1/namespaces/default/pods/test-pod"
    body = json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "test-pod"},
            "spec": {"containers": [{"name": "test-container", "image": "test-image"}]},
        }
    )
    applied(client, pods, body, fieldManager="apply_test")
    _, answer = applied(client, pods, body, fieldManager="apply_test_2")
    wanted = (
        '{"f:spec":{"f:containers":{"k:{\\"name\\":\\"test-container\\"}":'
        '{".":{},"f:image":{},"f:name":{}}}}}'
    )
    entries = answer["metadata"]["managedFields"]
    assert {entry["manager"] for entry in entries} >= {"apply_test", "apply_test_2"}
    for entry in entries:
        assert json.dumps(entry["fieldsV1"], separators=(",", ":")) == wanted


def test_a_json_patch_can_write_into_an_absent_status() -> None:
    client = Client()
    claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"
    client.create(claims, {"metadata": {"name": "c"}, "spec": {"devices": {}}})
    patch = [{"op": "add", "path": "/status/allocation", "value": {}}]
    code, answer = client.send(
        "PATCH", f"{claims}/c/status", patch, content_type="application/json-patch+json"
    )
    assert (code, answer["status"]) == (200, {"allocation": {}})


def test_events_are_found_by_their_source() -> None:
    client = Client()
    events = "/api/v1/namespaces/default/events"
    regarding = {"namespace": "default", "kind": "Pod", "name": "p"}
    for name in ("one", "two"):
        event = {"metadata": {"name": name}, "involvedObject": regarding, "reason": "R"}
        client.create(events, {**event, "message": "m", "source": {"component": name}})
    found = client.get(f"{events}?fieldSelector=source%3Done")
    assert [each["metadata"]["name"] for each in found["items"]] == ["one"]


def test_unknown_fields_come_before_repeated_ones() -> None:
    body = (
        b'{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{'
        b'"unknownField":"foo","replicas":2,"replicas":3,"selector":{"matchLabels":{"a":"b"}},'
        b'"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}'
    )
    path = "/apis/apps/v1/namespaces/default/deployments?fieldValidation=Strict"
    code, answer = Client().send("POST", path, body)
    assert code == 400
    assert (
        'strict decoding error: unknown field "spec.unknownField", duplicate field "spec.replicas"'
        in answer["message"]
    )


def empties(value: Any, path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the paths of empty lists and maps, which a Go client would omit."""
    # An empty schema is valid: it accepts any value.
    is_schema = path[-1:] in (("items",), ("additionalProperties",)) or path[-2:-1] in (
        ("schemas",),
        ("properties",),
    )
    found = [path] if value in ({}, []) and not is_schema else []
    if isinstance(value, dict):
        found += [each for key, part in value.items() for each in empties(part, (*path, key))]
    elif isinstance(value, list):
        found += [each for part in value for each in empties(part, (*path, "[]"))]
    return found


def test_openapi_documents_survive_being_read_and_written() -> None:
    client = Client()
    paths = client.get("/openapi/v3")["paths"]
    assert len(paths) > 25
    for name, entry in paths.items():
        url = entry["serverRelativeURL"]
        assert url.startswith(f"/openapi/v3/{name}?hash=")
        document = client.get(url)
        assert empties(document) == [], name
        text = json.dumps(document)
        for reference in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
            assert reference in document["components"]["schemas"], (name, reference)


def test_the_openapi_index_follows_definitions() -> None:
    client = Client()
    before = client.get("/openapi/v3")["paths"]
    path = served(client, {"type": "object", "properties": FOO})
    after = client.get("/openapi/v3")["paths"]
    new = "apis/mygroup.example.com/v1beta1"
    assert new not in before
    assert new in after
    assert before["apis/apps/v1"] == after["apis/apps/v1"]
    document = client.get(after[new]["serverRelativeURL"])
    assert "com.example.mygroup.v1beta1.Noxu" in document["components"]["schemas"]
    client.send("DELETE", f"{DEFINITIONS}/noxus.mygroup.example.com")
    assert new not in client.get("/openapi/v3")["paths"]
    assert path


def test_openapi_2_is_sent_once() -> None:
    client = Client()
    first: Any = client.ask("GET", "/openapi/v2")
    tag = first.headers["ETag"]
    again: Any = client.ask("GET", "/openapi/v2", if_none_match=tag)
    assert (again.status, again.body) == (304, b"")
    served(client, {"type": "object", "properties": FOO})
    changed: Any = client.ask("GET", "/openapi/v2", if_none_match=tag)
    assert changed.status == 200
    assert "com.example.mygroup.v1beta1.Noxu" in json.loads(changed.body)["definitions"]


@pytest.mark.parametrize(
    ("group", "version", "resource"),
    [
        ("", "v1", "namespaces"),
        ("admissionregistration.k8s.io", "v1", "validatingwebhookconfigurations"),
        ("apiextensions.k8s.io", "v1", "customresourcedefinitions"),
        ("apiregistration.k8s.io", "v1", "apiservices"),
        ("autoscaling", "v1", "horizontalpodautoscalers"),
        ("autoscaling", "v2", "horizontalpodautoscalers"),
        ("certificates.k8s.io", "v1", "certificatesigningrequests"),
        ("discovery.k8s.io", "v1", "endpointslices"),
        ("networking.k8s.io", "v1", "ingresses"),
        ("node.k8s.io", "v1", "runtimeclasses"),
    ],
)
def test_resources_that_the_suite_requires_are_discovered(
    group: str, version: str, resource: str
) -> None:
    client = Client()
    base = f"/apis/{group}/{version}" if group else f"/api/{version}"
    listed = client.get(base)
    assert listed["groupVersion"] == (f"{group}/{version}" if group else version)
    assert resource in {each["name"] for each in listed["resources"]}
    if group:
        found = client.get(f"/apis/{group}/")
        assert found["preferredVersion"] in found["versions"]
