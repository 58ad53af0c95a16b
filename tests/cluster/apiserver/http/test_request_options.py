"""Options of requests that the server refuses or honors as the reference does."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import pytest

from kubesched.cluster.apiserver.http import ServedWatch
from kubesched.foundation.http.http_messages import Response
from tests.cluster.apiserver.http.client import Client

MAPS = "/api/v1/namespaces/default/configmaps"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
AGGREGATED = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"


class Refusal(NamedTuple):
    method: str
    path: str
    code: int
    message: str
    body: Any = None
    headers: dict[str, str] = {}


def patched(content_type: str, body: Any, code: int, message: str, query: str = "") -> Refusal:
    return Refusal("PATCH", f"{MAPS}/a{query}", code, message, body, {"content_type": content_type})


REFUSALS = {
    "a deletion in all namespaces": Refusal(
        "DELETE",
        "/api/v1/configmaps",
        405,
        "the server does not allow this method on the requested resource",
    ),
    "a creation in no namespace": Refusal(
        "POST",
        "/api/v1/configmaps",
        405,
        "the server does not allow this method on the requested resource",
        {"metadata": {"name": "b"}},
    ),
    "a version with a continue token": Refusal(
        "GET",
        f"{MAPS}?limit=1&resourceVersion=1&continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MX0",
        400,
        "specifying resource version is not allowed when using continue",
    ),
    "an object at a version of the future": Refusal(
        "GET", f"{MAPS}/a?resourceVersion=1000", 504, "Too large resource version: 1000, current: "
    ),
    "rows with unknown contents": Refusal(
        "GET",
        f"{MAPS}?includeObject=Half",
        400,
        "Unable to convert to Table as requested: includeObject: Unsupported value: "
        '"Half": supported values: "None", "Metadata", "Object", ""',
        headers={"accept": TABLE},
    ),
    "an unknown propagation": Refusal(
        "DELETE",
        f"{MAPS}/a",
        422,
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Unsupported value: "Some": '
        'supported values: "Foreground", "Background", "Orphan", "nil"',
        {"propagationPolicy": "Some"},
    ),
    "two propagations": Refusal(
        "DELETE",
        f"{MAPS}/a",
        422,
        'DeleteOptions.meta.k8s.io "" is invalid: propagationPolicy: Invalid value: "Orphan": '
        "orphanDependents and deletionPropagation cannot be both set",
        {"propagationPolicy": "Orphan", "orphanDependents": True},
    ),
    "a JSON patch that is an object": patched(
        JSON_PATCH,
        {"op": "add"},
        400,
        "json: cannot unmarshal object into Go value of type jsonpatch.Patch",
    ),
    "a JSON patch with too many operations": patched(
        JSON_PATCH,
        [{"op": "test", "path": "/metadata/name", "value": "a"}] * 10_001,
        413,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, "
        "got 10001",
    ),
    "a merge patch that is a list": patched(
        MERGE_PATCH,
        [],
        400,
        "error decoding patch: json: cannot unmarshal array into Go value of type "
        "map[string]interface {}",
    ),
    "a strategic patch that is a text": patched(
        STRATEGIC_PATCH,
        "x",
        400,
        "json: cannot unmarshal string into Go value of type map[string]interface {}",
    ),
    "force without an apply": patched(
        MERGE_PATCH,
        {"data": {"x": "1"}},
        422,
        'PatchOptions.meta.k8s.io "" is invalid: force: Forbidden: may not be specified for '
        "non-apply patch",
        "?force=true",
    ),
}


REVIEWS = "/apis/authorization.k8s.io/v1"
PODS = {"verb": "get", "resource": "pods", "namespace": "other"}
REFUSALS |= {
    "a review of nothing": Refusal(
        "POST",
        f"{REVIEWS}/selfsubjectaccessreviews",
        422,
        'SelfSubjectAccessReview.authorization.k8s.io "" is invalid: spec.resourceAttributes: '
        "Invalid value: null: exactly one of nonResourceAttributes or resourceAttributes must be "
        "specified",
        {"spec": {}},
    ),
    "a review of nobody": Refusal(
        "POST",
        f"{REVIEWS}/subjectaccessreviews",
        422,
        'SubjectAccessReview.authorization.k8s.io "" is invalid: spec.user: Invalid value: "": at '
        "least one of user or group must be specified",
        {"spec": {"resourceAttributes": PODS}},
    ),
    "a review of another namespace": Refusal(
        "POST",
        f"{REVIEWS}/namespaces/default/localsubjectaccessreviews",
        422,
        'LocalSubjectAccessReview.authorization.k8s.io "" is invalid: '
        'spec.resourceAttributes.namespace: Invalid value: "other": must match metadata.namespace',
        {
            "metadata": {"namespace": "default"},
            "spec": {"user": "u", "resourceAttributes": PODS},
        },
    ),
    "a token for a config map": Refusal(
        "POST",
        "/api/v1/namespaces/default/serviceaccounts/sa/token",
        400,
        "cannot bind token to object of type /v1, Kind=ConfigMap",
        {"spec": {"boundObjectRef": {"apiVersion": "v1", "kind": "ConfigMap", "name": "a"}}},
    ),
}


@pytest.mark.parametrize("case", REFUSALS.values(), ids=REFUSALS)
def test_refused_options(case: Refusal) -> None:
    client = Client()
    before = client.create(MAPS, {"metadata": {"name": "a"}})
    client.create("/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "sa"}})
    code, refusal = client.send(case.method, case.path, case.body, **case.headers)
    assert code == case.code, refusal
    assert refusal["message"].startswith(case.message)
    assert client.get(f"{MAPS}/a") == before


def test_only_lists_and_watches_of_custom_resources_extend_over_all_namespaces() -> None:
    client = Client()
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    definition = {
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    thing = {"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}}
    client.create("/apis/example.com/v1/namespaces/default/things", thing)
    everywhere = "/apis/example.com/v1/things"
    for method, body in (("DELETE", None), ("POST", thing)):
        assert client.send(method, everywhere, body)[0] == 404
    assert len(client.get(everywhere)["items"]) == 1


def test_a_limit_makes_a_version_exact() -> None:
    client = Client()
    for name in ("a", "b"):
        version = client.create(MAPS, {"metadata": {"name": name}})["metadata"]["resourceVersion"]
    client.create(MAPS, {"metadata": {"name": "c"}})
    limited = client.get(f"{MAPS}?resourceVersion={version}&limit=500")
    assert [each["metadata"]["name"] for each in limited["items"]] == ["a", "b"]
    assert limited["metadata"]["resourceVersion"] == version
    newer = client.get(f"{MAPS}?resourceVersion={version}")
    assert [each["metadata"]["name"] for each in newer["items"]] == ["a", "b", "c"]


WATCHED = {
    "/api/v1/watch/namespaces/default/configmaps": ["a", "b"],
    "/api/v1/watch/namespaces/default/configmaps/b": ["b"],
    "/api/v1/watch/configmaps?labelSelector=x%3D1": ["b"],
}


@pytest.mark.parametrize(("path", "names"), WATCHED.items())
def test_watches_by_path(path: str, names: list[str]) -> None:
    client = Client()
    client.create(MAPS, {"metadata": {"name": "a"}})
    client.create(MAPS, {"metadata": {"name": "b", "labels": {"x": "1"}}})
    events = client.watch(path)
    assert [each["object"]["metadata"]["name"] for each in events] == names


def test_a_resource_may_be_called_watch() -> None:
    """`watch` is a prefix only before another part of the path."""
    client = Client()
    client.create("/api/v1/namespaces", {"metadata": {"name": "watch"}})
    assert client.get("/api/v1/namespaces/watch")["metadata"]["name"] == "watch"
    assert not isinstance(client.ask("GET", "/api/v1/watch"), ServedWatch)


@pytest.mark.parametrize("path", ["/api", "/apis"])
def test_clients_cache_aggregated_discovery_by_its_tag(path: str) -> None:
    client = Client()
    first = client.ask("GET", path, accept=AGGREGATED)
    assert isinstance(first, Response)
    assert first.status == 200
    tag = first.headers["ETag"]
    again = client.ask("GET", path, accept=AGGREGATED, if_none_match=tag)
    assert isinstance(again, Response)
    assert (again.status, again.body, again.headers["ETag"]) == (304, b"", tag)
    other = client.ask("GET", path, accept=AGGREGATED, if_none_match='"other"')
    assert isinstance(other, Response)
    assert json.loads(other.body)["kind"] == "APIGroupDiscoveryList"
