"""Arbitrary JSON in any request: the response is an error or an object, never a 500."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.fuzz.effort import effort
from tests.fuzz.service import JSON, KINDS, TABLE, Service
from tests.hostile_values import INTEGERS, TEXTS, documents

LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.sampled_from(INTEGERS),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(TEXTS),
    st.text(max_size=8),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "status", "name", "containers", "labels", "$patch"]
            )
            | st.text(max_size=6),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)
POD = {
    "metadata": {"name": "p", "labels": {"a": "b"}, "finalizers": ["x/y"]},
    "spec": {
        "containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80}]}],
        "tolerations": [{"key": "k", "operator": "Exists"}],
    },
}
PATCHES = {
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "json": "application/json-patch+json",
    "apply": "application/apply-patch+yaml",
}


def named(document: Any) -> Any:
    if not isinstance(document, dict):
        return document
    metadata = document.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    metadata.setdefault("name", "x")
    metadata["namespace"] = "default"
    return {**document, "metadata": metadata}


@pytest.mark.parametrize("kind", KINDS)
@effort(6)
@given(data=st.data())
def test_objects_of_every_kind(kind: str, data: st.DataObject) -> None:
    resource, service = KINDS[kind], Service()
    assert resource.type is not None
    made = named(data.draw(documents(resource.type)))
    if not resource.namespaced:
        made["metadata"].pop("namespace")
    status, answer = service.ask("POST", service.path(resource), made)
    for accept in (JSON, TABLE):
        service.ask("GET", service.path(resource), accept=accept)
    if status != 201:
        return
    name = answer["metadata"]["name"]
    changed = data.draw(documents(resource.type))
    for subresource in ("", "status"):
        path = service.path(resource, name, subresource)
        service.ask("PATCH", path, changed, content_type=PATCHES["merge"])
        service.ask("PUT", path, {**answer, **changed, "metadata": answer["metadata"]})
        service.ask("GET", path, accept=TABLE)
    service.ask("GET", service.path(resource), query={"watch": "1", "resourceVersion": "1"})
    service.ask("DELETE", service.path(resource, name), data.draw(ANYTHING))


OPERATIONS = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "x", 5, None]),
        "path": st.sampled_from(
            [
                *(
                    "",
                    "/",
                    "/spec",
                    "/spec/containers/0",
                    "/spec/containers/-",
                    "/spec/containers/9",
                ),
                "/metadata/labels/a~1b",
                "/metadata",
                "/metadata/finalizers/0",
                "spec",
                "/~2",
                "/spec/containers/01",
                "/spec/containers/²",
                "/spec/containers/-1",
                5,
                None,
            ]
        ),
        "from": st.sampled_from(["", "/spec", "/metadata/labels", "/nope", 5, None, "x"]),
        "value": ANYTHING,
    },
)


@effort(60)
@given(patch=st.lists(OPERATIONS, max_size=4) | ANYTHING)
@example(patch=None)
@example(patch=5)
@example(patch="")
@example(patch=[None])
@example(patch=[{"op": "replace", "path": "", "value": None}])
@example(patch=[{"op": "add", "path": "/spec/containers/²", "value": 1}])
def test_json_patches(patch: Any) -> None:
    service = Service()
    path = service.path(KINDS["Pod"])
    service.ask("POST", path, POD)
    service.ask("PATCH", f"{path}/p", patch, content_type=PATCHES["json"])
    service.ask("GET", f"{path}/p", accept=TABLE)


STRATEGIC = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "metadata",
                    "spec",
                    "status",
                    "name",
                    "containers",
                    "ports",
                    "finalizers",
                    "labels",
                    "containerPort",
                    "$patch",
                    "$retainKeys",
                    "tolerations",
                    "env",
                    "$setElementOrder/containers",
                    "$deleteFromPrimitiveList/finalizers",
                    "$setElementOrder/finalizers",
                    "conditions",
                    "type",
                    "image",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@pytest.mark.parametrize("form", ["merge", "strategic", "apply"])
@effort(60)
@given(patch=STRATEGIC | ANYTHING)
@example(patch={"spec": {"$setElementOrder/containers": 5, "containers": [{"name": "c"}]}})
@example(patch={"spec": {"containers": [{"name": ["c"]}]}})
@example(patch={"spec": {"containers": [{"name": "c", "$patch": "delete"}, {"name": {}}]}})
@example(patch={"metadata": {"$deleteFromPrimitiveList/finalizers": 5}})
@example(patch={"metadata": {"finalizers": [{}, []]}})
@example(patch={"spec": {"$retainKeys": 5}})
@example(patch={"$patch": "replace"})
def test_other_patches(form: str, patch: Any) -> None:
    service = Service()
    path = service.path(KINDS["Pod"])
    service.ask("POST", path, POD)
    if form == "apply" and isinstance(patch, dict):
        patch = {"apiVersion": "v1", "kind": "Pod", **patch}
    query = {"fieldManager": "f", "force": "true"}
    for subresource in ("", "/status"):
        service.ask(
            "PATCH", f"{path}/p{subresource}", patch, content_type=PATCHES[form], query=query
        )
    service.ask("GET", f"{path}/p", accept=TABLE)


SELECTORS = st.text(alphabet="abk/.=!,() inot<>0\u00e9\\", max_size=24) | st.sampled_from(
    ["a in (b", "a notin ()", "!", "a=b=c", "metadata.name=x,", "a\\", "spec.nodeName!=", ","]
)


@effort(80)
@given(
    query=st.dictionaries(
        st.sampled_from(
            [
                "labelSelector",
                "fieldSelector",
                "limit",
                "continue",
                "resourceVersion",
                "resourceVersionMatch",
                "timeoutSeconds",
                "watch",
                "sendInitialEvents",
                "allowWatchBookmarks",
                "dryRun",
                "fieldValidation",
                "fieldManager",
                "force",
                "propagationPolicy",
                "gracePeriodSeconds",
                "pretty",
                "includeObject",
            ]
        ),
        SELECTORS | st.sampled_from(TEXTS) | st.sampled_from(INTEGERS).map(str),
        max_size=4,
    ),
    method=st.sampled_from(["GET", "DELETE", "POST", "PATCH", "PUT", "HEAD", "OPTIONS", "X"]),
    accept=st.sampled_from([JSON, TABLE, "*/*", "text/html", "", "application/yaml", ";;,"]),
    tail=st.sampled_from(["", "/p", "/p/status", "/p/binding", "/p/eviction", "/p/log", "/%ff/x"]),
)
def test_parameters(query: dict[str, str], method: str, accept: str, tail: str) -> None:
    service = Service()
    path = service.path(KINDS["Pod"])
    service.ask("POST", path, POD)
    service.ask(method, path + tail, POD, query=query, accept=accept)


@effort(100)
@given(
    body=st.binary(max_size=60) | st.text(max_size=40).map(str.encode) | ANYTHING,
    content_type=st.sampled_from(
        [
            JSON,
            "application/yaml",
            "application/vnd.kubernetes.protobuf",
            "text/plain",
            "",
            *(*PATCHES.values(), "application/json; charset=x", ";", "application/cbor"),
        ]
    ),
    tail=st.sampled_from(
        ["", "/p", "/p/binding", "/p/eviction", "/p/status", "/p/ephemeralcontainers"]
    ),
    method=st.sampled_from(["POST", "PUT", "PATCH", "DELETE"]),
)
def test_bodies(body: Any, content_type: str, tail: str, method: str) -> None:
    service = Service()
    path = service.path(KINDS["Pod"])
    service.ask("POST", path, POD)
    service.ask(method, path + tail, body, content_type=content_type)


@effort(60)
@given(
    path=st.text(alphabet="/apisv1.podn%20f~é\x00", max_size=40),
    method=st.sampled_from(["GET", "POST"]),
)
def test_paths(path: str, method: str) -> None:
    Service().ask(method, f"/{path}")
