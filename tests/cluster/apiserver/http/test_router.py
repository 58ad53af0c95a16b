"""Requests to `ApiService` and their responses."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.cluster.apiserver.http import ServedWatch
from kubesched.foundation.http.http_messages import Response
from tests.cluster.apiserver.http.client import Client

PODS = "/api/v1/namespaces/default/pods"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def pod(name: str = "p", **spec: Any) -> dict[str, Any]:
    containers = [{"name": "c", "image": "pause"}]
    return {"metadata": {"name": name}, "spec": {"containers": containers, **spec}}


def deployment(replicas: int = 2) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    return {"metadata": {"name": "web"}, "spec": spec}


class Refusal(NamedTuple):
    method: str
    path: str
    body: Any
    code: int
    message: str


REFUSALS = {
    "a name in the body that is not the one in the path": Refusal(
        "PUT",
        f"{PODS}/p",
        pod("q"),
        400,
        "the name of the object (q) does not match the name on the URL (p)",
    ),
    "a method that a path does not take": Refusal(
        "POST",
        f"{PODS}/p",
        pod(),
        405,
        "the server does not allow this method on the requested resource",
    ),
    "a namespaced object outside of any namespace": Refusal(
        "GET", "/api/v1/pods/p", None, 404, "the server could not find the requested resource"
    ),
    "a cluster-wide resource inside a namespace": Refusal(
        "GET",
        "/api/v1/namespaces/default/nodes",
        None,
        404,
        "the server could not find the requested resource",
    ),
    "a part that pods do not have": Refusal(
        "GET", f"{PODS}/p/scale", None, 404, "the server could not find the requested resource"
    ),
    "a limit that is no number": Refusal(
        "GET", f"{PODS}?limit=x", None, 400, 'strconv.ParseInt: parsing "x": invalid syntax'
    ),
    "a dry run of another kind": Refusal(
        "POST",
        f"{PODS}?dryRun=Some",
        pod("q"),
        422,
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: "Some": supported '
        'values: "All"',
    ),
    "a list from the future": Refusal(
        "GET",
        f"{PODS}?resourceVersion=999",
        None,
        504,
        "Too large resource version: 999, current: 7",
    ),
    "a match without a version": Refusal(
        "GET",
        f"{PODS}?resourceVersionMatch=Exact",
        None,
        422,
        'ListOptions.meta.k8s.io "" is invalid: resourceVersionMatch: Forbidden: '
        "resourceVersionMatch is forbidden unless resourceVersion is provided",
    ),
    "initial events of a list": Refusal(
        "GET",
        f"{PODS}?sendInitialEvents=true",
        None,
        422,
        'ListOptions.meta.k8s.io "" is invalid: sendInitialEvents: Forbidden: sendInitialEvents '
        "is forbidden for list",
    ),
    "a field that a container does not have": Refusal(
        "POST",
        f"{PODS}?fieldValidation=Strict",
        {**pod("q"), "spec": {"containers": [{"name": "c", "image": "i", "imagee": "j"}]}},
        400,
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field '
        '"spec.containers[0].imagee"',
    ),
    "a field that comes twice": Refusal(
        "POST",
        f"{PODS}?fieldValidation=Strict",
        b'{"metadata":{"name":"a","name":"b"}}',
        400,
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: duplicate field '
        '"metadata.name"',
    ),
    "an empty body": Refusal(
        "POST",
        PODS,
        b"",
        400,
        "the object provided is unrecognized (must be of type Pod): couldn't get version/kind; "
        "json parse error: unexpected end of JSON input (<empty>)",
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_refusals(case: Refusal) -> None:
    client = Client()
    client.create(PODS, pod())
    code, body = client.send(case.method, case.path, case.body)
    assert (code, body["message"]) == (case.code, case.message)
    assert (body["kind"], body["status"], body["code"]) == ("Status", "Failure", case.code)


def test_unknown_fields_are_warned_about_and_can_be_ignored() -> None:
    client = Client()
    answer = client.ask("POST", PODS, {**pod(), "nope": 1})
    assert isinstance(answer, Response)
    assert answer.headers == {"Warning": '299 - "unknown field \\"nope\\""'}
    quiet = client.ask("POST", f"{PODS}?fieldValidation=Ignore", {**pod("q"), "nope": 1})
    assert isinstance(quiet, Response)
    assert quiet.headers == {}


def test_a_real_pod_has_no_unknown_fields() -> None:
    probe = {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 5}
    container = {
        "name": "c",
        "image": "i",
        "livenessProbe": probe,
        "securityContext": {"runAsNonRoot": True, "capabilities": {"drop": ["ALL"]}},
        "envFrom": [{"configMapRef": {"name": "x"}}],
        "lifecycle": {"preStop": {"exec": {"command": ["true"]}}},
    }
    body = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
    code, created = Client().send("POST", f"{PODS}?fieldValidation=Strict", body)
    assert code == 201
    assert created["spec"]["containers"][0]["livenessProbe"]["httpGet"]["port"] == "http"


def test_bodies_can_be_yaml() -> None:
    client = Client()
    text = b"metadata: {name: p}\nspec:\n  containers: [{name: c, image: i}]\n"
    answer = client.ask(
        "POST", PODS, text, content_type="application/yaml", accept="application/yaml"
    )
    assert isinstance(answer, Response)
    assert (answer.status, answer.content_type) == (201, "application/yaml")
    assert b"\nspec:\n" in answer.body


def test_a_scale_is_read_and_changed() -> None:
    client = Client()
    client.create(DEPLOYMENTS, deployment())
    scale = client.get(f"{DEPLOYMENTS}/web/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert scale["spec"] == {"replicas": 2}
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    patch = {"spec": {"replicas": 5}}
    code, patched = client.send("PATCH", f"{DEPLOYMENTS}/web/scale", patch, content_type=MERGE)
    assert (code, patched["spec"]["replicas"]) == (200, 5)
    assert client.get(f"{DEPLOYMENTS}/web")["spec"]["replicas"] == 5
    code, stale = client.send("PUT", f"{DEPLOYMENTS}/web/scale", scale)
    assert (code, stale["reason"]) == (409, "Conflict")


def test_an_eviction_deletes_unless_a_budget_is_used_up() -> None:
    client = Client()
    labelled = pod()
    labelled["metadata"]["labels"] = {"app": "web"}
    client.create(PODS, labelled)
    running = {"status": {"phase": "Running"}}
    client.send("PATCH", f"{PODS}/p/status", running, content_type=MERGE)
    budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    client.create(budgets, {"metadata": {"name": "b"}, "spec": spec})
    status = {"status": {"disruptionsAllowed": 0, "observedGeneration": 1}}
    client.send("PATCH", f"{budgets}/b/status", status, content_type=MERGE)
    eviction = {"kind": "Eviction", "apiVersion": "policy/v1", "metadata": {"name": "p"}}
    code, refusal = client.send("POST", f"{PODS}/p/eviction", eviction)
    assert code == 429
    assert refusal["message"] == (
        "Cannot evict pod as it would violate the pod's disruption budget."
    )
    client.send("DELETE", f"{budgets}/b")
    assert client.send("POST", f"{PODS}/p/eviction", eviction)[0] == 201
    assert client.send("GET", f"{PODS}/p")[0] == 404


def test_a_completed_deletion_returns_a_status() -> None:
    client = Client()
    created = client.create(DEPLOYMENTS, deployment())
    code, body = client.send("DELETE", f"{DEPLOYMENTS}/web")
    assert code == 200
    assert body == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {
            "name": "web",
            "group": "apps",
            "kind": "deployments",
            "uid": created["metadata"]["uid"],
        },
    }


WIDGETS = {
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"]},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
HOME = "/apis/example.com/v1/namespaces/default/widgets"


def test_a_definition_makes_a_custom_resource() -> None:
    client = Client()
    created = client.create(DEFINITIONS, WIDGETS)
    held = {each["type"]: each["status"] for each in created["status"]["conditions"]}
    assert held == {"NamesAccepted": "True", "Established": "True"}
    widget = {"metadata": {"name": "w"}, "spec": {"any": ["thing", None]}, "status": {"x": 1}}
    stored = client.create(HOME, widget)
    assert stored["apiVersion"] == "example.com/v1"
    assert stored["spec"] == {"any": ["thing", None]}
    assert "status" not in stored
    discovered = client.get("/apis/example.com/v1")["resources"]
    assert discovered[0]["shortNames"] == ["wd"]
    assert client.get("/openapi/v3/apis/example.com/v1")["paths"]
    listed = client.get(HOME)
    assert (listed["kind"], listed["items"][0]["kind"]) == ("WidgetList", "Widget")
    table = client.get(HOME, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Age"]


def test_custom_resources_go_with_their_definition() -> None:
    client = Client()
    client.create(DEFINITIONS, WIDGETS)
    client.create(HOME, {"metadata": {"name": "w"}})
    assert client.send("DELETE", f"{DEFINITIONS}/widgets.example.com")[0] == 200
    assert client.send("GET", HOME) == (404, "404 page not found\n")


def test_the_first_table_of_a_watch_defines_its_columns() -> None:
    client = Client()
    for name in ("a", "b"):
        client.create(PODS, pod(name))
    first, second = client.watch(f"{PODS}?watch=1", accept=TABLE)
    assert first["object"]["kind"] == "Table"
    assert [each["name"] for each in first["object"]["columnDefinitions"]][:2] == ["Name", "Ready"]
    assert second["object"]["columnDefinitions"] is None
    assert second["object"]["rows"][0]["cells"][:3] == ["b", "0/1", "Pending"]


def test_rows_contain_the_requested_object() -> None:
    client = Client()
    client.create(PODS, pod())
    whole = client.get(f"{PODS}?includeObject=Object", accept=TABLE)
    assert whole["rows"][0]["object"]["kind"] == "Pod"
    bare = client.get(f"{PODS}?includeObject=None", accept=TABLE)
    assert "object" not in bare["rows"][0]


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(path: str) -> None:
    client = Client()
    assert client.send("GET", path) == (200, "ok")
    assert client.send("GET", f"{path}?verbose")[1].endswith(f"{path[1:]} check passed\n")


def test_openapi_lists_the_parameters_of_patches() -> None:
    client = Client()
    index = client.get("/openapi/v3")["paths"]
    assert "api/v1" in index
    document = client.get(index["apis/apps/v1"]["serverRelativeURL"])
    path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}"
    patch = document["paths"][path]["patch"]
    assert "fieldValidation" in [each["name"] for each in patch["parameters"]]
    assert patch["x-kubernetes-group-version-kind"]["kind"] == "Deployment"
    schemas = document["components"]["schemas"]
    assert "io.k8s.api.core.v1.PodSpec" in schemas
    text = json.dumps(schemas)
    for reference in set(text.split('"#/components/schemas/')[1:]):
        assert reference.partition('"')[0] in schemas


METHODS = st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"])
SEGMENTS = st.sampled_from(
    ["api", "apis", "v1", "apps", "namespaces", "default", "pods", "p", "nodes", "status",
     "binding", "scale", "eviction", "deployments", "", "%2F", "openapi", "v3", "watch"]
)  # fmt: skip
VALUES: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "status", "name", "containers", "labels", "replicas", "target"]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
BODIES = st.binary(max_size=20) | VALUES.map(lambda value: json.dumps(value).encode())
TYPES = st.sampled_from(
    ["application/json", "application/yaml", "text/x", "application/json-patch+json", MERGE,
     "application/strategic-merge-patch+json", "application/apply-patch+yaml"]
)  # fmt: skip
QUERIES = st.sampled_from(
    ["", "?watch=1", "?limit=-1", "?continue=x", "?fieldSelector=a", "?labelSelector=!",
     "?fieldValidation=Strict", "?resourceVersion=x", "?dryRun=All", "?fieldManager=me&force=1"]
)  # fmt: skip


@given(METHODS, st.lists(SEGMENTS, max_size=7), QUERIES, BODIES, TYPES)
def test_no_request_stops_the_service(
    method: str, parts: list[str], query: str, body: bytes, content_type: str
) -> None:
    client = Client()
    client.create(PODS, pod())
    path = "/" + "/".join(parts) + query
    answer = client.ask(method, path, body, content_type=content_type)
    assert isinstance(answer, ServedWatch) or 200 <= answer.status < 600
    client.store.check_invariants()


def test_json_ends_with_the_end_of_a_line() -> None:
    """Clients compare the texts of errors, as the official Python client's own tests do."""
    client = Client()
    path = "/api/v1/namespaces/default/configmaps"
    body = {"metadata": {"name": "a"}}
    asked = (("POST", path, body), ("POST", path, body), ("GET", path, None), ("GET", "/api", None))
    for method, where, sent in asked:
        answer = client.ask(method, where, sent)
        assert isinstance(answer, Response)
        assert answer.body.endswith(b"}\n"), (method, where)
