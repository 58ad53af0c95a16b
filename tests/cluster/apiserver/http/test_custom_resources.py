"""Custom resources: schemas, defaults, validation rules, printer columns, scale."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.foundation.http.http_messages import Response
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"


def definition(schema: Json, **version: Any) -> Json:
    return {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [
                {
                    "name": "v1",
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    **version,
                }
            ],
        },
    }


def with_spec(schema: Json, **version: Any) -> Json:
    return definition({"type": "object", "properties": {"spec": schema}}, **version)


def client_for(made: Json) -> Client:
    client = Client()
    client.create(DEFINITIONS, made)
    return client


def widget(spec: Any, **fields: Any) -> Json:
    return {"metadata": {"name": "w"}, "spec": spec, **fields}


def refused(client: Client, method: str, path: str, body: Json, **options: Any) -> list[str]:
    """Return the problems by field."""
    code, answer = client.send(method, path, body, **options)
    assert code == 422, answer
    return [f"{cause['field']}: {cause['message']}" for cause in answer["details"]["causes"]]


OBJECT: Json = {"type": "object"}
SPEC: Json = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 1, "maximum": 10},
        "color": {"type": "string", "enum": ["red", "blue"], "default": "red"},
        "name": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "ratio": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "port": {"x-kubernetes-int-or-string": True},
        "when": {"type": "string", "format": "date-time"},
        "tags": {
            "type": "array",
            "maxItems": 2,
            "x-kubernetes-list-type": "set",
            "items": {"type": "string"},
        },
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "nested": {
            "type": "object",
            "default": {},
            "properties": {"depth": {"type": "integer", "default": 3}},
        },
        "maybe": {"type": "string", "nullable": True},
    },
}


def test_objects_are_pruned_and_defaulted() -> None:
    client = client_for(with_spec(SPEC))
    spec = {"size": 2, "nope": 1, "free": {"x": {"y": 1}}, "labels": {"a": "b"}, "maybe": None}
    stored = client.create(WIDGETS, {**widget(spec), "other": 1})
    assert stored["spec"] == {
        "size": 2,
        "free": {"x": {"y": 1}},
        "labels": {"a": "b"},
        "maybe": None,
        "color": "red",
        "nested": {"depth": 3},
    }
    assert "other" not in stored


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        ({}, ["spec.size: Required value"]),
        (
            {"size": "2"},
            [
                'spec.size: Invalid value: "string": spec.size in body must be of type integer: '
                '"string"'
            ],
        ),
        (
            {"size": 0},
            ["spec.size: Invalid value: 0: spec.size in body should be greater than or equal to 1"],
        ),
        (
            {"size": 11},
            ["spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10"],
        ),
        (
            {"size": 1, "color": "green"},
            ['spec.color: Unsupported value: "green": supported values: "red", "blue"'],
        ),
        (
            {"size": 1, "name": "A"},
            [
                'spec.name: Invalid value: "A": spec.name in body should be at least 2 chars long',
                "spec.name: Invalid value: \"A\": spec.name in body should match '^[a-z]+$'",
            ],
        ),
        ({"size": 1, "name": "abcdefg"}, ["spec.name: Too long: may not be more than 5 bytes"]),
        (
            {"size": 1, "ratio": 0},
            ["spec.ratio: Invalid value: 0: spec.ratio in body should be greater than 0"],
        ),
        (
            {"size": 1, "when": "yesterday"},
            [
                'spec.when: Invalid value: "yesterday": spec.when in body must be of type '
                'date-time: "yesterday"'
            ],
        ),
        (
            {"size": 1, "tags": ["a", "b", "a"]},
            [
                "spec.tags: Too many: 3: must have at most 2 items",
                'spec.tags[2]: Duplicate value: "a"',
            ],
        ),
        (
            {"size": 1, "labels": {"a": 1}},
            [
                'spec.labels.a: Invalid value: "integer": spec.labels.a in body must be of type '
                'string: "integer"'
            ],
        ),
        (
            {"size": 1, "port": 1.5},
            [
                'spec.port: Invalid value: "number": spec.port in body must be of type '
                'integer,string: "number"'
            ],
        ),
    ],
)
def test_values_are_checked(spec: Json, want: list[str]) -> None:
    assert refused(client_for(with_spec(SPEC)), "POST", WIDGETS, widget(spec)) == want


def test_combinations() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    }
    client = client_for(with_spec(schema))
    client.create(WIDGETS, widget({"a": 1}))
    assert refused(client, "POST", WIDGETS, widget({})) == [
        'spec: Invalid value: "": "spec" must validate one and only one schema (oneOf). '
        "Found none valid"
    ]


RULES: Json = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.least <= self.most"},
        {"rule": "self.most < 100", "message": "too many", "fieldPath": ".most"},
        {
            "rule": "self.least >= 0",
            "messageExpression": "'least is ' + string(self.least)",
            "reason": "FieldValueForbidden",
        },
        {"rule": "self.most != 50", "messageExpression": "'not ' + string(self.most)"},
    ],
    "properties": {
        "least": {"type": "integer"},
        "most": {"type": "integer"},
        "fixed": {
            "type": "string",
            "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
        },
        "my-name": {"type": "string"},
        "ratio": {"type": "number"},
        "until": {"type": "string", "format": "date-time"},
    },
}


def test_rules_are_evaluated() -> None:
    client = client_for(with_spec(RULES))
    client.create(WIDGETS, widget({"least": 1, "most": 2}))
    assert refused(client, "POST", WIDGETS, widget({"least": 3, "most": 2})) == [
        'spec: Invalid value: "object": failed rule: self.least <= self.most'
    ]
    assert refused(client, "POST", WIDGETS, widget({"least": -1, "most": 200})) == [
        'spec.most: Invalid value: "object": too many',
        "spec: Forbidden: least is -1",
    ]
    assert refused(client, "POST", WIDGETS, widget({"least": 1, "most": 50})) == [
        "spec: Invalid value: not 50"
    ]
    assert refused(client, "POST", WIDGETS, widget({"most": 2}))[0] == (
        'spec: Invalid value: "object": no such key: least evaluating rule: self.least <= self.most'
    )


def test_a_transition_rule_is_evaluated_on_updates() -> None:
    client = client_for(with_spec(RULES))
    spec = {"least": 1, "most": 2, "fixed": "a"}
    client.create(WIDGETS, widget(spec))
    patch = {"spec": {"fixed": "b"}}
    assert refused(client, "PATCH", f"{WIDGETS}/w", patch, content_type=MERGE) == [
        'spec.fixed: Invalid value: "b": is immutable'
    ]
    code, _ = client.send("PATCH", f"{WIDGETS}/w", {"spec": {"most": 3}}, content_type=MERGE)
    assert code == 200


def test_names_that_are_no_identifiers_numbers_and_times() -> None:
    rules = [
        {"rule": "self.my__dash__name != 'x'"},
        {"rule": "!has(self.ratio) || self.ratio < 1.5"},
        {"rule": "!has(self.until) || self.until > timestamp('2024-01-01T00:00:00Z')"},
    ]
    client = client_for(with_spec({**RULES, "x-kubernetes-validations": rules}))
    good = {"my-name": "y", "ratio": 1, "until": "2024-06-01T00:00:00Z"}
    client.create(WIDGETS, widget(good))
    bad = {"my-name": "x", "ratio": 2, "until": "2023-06-01T00:00:00Z"}
    assert len(refused(client, "POST", WIDGETS, widget(bad))) == 3


def test_lists_that_are_sets_or_maps_have_no_order() -> None:
    names = {
        "type": "array",
        "x-kubernetes-list-type": "set",
        "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "is immutable"}],
    }
    pairs = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "required": ["k"],
            "properties": {"k": {"type": "string"}, "v": {"type": "integer"}},
        },
        "x-kubernetes-validations": [
            {"rule": "self == oldSelf"},
            {"rule": "(self + oldSelf).size() == 2", "message": "same keys only"},
        ],
    }
    schema = {"type": "object", "properties": {"names": names, "pairs": pairs}}
    client = client_for(with_spec(schema))
    one, two = {"k": "a", "v": 1}, {"k": "b", "v": 2}
    client.create(WIDGETS, widget({"names": ["x", "y"], "pairs": [one, two]}))
    path = f"{WIDGETS}/w"
    turned = {"spec": {"names": ["y", "x"], "pairs": [two, one]}}
    assert client.send("PATCH", path, turned, content_type=MERGE)[0] == 200
    other = {"spec": {"names": ["y", "z"], "pairs": [two, {"k": "a", "v": 3}]}}
    assert refused(client, "PATCH", path, other, content_type=MERGE) == [
        'spec.names: Invalid value: "array": is immutable',
        'spec.pairs: Invalid value: "array": failed rule: self == oldSelf',
    ]


def test_a_rule_that_costs_too_much_is_stopped() -> None:
    schema = {
        "type": "object",
        "properties": {"list": {"type": "array", "maxItems": 725, "items": {"type": "integer"}}},
        "x-kubernetes-validations": [{"rule": "self.list.all(a, self.list.all(b, a == b))"}],
    }
    client = client_for(with_spec(schema))
    (told,) = refused(client, "POST", WIDGETS, widget({"list": [20] * 725}))
    assert "call cost exceeds limit for rule" in told


def test_a_rule_with_too_high_estimated_cost_is_refused() -> None:
    inner = {
        "type": "array",
        "items": {"type": "string"},
        "x-kubernetes-validations": [{"rule": "self.all(s, s == 'string constant')"}],
    }
    schema = {"type": "object", "properties": {"x": {"type": "array", "items": inner}}}
    code, answer = Client().send("POST", DEFINITIONS, with_spec(schema))
    assert code == 422
    assert "estimated rule cost exceeds budget by factor of more than 100x" in answer["message"]
    limited = {**inner, "maxItems": 10, "items": {"type": "string", "maxLength": 10}}
    schema = {
        "type": "object",
        "properties": {"x": {"type": "array", "maxItems": 10, "items": limited}},
    }
    assert Client().send("POST", DEFINITIONS, with_spec(schema))[0] == 201


def test_a_metadata_rule_reads_the_name() -> None:
    schema = {"type": "object", "x-kubernetes-validations": [{"rule": "self.metadata.name != 'w'"}]}
    client = client_for(definition(schema))
    assert refused(client, "POST", WIDGETS, {"metadata": {"name": "w"}}) == [
        "<nil>: Invalid value: \"object\": failed rule: self.metadata.name != 'w'"
    ]


DEFINITION_PROBLEMS = {
    "a field that is not there": (
        with_spec({**OBJECT, "x-kubernetes-validations": [{"rule": "self.z == 100"}]}),
        "undefined field 'z'",
    ),
    "a rule that is none": (
        with_spec({**OBJECT, "x-kubernetes-validations": [{"rule": "self = 42"}]}),
        "Syntax error",
    ),
    "a rule that gives no bool": (
        with_spec({"type": "integer", "x-kubernetes-validations": [{"rule": "self + 1"}]}),
        "cel expression must evaluate to a bool",
    ),
    "a field without a type": (
        with_spec({"properties": {"x": {"type": "string"}}}),
        "spec.versions[0].schema.openAPIV3Schema.properties[spec].type: Required value: must not "
        "be empty for specified object fields",
    ),
    "a root that is no object": (definition({"type": "string"}), "must be object at the root"),
    "no stored version": (
        definition(OBJECT, storage=False),
        "must have exactly one version marked as storage version",
    ),
    "no schema": (
        {**definition(OBJECT), "spec": {**definition(OBJECT)["spec"], "versions": [
            {"name": "v1", "served": True, "storage": True}
        ]}},
        "spec.versions[0].schema.openAPIV3Schema: Required value: schemas are required",
    ),
    "a default that does not fit": (
        with_spec({"type": "integer", "default": "a"}),
        "must be of type integer",
    ),
    "a pattern that is none": (
        with_spec({"type": "string", "pattern": "("}),
        "must be a valid regular expression",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("made", "words"), DEFINITION_PROBLEMS.values(), ids=DEFINITION_PROBLEMS)
def test_a_definition_that_is_refused(made: Json, words: str) -> None:
    code, answer = Client().send("POST", DEFINITIONS, made)
    assert code == 422
    assert words in answer["message"]


def _changed(client: Client, made: Json) -> None:
    held = client.get(f"{DEFINITIONS}/widgets.example.com")
    code, answer = client.send(
        "PUT", f"{DEFINITIONS}/widgets.example.com", {**held, "spec": made["spec"]}
    )
    assert code == 200, answer


def test_unchanged_values_may_stay_invalid() -> None:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    client = client_for(with_spec(free))
    spec = {
        "color": "green",
        "list": [{"key": "a", "n": 1}],
        "loose": ["green"],
        "map": {"m": {"color": "green"}},
    }
    client.create(WIDGETS, widget(spec))
    only_red = [{"rule": "self == 'red'"}]
    color = {"type": "string", "enum": ["red"], "x-kubernetes-validations": only_red}
    strict = {
        "type": "object",
        "properties": {
            "color": color,
            "list": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["key"],
                "items": {
                    "type": "object",
                    "required": ["key"],
                    "properties": {
                        "key": {"type": "string"},
                        "n": {
                            "type": "integer",
                            "x-kubernetes-validations": [{"rule": "self > 1"}],
                        },
                    },
                },
            },
            "loose": {"type": "array", "items": {"type": "string", "enum": ["red"]}},
            "map": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {
                        "color": {
                            "type": "string",
                            "x-kubernetes-validations": [{"rule": "self == 'red'"}],
                        }
                    },
                },
            },
        },
    }
    _changed(client, with_spec(strict))
    path = f"{WIDGETS}/w"
    labels = {"metadata": {"labels": {"a": "b"}}}
    assert client.send("PATCH", path, labels, content_type=MERGE)[0] == 200
    other = {"spec": {"list": [{"key": "a", "n": 1}, {"key": "b", "n": 2}]}}
    assert client.send("PATCH", path, other, content_type=MERGE)[0] == 200
    changed = {"spec": {"list": [{"key": "a", "n": 0}], "map": {"m": {"color": "blue"}}}}
    assert refused(client, "PATCH", path, changed, content_type=MERGE) == [
        "spec.list[0].n: Invalid value: 0: failed rule: self > 1",
        "spec.map[m].color: Invalid value: \"blue\": failed rule: self == 'red'",
    ]
    longer = {"spec": {"loose": ["green", "red"]}}
    assert refused(client, "PATCH", path, longer, content_type=MERGE) == [
        'spec.loose[0]: Unsupported value: "green": supported values: "red"',
        "<nil>: Invalid value: null: some validation rules were not checked because the object was "
        "invalid; correct the existing errors to complete validation",
    ]


def test_new_defaults_apply_to_stored_objects() -> None:
    client = client_for(with_spec({"type": "object", "properties": {"a": {"type": "integer"}}}))
    version = client.create(WIDGETS, widget({"a": 1}))["metadata"]["resourceVersion"]
    more = {"a": {"type": "integer"}, "b": {"type": "string", "default": "x"}}
    _changed(client, with_spec({"type": "object", "properties": more}))
    seen = client.get(f"{WIDGETS}/w")
    assert seen["spec"] == {"a": 1, "b": "x"}
    assert seen["metadata"]["resourceVersion"] == version
    assert client.get(WIDGETS)["items"][0]["spec"]["b"] == "x"


def test_versions_of_a_custom_resource_are_added_and_removed() -> None:
    client = client_for(definition(OBJECT))
    client.create(WIDGETS, {"metadata": {"name": "w"}})
    both = definition(OBJECT)
    second = {**both["spec"]["versions"][0], "name": "v2", "storage": False}
    both["spec"]["versions"].append(second)
    _changed(client, both)
    other = WIDGETS.replace("/v1/", "/v2/")
    assert client.get(f"{other}/w")["apiVersion"] == "example.com/v2"
    assert client.get(f"{WIDGETS}/w")["apiVersion"] == "example.com/v1"
    both["spec"]["versions"][0]["served"] = False
    _changed(client, both)
    assert client.send("GET", WIDGETS)[0] == 404
    assert client.get(other)["items"][0]["metadata"]["name"] == "w"


def test_the_status_is_written_separately_and_validated() -> None:
    schema = {
        "type": "object",
        "properties": {
            "spec": OBJECT,
            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
        },
    }
    client = client_for(definition(schema, subresources={"status": {}}))
    made = client.create(WIDGETS, {"metadata": {"name": "w"}, "status": {"ready": True}})
    assert "status" not in made
    path = f"{WIDGETS}/w/status"
    code, answer = client.send("PATCH", path, {"status": {"ready": True}}, content_type=MERGE)
    assert (code, answer["status"]) == (200, {"ready": True})
    assert answer["metadata"]["generation"] == 1
    wrong = {"status": {"ready": "yes"}}
    assert len(refused(client, "PATCH", path, wrong, content_type=MERGE)) == 1


SCALE = {
    "specReplicasPath": ".spec.count",
    "statusReplicasPath": ".status.count",
    "labelSelectorPath": ".status.selector",
}


def test_the_scale_uses_the_paths_of_the_definition() -> None:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    client = client_for(definition(schema, subresources={"status": {}, "scale": SCALE}))
    client.create(WIDGETS, widget({"count": 3}))
    status = {"status": {"count": 2, "selector": "app=w"}}
    client.send("PATCH", f"{WIDGETS}/w/status", status, content_type=MERGE)
    scale = client.get(f"{WIDGETS}/w/scale")
    assert (scale["spec"], scale["status"]) == (
        {"replicas": 3},
        {"replicas": 2, "selector": "app=w"},
    )
    patch = {"spec": {"replicas": 5}}
    code, _ = client.send("PATCH", f"{WIDGETS}/w/scale", patch, content_type=MERGE)
    assert code == 200
    assert client.get(f"{WIDGETS}/w")["spec"] == {"count": 5}
    names = [each["name"] for each in client.get("/apis/example.com/v1")["resources"]]
    assert names == ["widgets", "widgets/scale", "widgets/status"]


def test_columns_are_those_of_the_definition() -> None:
    columns = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {
            "name": "Ready",
            "type": "string",
            "jsonPath": '.status.conditions[?(@.type=="Ready")].status',
        },
        {"name": "Missing", "type": "string", "jsonPath": ".spec.nope", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    client = client_for(definition(schema, additionalPrinterColumns=columns))
    conditions = [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]
    client.create(WIDGETS, widget({"size": 4}, status={"conditions": conditions}))
    table = client.get(WIDGETS, accept=TABLE)
    shown = [(each["name"], each["type"], each["priority"]) for each in table["columnDefinitions"]]
    assert shown == [
        ("Name", "string", 0),
        ("Size", "integer", 0),
        ("Ready", "string", 0),
        ("Missing", "string", 1),
        ("Age", "date", 0),
    ]
    assert table["rows"][0]["cells"] == ["w", 4, "True", None, "0s"]


APPLY = "application/apply-patch+yaml"


def test_lists_with_keys_are_applied_item_by_item() -> None:
    items = {
        "type": "object",
        "required": ["port"],
        "properties": {"port": {"type": "integer"}, "name": {"type": "string"}},
    }
    ports = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["port"],
        "items": items,
    }
    client = client_for(with_spec({"type": "object", "properties": {"ports": ports}}))

    def apply(manager: str, *given: Json) -> tuple[int, Json]:
        body = {"apiVersion": "example.com/v1", "kind": "Widget", **widget({"ports": list(given)})}
        path = f"{WIDGETS}/w?fieldManager={manager}"
        return client.send("PATCH", path, body, content_type=APPLY)

    assert apply("a", {"port": 1, "name": "one"})[0] == 201
    code, both = apply("b", {"port": 2, "name": "two"})
    assert (code, [each["port"] for each in both["spec"]["ports"]]) == (200, [1, 2])
    assert apply("b", {"port": 1, "name": "other"})[0] == 409
    code, one = apply("b")
    assert (code, [each["port"] for each in one["spec"]["ports"]]) == (200, [1])


def test_the_schema_is_published() -> None:
    schema = {
        "type": "object",
        "description": "A widget.",
        "properties": {"spec": {"type": "object", "nullable": True, "properties": {}}},
    }
    client = client_for(definition(schema))
    name = "com.example.v1.Widget"
    index = client.get("/openapi/v3")["paths"]["apis/example.com/v1"]["serverRelativeURL"]
    document = client.get(index)
    shown = document["components"]["schemas"][name]
    assert shown["description"] == "A widget."
    assert set(shown["properties"]) == {"apiVersion", "kind", "metadata", "spec"}
    assert shown["x-kubernetes-group-version-kind"] == [
        {"group": "example.com", "version": "v1", "kind": "Widget"}
    ]
    for part in document["components"]["schemas"][name]["properties"]["metadata"]["allOf"]:
        assert part["$ref"].rpartition("/")[2] in document["components"]["schemas"]
    older = client.get("/openapi/v2")["definitions"]
    assert "nullable" not in older[name]["properties"]["spec"]
    assert older[name]["properties"]["metadata"]["$ref"].rpartition("/")[2] in older
    _changed(client, definition({**schema, "description": "Another."}))
    again = client.get("/openapi/v3")["paths"]["apis/example.com/v1"]["serverRelativeURL"]
    assert again != index
    binary = client.ask("GET", "/openapi/v2", accept="application/x+protobuf")
    assert isinstance(binary, Response)
    assert name.encode() in binary.body


KEYWORDS = st.sampled_from(
    [
        "type", "properties", "items", "required", "enum", "default", "minimum", "maxLength",
        "additionalProperties", "oneOf", "not", "x-kubernetes-validations", "pattern", "format",
        "x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type", "nullable", "rule",
    ]
)  # fmt: skip
ANYTHING: Any = st.recursive(
    st.sampled_from(
        ["object", "string", "array", "self.a > 1", "(", "map", "a", None, True, 1, -1.5]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=12,
)


@given(schema=ANYTHING, spec=ANYTHING)
def test_random_schemas_and_objects_get_a_response(schema: Any, spec: Any) -> None:
    client = Client()
    code, answer = client.send("POST", DEFINITIONS, with_spec(schema))
    assert code in (201, 400, 422), answer
    if code == 201:
        code, answer = client.send("POST", WIDGETS, widget(spec))
        assert code in (201, 422), answer


def test_strict_requests_with_unknown_fields_are_refused() -> None:
    client = client_for(with_spec({**SPEC, "required": []}))
    body = {**widget({"sizes": 1}), "extra": 1}
    body["metadata"]["unknown"] = "x"
    code, answer = client.send("POST", f"{WIDGETS}?fieldValidation=Strict", body)
    assert code == 400
    assert answer["message"].endswith(
        'strict decoding error: unknown field "metadata.unknown", unknown field "spec.sizes", '
        'unknown field "extra"'
    )


def test_versions_with_other_fields_are_pruned() -> None:
    """With the conversion `None` a version shows and stores only fields that it has."""

    def version(name: str, *, storage: bool, needed: list[str], **fields: Any) -> dict[str, Any]:
        spec = {"type": "object", "properties": fields, "required": needed}
        schema = {"type": "object", "properties": {"spec": spec}}
        return {
            "name": name,
            "served": True,
            "storage": storage,
            "schema": {"openAPIV3Schema": schema},
        }

    text = {"type": "string"}
    client = Client()
    client.create(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        {
            "metadata": {"name": "tables.x.example.com"},
            "spec": {
                "group": "x.example.com",
                "names": {"kind": "Table", "plural": "tables"},
                "scope": "Namespaced",
                "versions": [
                    version("v1", storage=True, needed=[], a=text, b=text),
                    version("v2", storage=False, needed=["c"], b=text, c=text),
                ],
            },
        },
    )
    first, second = (
        f"/apis/x.example.com/{name}/namespaces/default/tables" for name in ("v1", "v2")
    )
    client.create(first, {"metadata": {"name": "t"}, "spec": {"a": "1", "b": "2"}})
    assert client.get(f"{second}/t")["spec"] == {"b": "2"}
    assert [each["spec"] for each in client.get(second)["items"]] == [{"b": "2"}]
    assert client.get(f"{first}/t")["spec"] == {"a": "1", "b": "2"}
    # The schema of the version in the request applies: it needs `c`, which is not stored.
    patch: dict[str, Any] = {"content_type": "application/merge-patch+json"}
    code, answer = client.send("PATCH", f"{second}/t", {"spec": {"b": "3"}}, **patch)
    assert (code, "spec.c: Required value" in answer["message"]) == (422, True)
    change = {"spec": {"b": "3", "c": "4"}}
    assert client.send("PATCH", f"{second}/t", change, **patch)[0] == 200
    assert client.get(f"{first}/t")["spec"] == {"b": "3"}
    client.create(second, {"metadata": {"name": "u"}, "spec": {"b": "5", "c": "6"}})
    assert client.get(f"{first}/u")["spec"] == {"b": "5"}
