"""CustomResourceDefinitions: what they may say, how they change, and how they are deleted."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kubesched.foundation.http.http_messages import Response
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/things.example.com"
THINGS = "/apis/example.com/v1/namespaces/default/things"
MERGE = "application/merge-patch+json"
STRING = {"type": "string"}
APPROVAL = "api-approved.kubernetes.io"


def schema_of(**spec: Json) -> Json:
    return {"type": "object", "properties": {"spec": {"type": "object", "properties": spec}}}


def version(name: str = "v1", schema: Json | None = None, **more: Any) -> Json:
    shown = schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": name, "served": True, "storage": True}
    return {**served, "schema": {"openAPIV3Schema": shown}, **more}


def definition(*versions: Json, group: str = "example.com", notes: Json | None = None) -> Json:
    names = {"plural": "things", "kind": "Thing"}
    return {
        "metadata": {"name": f"things.{group}", "annotations": notes or {}},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": names,
            "versions": list(versions) or [version()],
        },
    }


def thing(name: str = "a", api: str = "example.com/v1", **parts: Any) -> Json:
    metadata = {"name": name, **parts.pop("metadata", {})}
    return {"apiVersion": api, "kind": "Thing", "metadata": metadata, **parts}


def rules(*listed: Json, **keywords: Any) -> Json:
    return {**STRING, "maxLength": 10, "x-kubernetes-validations": list(listed), **keywords}


ITEM = {"type": "object", "properties": {"k": STRING}}
AT = "spec.versions[0].schema.openAPIV3Schema.properties[spec].properties[a]"


class Refused(NamedTuple):
    part: Json
    message: str


REFUSED_SCHEMAS = {
    "a map of items without keys": Refused(
        {"type": "array", "items": ITEM, "x-kubernetes-list-type": "map"},
        f"{AT}.x-kubernetes-list-map-keys: Required value: must not be empty if "
        "x-kubernetes-list-type is map",
    ),
    "a key that an item may lack": Refused(
        {
            "type": "array",
            "items": ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
        },
        f"{AT}.items.properties[k].default: Required value: this property is in "
        "x-kubernetes-list-map-keys, so it must have a default or be a required property",
    ),
    "a key that items do not have": Refused(
        {
            "type": "array",
            "items": ITEM,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["z"],
        },
        f'{AT}.x-kubernetes-list-map-keys: Invalid value: ["z"]: entries must all be names of '
        "item properties",
    ),
    "keys of an atomic list": Refused(
        {
            "type": "array",
            "items": ITEM,
            "x-kubernetes-list-type": "atomic",
            "x-kubernetes-list-map-keys": ["k"],
        },
        f'{AT}.x-kubernetes-list-type: Invalid value: "atomic": must be map if '
        "x-kubernetes-list-map-keys is non-empty",
    ),
    "a list type of a text": Refused(
        {**STRING, "x-kubernetes-list-type": "set"},
        f'{AT}.type: Invalid value: "string": must be array if x-kubernetes-list-type is specified',
    ),
    "a message of two lines": Refused(
        rules({"rule": "self != ''", "message": "one\ntwo"}),
        f'{AT}.x-kubernetes-validations[0].message: Invalid value: "one\\ntwo": message must not '
        "contain line breaks",
    ),
    "a rule of two lines without a message": Refused(
        rules({"rule": "self !=\n''"}),
        f"{AT}.x-kubernetes-validations[0].message: Required value: message must be specified if "
        "rule contains line breaks",
    ),
    "an unknown reason": Refused(
        rules({"rule": "self != ''", "reason": "Because"}),
        f'{AT}.x-kubernetes-validations[0].reason: Unsupported value: "Because": supported values: '
        '"FieldValueInvalid", "FieldValueForbidden", "FieldValueRequired", "FieldValueDuplicate"',
    ),
    "a transition rule for items that cannot be matched": Refused(
        {"type": "array", "maxItems": 5, "items": rules({"rule": "self == oldSelf"})},
        f"{AT}.items.x-kubernetes-validations[0].rule: Invalid value: "
        '"self == oldSelf": oldSelf cannot be used on the uncorrelatable portion of the schema '
        f"within {AT}",
    ),
}


@pytest.mark.parametrize("case", REFUSED_SCHEMAS.values(), ids=REFUSED_SCHEMAS)
def test_refused_schemas(case: Refused) -> None:
    document = definition(version(schema=schema_of(a=case.part)))
    code, refusal = Client().send("POST", DEFINITIONS, document)
    assert code == 422
    name = "CustomResourceDefinition.apiextensions.k8s.io"
    assert refusal["message"] == f'{name} "things.example.com" is invalid: {case.message}'


def test_transition_rules_for_items_with_keys() -> None:
    item = {**ITEM, "required": ["k"]}
    item["properties"] = {"k": STRING, "v": rules({"rule": "self == oldSelf"})}
    listed = {
        "type": "array",
        "items": item,
        "maxItems": 5,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
    }
    Client().create(DEFINITIONS, definition(version(schema=schema_of(a=listed))))


@pytest.mark.parametrize(
    ("approval", "code"),
    [
        ("", 422),
        ("yes", 422),
        ("unapproved, an experiment", 201),
        ("https://example.com/pull/1", 201),
    ],
)
def test_groups_of_the_community_need_an_approval(approval: str, code: int) -> None:
    notes = {APPROVAL: approval} if approval else {}
    document = definition(group="tests.k8s.io", notes=notes)
    answer, body = Client().send("POST", DEFINITIONS, document)
    assert answer == code
    if code == 422:
        path = f"metadata.annotations[{APPROVAL}]"
        assert [each["field"] for each in body["details"]["causes"]] == [path]


FIXED: dict[str, tuple[Json, str]] = {
    "the scope": (
        {"spec": {"scope": "Cluster"}},
        'spec.scope: Invalid value: "Cluster": field is immutable',
    ),
    "the kind": (
        {"spec": {"names": {"kind": "Other"}}},
        'spec.names.kind: Invalid value: "Other": field is immutable',
    ),
    "a version in which objects may be stored": (
        {"spec": {"versions": [version("v2")]}},
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions',
    ),
}


@pytest.mark.parametrize(("patch", "message"), FIXED.values(), ids=FIXED)
def test_what_stays_in_a_definition(patch: Json, message: str) -> None:
    client = Client()
    client.create(DEFINITIONS, definition())
    client.create(THINGS, thing())
    code, refusal = client.send("PATCH", DEFINITION, patch, content_type=MERGE)
    assert code == 422
    assert refusal["message"].endswith(f"is invalid: {message}")
    assert client.get(f"{THINGS}/a")["metadata"]["name"] == "a"


def test_a_version_goes_once_it_is_no_longer_stored() -> None:
    client = Client()
    client.create(DEFINITIONS, definition(version(storage=False), version("v2")))
    both = {"status": {"storedVersions": ["v1", "v2"]}}
    code, changed = client.send("PATCH", f"{DEFINITION}/status", both, content_type=MERGE)
    assert (code, changed["status"]["storedVersions"]) == (200, ["v1", "v2"])
    removed = {"spec": {"versions": [version("v2")]}}
    assert client.send("PATCH", DEFINITION, removed, content_type=MERGE)[0] == 422
    none = {"status": {"storedVersions": ["v1"]}}
    assert client.send("PATCH", f"{DEFINITION}/status", none, content_type=MERGE)[0] == 422
    one = {"status": {"storedVersions": ["v2"]}}
    assert client.send("PATCH", f"{DEFINITION}/status", one, content_type=MERGE)[0] == 200
    assert client.send("PATCH", DEFINITION, removed, content_type=MERGE)[0] == 200


HELD = {"metadata": {"finalizers": ["example.com/held"]}}
FREE = {"metadata": {"finalizers": None}}


@pytest.mark.parametrize("path", [DEFINITION, DEFINITIONS])
def test_a_definition_stays_until_the_finalizers_of_its_objects_are_removed(path: str) -> None:
    client = Client()
    client.create(DEFINITIONS, definition())
    client.create(THINGS, thing("a", **HELD))
    client.create(THINGS, thing("b"))
    client.send("DELETE", path)
    left = client.get(THINGS)["items"]
    assert [each["metadata"]["name"] for each in left] == ["a"]
    assert "deletionTimestamp" in left[0]["metadata"]
    held = client.get(DEFINITION)
    assert held["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]
    conditions = {each["type"]: each["status"] for each in held["status"]["conditions"]}
    assert conditions["Terminating"] == "True"
    code, refusal = client.send("POST", THINGS, thing("c"))
    assert code == 405
    assert refusal["message"] == (
        "create not allowed while custom resource definition is terminating"
    )
    assert client.send("PATCH", f"{THINGS}/a", FREE, content_type=MERGE)[0] == 200
    assert client.send("GET", DEFINITION)[0] == 404
    assert client.send("GET", THINGS)[0] == 404
    client.create(DEFINITIONS, definition())
    assert client.get(THINGS)["items"] == []


def test_a_definition_without_objects_goes_at_once() -> None:
    client = Client()
    client.create(DEFINITIONS, definition())
    code, _ = client.send("DELETE", DEFINITION, {"preconditions": {"uid": "other"}})
    assert code == 409
    version = client.get(DEFINITION)["metadata"]["resourceVersion"]
    options = {"preconditions": {"resourceVersion": version}}
    assert client.send("DELETE", DEFINITION, options)[0] == 200
    assert client.send("GET", DEFINITION)[0] == 404


WARNINGS: dict[str, tuple[Json, str]] = {
    "a text of its own": ({"deprecationWarning": "use things"}, '299 - "use things"'),
    "the newest version": (
        {},
        '299 - "example.com/v1beta1 Thing is deprecated; use example.com/v2 Thing"',
    ),
}


@pytest.mark.parametrize(("fields", "warning"), WARNINGS.values(), ids=WARNINGS)
def test_deprecated_versions_warn(fields: Json, warning: str) -> None:
    client = Client()
    old = version("v1beta1", storage=False, deprecated=True, **fields)
    client.create(DEFINITIONS, definition(old, version("v1"), version("v2", storage=False)))
    path = "/apis/example.com/v1beta1/namespaces/default/things"
    made = client.ask("POST", path, thing(api="example.com/v1beta1"))
    read = client.ask("GET", path)
    for answer in (made, read):
        assert isinstance(answer, Response)
        assert answer.headers["Warning"] == warning
    current = client.ask("GET", THINGS)
    assert isinstance(current, Response)
    assert "Warning" not in current.headers


def test_only_selectable_fields_select() -> None:
    client = Client()
    fields = [{"jsonPath": ".spec.color"}]
    schema = schema_of(color=STRING, size=STRING)
    client.create(DEFINITIONS, definition(version(schema=schema, selectableFields=fields)))
    for name, color in (("a", "red"), ("b", "blue")):
        client.create(THINGS, thing(name, spec={"color": color, "size": "1"}))
    found = client.get(f"{THINGS}?fieldSelector=spec.color%3Dred,metadata.namespace%3Ddefault")
    assert [each["metadata"]["name"] for each in found["items"]] == ["a"]
    code, refusal = client.send("GET", f"{THINGS}?fieldSelector=spec.size%3D1")
    assert (code, refusal["message"]) == (400, "field label not supported: spec.size")


def test_unknown_metadata_is_pruned() -> None:
    client = Client()
    client.create(DEFINITIONS, definition())
    made = client.create(THINGS, thing(metadata={"labels": {"a": "b"}, "colour": "red"}))
    assert "colour" not in made["metadata"]
    assert made["metadata"]["labels"] == {"a": "b"}


def test_a_negative_scale_is_invalid() -> None:
    client = Client()
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = schema_of(replicas={"type": "integer"})
    scaled = version(schema=schema, subresources={"scale": paths})
    client.create(DEFINITIONS, definition(scaled))
    client.create(THINGS, thing(spec={"replicas": 1}))
    patch = {"spec": {"replicas": -1}}
    code, refusal = client.send("PATCH", f"{THINGS}/a/scale", patch, content_type=MERGE)
    assert (code, refusal["message"]) == (
        422,
        'Scale.autoscaling "a" is invalid: spec.replicas: Invalid value: -1: must be greater than '
        "or equal to 0",
    )
