"""Hostile requests: the server refuses them, and other requests still work."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from kubesched.api import Deployment, Node, Pod
from kubesched.api.meta import ObjectMeta
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.http import ServedWatch
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.store.custom_resource_definitions import (
    CUSTOM_RESOURCE_DEFINITION,
    serve_stored_definitions,
)
from kubesched.foundation.http.http_messages import JSON, Headers, Query, Request, Response
from kubesched.foundation.util.clock import ManualClock
from tests.hostile_values import INTEGERS, QUANTITIES, TEXTS, documents

DEEP = 5_000
anything = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.sampled_from(INTEGERS),
        st.sampled_from([each for each in QUANTITIES if len(str(each)) < 50]),
        st.sampled_from([each for each in TEXTS if len(each) < 50]),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "metadata", "spec", "name", "$patch", ""]), inner),
    ),
    max_leaves=8,
)
metadata = st.one_of(documents(ObjectMeta), anything)
VERSION: dict[str, Any] = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
}
DEFINITION: dict[str, Any] = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [VERSION],
    },
}


@st.composite
def definitions(draw: Any) -> Any:
    """Return a definition with some of its parts replaced by arbitrary values."""
    spec = dict(DEFINITION["spec"])
    for part in draw(st.lists(st.sampled_from(sorted(spec)), max_size=2)):
        spec[part] = draw(anything)
    names = {**DEFINITION["spec"]["names"]}
    for part in draw(
        st.lists(st.sampled_from(["plural", "kind", "singular", "shortNames", "listKind"]))
    ):
        names[part] = draw(anything)
    if isinstance(spec["names"], dict):
        spec["names"] = names
    group, plural = spec["group"], names.get("plural")
    name = draw(st.sampled_from([f"{plural}.{group}", "widgets.example.com", "x"]))
    return {"metadata": {"name": name}, "spec": spec}


operation = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "", 5]),
        "path": st.sampled_from(
            ["", "/", "/metadata", "/metadata/labels", "/spec", "/spec/-", "/metadata/labels/a", 5]
        ),
        "from": st.sampled_from(["", "/metadata", "/spec", "/nothing", 5, None]),
        "value": anything,
    },
)
BYTES = [
    b"",
    b"\xff\xfe",
    b"null",
    b"[]",
    b"5",
    b'"text"',
    b"{",
    b"{}",
    b'{"metadata":{"name":"\\ud800"}}',
    b"[" * DEEP + b"]" * DEEP,
    b'{"spec":' * DEEP + b"1" + b"}" * DEEP,
    b'{"metadata":{"name":"deep"},"data":' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}",
    b"a: &a [*a]",
    b"a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n",
    b"k8s\x00\n\x02v1",
    b"k8s\x00" + b"\x0a\xff\xff\xff\xff\x0f",
    b'{"metadata":{"name":"p"},"x":1e999}',
    b'{"metadata":{"name":"p"},"x":' + b"9" * 5000 + b"}",
]
bodies = st.one_of(
    st.sampled_from(BYTES),
    st.one_of(documents(Pod), documents(Node), documents(Deployment), definitions(), anything).map(
        lambda each: json.dumps(each).encode()
    ),
    st.fixed_dictionaries({"metadata": metadata, "spec": anything}).map(
        lambda each: json.dumps(each).encode()
    ),
    st.lists(operation, max_size=4).map(lambda each: json.dumps(each).encode()),
)
PATHS = [
    "/api/v1/namespaces/default/pods",
    "/api/v1/namespaces/default/pods/p",
    "/api/v1/namespaces/default/pods/p/status",
    "/api/v1/namespaces/default/pods/p/binding",
    "/api/v1/namespaces/default/pods/p/eviction",
    "/api/v1/nodes",
    "/api/v1/nodes/n",
    "/api/v1/nodes/n/status",
    "/api/v1/namespaces/default/configmaps",
    "/api/v1/namespaces/default/configmaps/c",
    "/api/v1/namespaces/default/events",
    "/apis/apps/v1/namespaces/default/deployments",
    "/apis/apps/v1/namespaces/default/deployments/d/scale",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com",
    "/apis/example.com/v1/namespaces/default/widgets",
    "/apis/example.com/v1/namespaces/default/widgets/w",
    "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    "/apis/authentication.k8s.io/v1/tokenreviews",
    "/apis/coordination.k8s.io/v1/namespaces/default/leases",
    "/apis",
    "/",
    "/api/v1/namespaces/%ff/pods/%00",
    "//api//v1",
]
TYPES = [
    "",
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
    "text/html; a=\x00",
]
queries = st.dictionaries(
    st.sampled_from(
        [
            "limit", "continue", "watch", "resourceVersion", "labelSelector", "fieldSelector",
            "timeoutSeconds", "dryRun", "fieldValidation", "fieldManager", "force",
            "gracePeriodSeconds", "propagationPolicy", "resourceVersionMatch", "sendInitialEvents",
        ]
    ),
    st.sampled_from(
        ["", "1", "-1", "true", "x", "All", "Strict", "a in (b", "a=b,c!=d", "99999999999999999999",
         "!!", "metadata.name=p", "eyJ2Ijox", "NotOlderThan", "Exact", "Foreground", "\ud800"]
    ),
    max_size=3,
)  # fmt: skip


def _request(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes
) -> Request:
    """Build a request past the checks of `Request.of`."""
    fields = Headers(headers.items())
    pairs = Query(query.items())
    return Request(method=method, target=path, path=path, query=pairs, headers=fields, body=body)


requests = st.builds(
    _request,
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "X"]),
    path=st.sampled_from(PATHS),
    query=queries,
    headers=st.fixed_dictionaries(
        {"content-type": st.sampled_from(TYPES)},
        optional={
            "accept": st.sampled_from(["", "application/yaml", "text/html", "a/b;;=", "*/*"]),
            "authorization": st.sampled_from(["Bearer \udcff", "Basic x", "Bearer"]),
        },
    ),
    body=bodies,
)


def service() -> ApiService:
    clock = ManualClock()
    made = ApiService(Store(random.Random(0), now_ns=clock.now_ns()), clock)
    ok = [
        ("/api/v1/nodes", {"metadata": {"name": "n"}}),
        ("/api/v1/namespaces/default/configmaps", {"metadata": {"name": "c"}, "data": {"a": "b"}}),
        (
            "/api/v1/namespaces/default/pods",
            {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        ),
        ("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", DEFINITION),
        ("/apis/example.com/v1/namespaces/default/widgets", {"metadata": {"name": "w"}}),
    ]
    for path, body in ok:
        answer = made.answer(Request.of("POST", path, body=json.dumps(body).encode()))
        assert isinstance(answer, Response)
        assert answer.status == 201, answer.body
    return made


READABLE = [
    "/apis", "/api/v1", "/apis/apps/v1", "/openapi/v3", "/openapi/v2", "/api/v1/pods",
    "/api/v1/nodes",     "/api/v1/configmaps", "/apis/apps/v1/deployments", "/api/v1/namespaces",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
]  # fmt: skip


# Errors of clients for which the reference responds with 500 as well.
KNOWN_FAILURES = (
    b"resourceVersion should not be set",
    b"resourceVersion: Invalid value: ",
    b"field not declared in schema",
    b'"target.name: Required value"',
    b"strconv.Parse",
)


@settings(
    max_examples=300,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(requests, min_size=1, max_size=6))
def test_hostile_requests_are_refused_without_server_errors(asked: list[Request]) -> None:
    server = service()
    for request in asked:
        answer = server.answer(request)
        if isinstance(answer, ServedWatch):
            answer.encode(answer.watcher.read())
        else:
            is_known = any(known in answer.body for known in KNOWN_FAILURES)
            assert answer.status != 500 or is_known, (request, answer)
    for path in READABLE:
        answer = server.answer(Request.of("GET", path))
        assert isinstance(answer, Response)
        assert answer.status == 200, path
    pod = {"metadata": {"name": "q"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    body = json.dumps(pod).encode()
    answer = server.answer(Request.of("POST", "/api/v1/namespaces/default/pods", body=body))
    assert isinstance(answer, Response)
    assert answer.status in (201, 409)
    for record in server.store.collection(server.store.catalog.by_type(Pod)).objects.values():
        assert record.typed.metadata.name


def definition(**parts: Any) -> dict[str, Any]:
    spec = {**DEFINITION["spec"], "names": {**DEFINITION["spec"]["names"]}}
    names = parts.pop("names", {})
    spec |= parts
    spec["names"] |= names
    return {"metadata": {"name": f"{spec['names']['plural']}.{spec['group']}"}, "spec": spec}


UNSERVABLE = {
    "a number as the name of a version": definition(versions=[{**VERSION, "name": 5}]),
    "a path as the name of a version": definition(versions=[{**VERSION, "name": "v1/x"}]),
    "a version without a name": definition(versions=[{**VERSION, "name": ""}]),
    "no version": definition(versions=[]),
    "two versions of one name": definition(versions=[VERSION, {**VERSION, "storage": False}]),
    "a group of the API": definition(group="apps"),
    "another group of the API": definition(group="storage.k8s.io"),
    "no group": definition(group=""),
    "a list as the group": definition(group=["example.com"]),
    "a number as the plural": definition(names={"plural": 5}),
    "a slash in the plural": definition(names={"plural": "a/b"}),
    "a list as the kind": definition(names={"kind": ["Widget"]}),
    "numbers as short names": definition(names={"shortNames": [5]}),
    "an unknown scope": definition(scope="Galaxy"),
    "a text as subresources": definition(versions=[{**VERSION, "subresources": "status"}]),
}


@pytest.mark.parametrize("body", UNSERVABLE.values(), ids=UNSERVABLE)
@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_definition_that_cannot_be_served_is_refused(body: dict[str, Any], method: str) -> None:
    server = service()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    if method == "PUT":
        path += "/widgets.example.com"
        body = {**body, "metadata": {"name": "widgets.example.com"}}
    answer = server.answer(Request.of(method, path, body=json.dumps(body).encode()))
    assert isinstance(answer, Response)
    assert answer.status in (400, 422), answer.body
    for path in (*READABLE, "/apis/example.com/v1/widgets"):
        read = server.answer(Request.of("GET", path))
        assert isinstance(read, Response)
        assert read.status == 200, path


def test_a_stored_definition_that_cannot_be_served_does_not_stop_the_server() -> None:
    server = service()
    store = server.store
    collection = store.collection(CUSTOM_RESOURCE_DEFINITION)
    (record,) = collection.objects.values()
    record.data["spec"]["versions"][0]["name"] = 5
    serve_stored_definitions(store)
    assert server.answer(Request.of("GET", "/api/v1/pods")).status == 200  # type: ignore[union-attr]


def send(server: ApiService, method: str, path: str, body: Any, kind: str = JSON) -> int:
    request = Request.of(
        method, path, headers={"content-type": kind}, body=json.dumps(body).encode()
    )
    answer = server.answer(request)
    assert isinstance(answer, Response)
    return answer.status


MAP = "/api/v1/namespaces/default/configmaps/c"
MERGE_PATCH = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


def test_copies_of_copies_are_refused_before_they_are_made() -> None:
    double = {"op": "copy", "from": "/data", "path": "/data/a"}
    grown = [{"op": "copy", "from": "", "path": f"/metadata/{n}"} for n in range(40)]
    for patch in ([double] * 64, grown):
        assert send(service(), "PATCH", MAP, patch, JSON_PATCH) in (400, 422)


def test_a_patch_has_an_end() -> None:
    many = [{"op": "test", "path": "/data/a", "value": "b"}] * 10_001
    assert send(service(), "PATCH", MAP, many, JSON_PATCH) == 413
    assert send(service(), "PATCH", MAP, many[:-1], JSON_PATCH) == 200


def test_an_apply_cannot_exceed_the_size_limit_of_requests() -> None:
    server = service()
    statuses = {
        send(
            server,
            "PATCH",
            "/apis/example.com/v1/namespaces/default/widgets/w",
            {"data": {str(n): "x" * 500_000}},
            "application/merge-patch+json",
        )
        for n in range(8)
    }
    assert statuses == {200, 413}


@pytest.mark.parametrize("fields", [[5], "x", {"a": 1}, [{"manager": 5}], [{"fieldsV1": []}]])
@pytest.mark.parametrize("path", [MAP, "/apis/example.com/v1/namespaces/default/widgets/w"])
def test_invalid_managed_fields_are_refused(path: str, fields: Any) -> None:
    server = service()
    patch = {"metadata": {"managedFields": fields}}
    assert send(server, "PATCH", path, patch, MERGE_PATCH) == 400
    name = path.rpartition("/")[2]
    body = {"metadata": {"name": name, "managedFields": fields}}
    assert send(server, "PUT", path, body) == 400
    assert send(server, "PATCH", path, {"metadata": {"labels": {"a": "b"}}},
                MERGE_PATCH) == 200  # fmt: skip


POD = "/api/v1/namespaces/default/pods/p"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
TOKEN = "/api/v1/namespaces/default/serviceaccounts/default/token"
TEMPLATE = {
    "metadata": {"labels": {"a": "b"}},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
WRONG_TYPES = [
    ("DELETE", POD, {"preconditions": 5}),
    ("DELETE", POD, {"preconditions": {"uid": 5}}),
    ("DELETE", POD, {"dryRun": 5}),
    ("POST", f"{POD}/eviction", {"deleteOptions": 5}),
    ("POST", f"{POD}/eviction", {"deleteOptions": {"preconditions": 5}}),
    ("POST", ACCESS, {"spec": {"user": "u", "groups": 5}}),
    ("POST", ACCESS, {"spec": {"user": 5}}),
    ("POST", ACCESS, {"spec": {"user": "u", "resourceAttributes": 5}}),
    ("POST", ACCESS, {"spec": {"user": "u", "resourceAttributes": {"verb": {}}}}),
    ("POST", "/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"audiences": 5}}),
    ("POST", TOKEN, {"spec": {"boundObjectRef": 5}}),
    ("POST", TOKEN, {"spec": {"boundObjectRef": {"kind": 5}}}),
    (
        "POST",
        "/apis/apps/v1/namespaces/default/daemonsets",
        {
            "metadata": {"name": "d"},
            "spec": {
                "replicas": {},
                "selector": {"matchLabels": {"a": "b"}},
                "template": TEMPLATE,
            },
        },
    ),
]


@pytest.mark.parametrize(("method", "path", "body"), WRONG_TYPES)
def test_a_field_of_the_wrong_type_is_refused(method: str, path: str, body: Any) -> None:
    server = service()
    serviceaccounts = TOKEN.removesuffix("/default/token")
    send(server, "POST", serviceaccounts, {"metadata": {"name": "default"}})
    # The field `replicas` does not exist in a DaemonSet, and is dropped.
    assert send(server, method, path, body) == (201 if "daemonsets" in path else 400)


@pytest.mark.parametrize("query", ["timeoutSeconds", "limit"])
def test_a_number_beyond_64_bits_is_refused(query: str) -> None:
    answer = service().answer(Request.of("GET", f"/api/v1/pods?watch=true&{query}=" + "9" * 400))
    assert isinstance(answer, Response)
    assert answer.status == 400


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_namespaces_that_the_cluster_needs_are_not_deleted(name: str) -> None:
    server = service()
    send(server, "POST", "/api/v1/namespaces", {"metadata": {"name": name}})
    assert send(server, "DELETE", f"/api/v1/namespaces/{name}", {}) == 403
    assert send(server, "GET", f"/api/v1/namespaces/{name}", {}) == 200
