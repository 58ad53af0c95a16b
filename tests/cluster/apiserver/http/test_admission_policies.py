"""Admission policies: denied writes, mutations, and their error texts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.store.admission_policies import BINDING, POLICY, enforce_policies
from kubesched.cluster.apiserver.store.persistence import DataFile, open_store
from kubesched.foundation.http.http_messages import Response
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]

GROUP = "/apis/admissionregistration.k8s.io/v1"
POLICIES = f"{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{GROUP}/validatingadmissionpolicybindings"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
MERGE = "application/merge-patch+json"

RULE: Json = {
    "apiGroups": ["apps"],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["deployments"],
}


def policy(*validations: Json, **spec: Any) -> Json:
    constraints = {"resourceRules": [RULE]}
    return {
        "metadata": {"name": "p"},
        "spec": {"matchConstraints": constraints, "validations": list(validations), **spec},
    }


def binding(**spec: Any) -> Json:
    wanted = {"policyName": "p", "validationActions": ["Deny"], **spec}
    return {"metadata": {"name": "b"}, "spec": wanted}


def deployment(replicas: int = 1, name: str = "web", **labels: str) -> Json:
    app = {"app": "web"}
    containers = [{"name": "c", "image": "pause"}]
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": app},
            "template": {"metadata": {"labels": app}, "spec": {"containers": containers}},
        },
    }


def enforced(made: Json, bound: Json | None = None) -> Client:
    client = Client()
    client.create(POLICIES, made)
    client.create(BINDINGS, binding() if bound is None else bound)
    return client


def denial(client: Client, body: Json) -> Json:
    code, answer = client.send("POST", DEPLOYMENTS, body)
    assert code == answer["code"] >= 400, answer
    return answer


MORE_THAN_ONE = {"expression": "object.spec.replicas > 1"}
DENIED = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: "


def test_a_write_that_violates_a_policy_is_refused() -> None:
    client = enforced(policy(MORE_THAN_ONE))
    answer = denial(client, deployment(1))
    assert (answer["code"], answer["reason"]) == (422, "Invalid")
    assert answer["message"] == (
        f'deployments.apps "web" is forbidden: {DENIED}failed expression: object.spec.replicas > 1'
    )
    client.create(DEPLOYMENTS, deployment(2))
    patch = {"spec": {"replicas": 1}}
    assert client.send("PATCH", f"{DEPLOYMENTS}/web", patch, content_type=MERGE)[0] == 422
    assert client.send("DELETE", f"{DEPLOYMENTS}/web")[0] == 200


def test_policies_do_not_apply_to_other_resources() -> None:
    client = enforced(policy(MORE_THAN_ONE))
    body = deployment(1)
    client.create("/apis/apps/v1/namespaces/default/replicasets", body)


def test_without_a_binding_a_policy_does_nothing() -> None:
    client = Client()
    client.create(POLICIES, policy(MORE_THAN_ONE))
    client.create(DEPLOYMENTS, deployment(1))


@pytest.mark.parametrize(
    ("validation", "words", "code"),
    [
        ({**MORE_THAN_ONE, "message": "too few"}, "too few", 422),
        (
            {
                **MORE_THAN_ONE,
                "messageExpression": "'wants 2, got ' + string(object.spec.replicas)",
            },
            "wants 2, got 1",
            422,
        ),
        ({**MORE_THAN_ONE, "message": "m", "messageExpression": "'a' + object.nope"}, "m", 422),
        ({**MORE_THAN_ONE, "reason": "Forbidden"}, "failed expression", 403),
        (
            {"expression": "object.spec.nope > 1"},
            "expression 'object.spec.nope > 1' resulted in error: no such key: nope",
            422,
        ),
    ],
)
def test_words_and_reasons(validation: Json, words: str, code: int) -> None:
    answer = denial(enforced(policy(validation)), deployment(1))
    assert f"{DENIED}{words}" in answer["message"]
    assert answer["code"] == code


def test_errors_are_ignored_by_failure_policy() -> None:
    client = enforced(policy({"expression": "object.spec.nope > 1"}, failurePolicy="Ignore"))
    client.create(DEPLOYMENTS, deployment(1))


def test_variables_are_computed_once_and_refer_to_each_other() -> None:
    variables = [
        {"name": "replicas", "expression": "object.spec.replicas"},
        {"name": "odd", "expression": "variables.replicas % 2 == 1"},
        {"name": "unused", "expression": "object.nope"},
    ]
    client = enforced(policy({"expression": "variables.odd"}, variables=variables))
    client.create(DEPLOYMENTS, deployment(1))
    assert "failed expression: variables.odd" in denial(client, deployment(2, "other"))["message"]


def test_match_conditions_select_writes() -> None:
    only_new = {
        "name": "only-new",
        "expression": "request.operation == 'CREATE' && oldObject == null",
    }
    client = enforced(policy(MORE_THAN_ONE, matchConditions=[only_new]))
    client.create(DEPLOYMENTS, deployment(2))
    patch = {"spec": {"replicas": 1}}
    assert client.send("PATCH", f"{DEPLOYMENTS}/web", patch, content_type=MERGE)[0] == 200
    denial(client, deployment(1, "other"))


def test_namespaces_and_objects_are_selected() -> None:
    selector = {"matchLabels": {"guarded": "true"}}
    client = enforced(
        policy(MORE_THAN_ONE), binding(matchResources={"namespaceSelector": selector})
    )
    client.create(DEPLOYMENTS, deployment(1))
    labels = {"metadata": {"labels": {"guarded": "true"}}}
    client.send("PATCH", "/api/v1/namespaces/default", labels, content_type=MERGE)
    denial(client, deployment(1, "other"))
    client = enforced(policy(MORE_THAN_ONE), binding(matchResources={"objectSelector": selector}))
    client.create(DEPLOYMENTS, deployment(1))
    denial(client, deployment(1, "other", guarded="true"))


def test_expressions_can_use_the_namespace() -> None:
    client = enforced(policy({"expression": "namespaceObject.metadata.name == 'default'"}))
    client.create(DEPLOYMENTS, deployment(1))


def test_expressions_can_use_the_requester() -> None:
    client = enforced(policy({"expression": "request.userInfo.username == 'admin'"}))
    client.create(DEPLOYMENTS, deployment(1))
    deployments = client.store.catalog.by_url("apps", "v1", "deployments")
    with pytest.raises(ApiError, match="denied request"):
        client.store.create(deployments, "default", deployment(1, "other"), 0)


def test_a_policy_may_only_warn() -> None:
    client = enforced(policy(MORE_THAN_ONE), binding(validationActions=["Warn"]))
    answer = client.ask("POST", DEPLOYMENTS, deployment(1))
    assert isinstance(answer, Response)
    assert answer.status == 201
    assert answer.headers["Warning"] == (
        "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': "
        'failed expression: object.spec.replicas > 1"'
    )
    answer = client.ask("POST", DEPLOYMENTS, deployment(2, "other"))
    assert isinstance(answer, Response)
    assert "Warning" not in answer.headers


PARAMETERS = {"apiVersion": "v1", "kind": "ConfigMap"}


def test_parameters_come_from_an_object() -> None:
    expression = "object.spec.replicas <= int(params.data.most)"
    reference = {"name": "limits", "namespace": "default", "parameterNotFoundAction": "Deny"}
    client = enforced(
        policy({"expression": expression}, paramKind=PARAMETERS), binding(paramRef=reference)
    )
    assert "no params found" in denial(client, deployment(1))["message"]
    limits = {"metadata": {"name": "limits"}, "data": {"most": "3"}}
    client.create("/api/v1/namespaces/default/configmaps", limits)
    client.create(DEPLOYMENTS, deployment(3))
    denial(client, deployment(4, "other"))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (policy({"expression": "object."}), "spec.validations[0].expression: Invalid value"),
        (policy({"expression": "1 + 1"}), "must evaluate to bool"),
        (policy({"expression": "nope > 1"}), "undeclared reference to 'nope'"),
        (policy({"expression": "request.nope == 1"}), "undefined field 'nope'"),
        (policy(), "spec.validations: Required value"),
        (policy({**MORE_THAN_ONE, "messageExpression": "1"}), "must evaluate to string"),
        (policy({"expression": 1}), "spec.validations[0].expression"),
        ({"metadata": {"name": "p"}}, "spec: Required value"),
    ],
)
def test_an_invalid_policy_is_refused(made: Json, words: str) -> None:
    code, answer = Client().send("POST", POLICIES, made)
    assert code in (400, 422)  # a wrong type, or a wrong value
    assert words.replace("[0]", "") in answer["message"].replace("[0]", "")


def test_expressions_are_checked_against_the_kinds_they_are_about() -> None:
    client = Client()
    good = client.create(POLICIES, policy(MORE_THAN_ONE))
    assert good["status"] == {"observedGeneration": 1, "typeChecking": {}}
    confused = policy(
        {
            "expression": "object.spec.replicas > '1'",
            "messageExpression": "'wants replicas > 1, got ' + object.spec.replicas",
        }
    )
    confused["metadata"]["name"] = "q"
    found = client.create(POLICIES, confused)["status"]["typeChecking"]["expressionWarnings"]
    assert [each["fieldRef"] for each in found] == [
        "spec.validations[0].expression",
        "spec.validations[0].messageExpression",
    ]
    assert "apps/v1, Kind=Deployment: ERROR" in found[0]["warning"]
    assert "found no matching overload for '_>_' applied to '(int, string)'" in found[0]["warning"]
    assert "found no matching overload for '_+_' applied to '(string, int)'" in found[1]["warning"]


MUTATIONS = f"{GROUP}/mutatingadmissionpolicies"
MUTATION_BINDINGS = f"{GROUP}/mutatingadmissionpolicybindings"


def mutated(body: Json, *mutations: Json, **spec: Any) -> tuple[int, Json]:
    """Create a deployment under a mutating policy and return it."""
    client = Client()
    constraints = {"resourceRules": [RULE]}
    made = {"matchConstraints": constraints, "mutations": list(mutations), **spec}
    client.create(MUTATIONS, {"metadata": {"name": "m"}, "spec": made})
    client.create(MUTATION_BINDINGS, {"metadata": {"name": "b"}, "spec": {"policyName": "m"}})
    return client.send("POST", DEPLOYMENTS, body)


def applied(expression: str) -> Json:
    return {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}}


def patched(expression: str) -> Json:
    return {"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}


def test_a_policy_adds_fields() -> None:
    expression = """
        Object{
          metadata: Object.metadata{annotations: {"mutated-by": "policy"}},
          spec: Object.spec{replicas: object.spec.replicas + 1}
        }"""
    code, made = mutated(deployment(1, kept="yes"), applied(expression))
    assert code == 201, made
    assert made["metadata"]["annotations"] == {"mutated-by": "policy"}
    assert made["metadata"]["labels"] == {"kept": "yes"}
    assert made["spec"]["replicas"] == 2


def test_lists_are_merged_by_their_keys() -> None:
    containers = 'containers: [Object.spec.template.spec.containers{name: "%s", image: "x"}]'
    wrapped = (
        "Object{spec: Object.spec{template: Object.spec.template{"
        "spec: Object.spec.template.spec{%s}}}}"
    )
    _, made = mutated(deployment(1), applied(wrapped % (containers % "side")))
    names = [each["name"] for each in made["spec"]["template"]["spec"]["containers"]]
    assert names == ["c", "side"]
    _, made = mutated(deployment(1), applied(wrapped % (containers % "c")))
    assert [each["image"] for each in made["spec"]["template"]["spec"]["containers"]] == ["x"]


def test_patches_apply_one_after_another() -> None:
    code, made = mutated(
        deployment(1),
        patched('[JSONPatch{op: "replace", path: "/spec/replicas", value: 4}]'),
        patched(
            '[JSONPatch{op: "replace", path: "/spec/replicas", value: object.spec.replicas * 2}]'
        ),
    )
    assert (code, made["spec"]["replicas"]) == (201, 8)


def test_keys_are_escaped_for_paths() -> None:
    path = '"/metadata/labels/" + jsonpatch.escapeKey("example.com/tier")'
    _, made = mutated(
        deployment(1, kept="yes"), patched(f'[JSONPatch{{op: "add", path: {path}, value: "x"}}]')
    )
    assert made["metadata"]["labels"] == {"kept": "yes", "example.com/tier": "x"}


def test_optional_fields_may_be_absent() -> None:
    expression = "Object{spec: Object.spec{?paused: object.spec.?nope}}"
    code, made = mutated(deployment(1), applied(expression))
    assert code == 201
    assert "paused" not in made["spec"]


def test_a_policy_cannot_rename() -> None:
    _, made = mutated(deployment(1), applied('Object{metadata: Object.metadata{name: "other"}}'))
    assert made["metadata"]["name"] == "web"


def test_a_failed_mutation_refuses_the_write_unless_ignored() -> None:
    broken = applied("Object{spec: Object.spec{replicas: object.spec.nope}}")
    code, answer = mutated(deployment(1), broken)
    assert code == 422
    assert (
        "MutatingAdmissionPolicy 'm' with binding 'b' denied request: no such key: nope"
        in (answer["message"])
    )
    wrong = applied('Object{spec: Object.spec{replicas: "many"}}')
    assert mutated(deployment(1), wrong)[0] == 422
    assert mutated(deployment(1), broken, failurePolicy="Ignore")[0] == 201


def test_a_mutating_policy_must_compile() -> None:
    for expression in ("Nothing{}", "Object{", ""):
        body = {
            "metadata": {"name": "m"},
            "spec": {
                "matchConstraints": {"resourceRules": [RULE]},
                "mutations": [applied(expression)],
            },
        }
        code, answer = Client().send("POST", MUTATIONS, body)
        assert code == 422
        assert "spec.mutations[0].applyConfiguration.expression" in answer["message"]


KEYS = st.sampled_from(
    [
        "matchConstraints", "resourceRules", "operations", "apiGroups", "apiVersions", "resources",
        "scope", "validations", "expression", "message", "variables", "name", "matchConditions",
        "paramKind", "paramRef", "policyName", "validationActions", "matchResources", "selector",
        "namespaceSelector", "objectSelector", "matchLabels", "mutations", "patchType", "jsonPatch",
        "applyConfiguration", "failurePolicy", "messageExpression", "reason",
    ]
)  # fmt: skip
LEAVES = st.sampled_from(
    ["*", "true", "false", "object.spec.x > 1", "Object{}", "ApplyConfiguration", "p", "m", "Deny",
     "v1", "ConfigMap", None, 1, True, "JSONPatch", "[JSONPatch{op: 'remove', path: '/spec'}]"]
)  # fmt: skip
ANYTHING: Any = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=10,
)
EVERYTHING: Json = {
    "resourceRules": [
        {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}
    ]
}


@settings(max_examples=40)
@given(more=st.dictionaries(KEYS, ANYTHING, max_size=5), bound=st.dictionaries(KEYS, ANYTHING))
def test_any_policy_leaves_the_server_responsive(more: Json, bound: Json) -> None:
    client = Client()
    spec = {"matchConstraints": EVERYTHING, "validations": [{"expression": "true"}], **more}
    binds = {"policyName": "p", "validationActions": ["Deny"], **bound}
    for policies, bindings in ((POLICIES, BINDINGS), (MUTATIONS, MUTATION_BINDINGS)):
        mutations = {"mutations": [applied("Object{}")], **spec}
        for path, body in ((policies, mutations), (bindings, binds)):
            code, answer = client.send("POST", path, {"metadata": {"name": "p"}, "spec": body})
            assert code in (201, 400, 422), answer
    code, answer = client.send("POST", DEPLOYMENTS, deployment(1))
    assert code in (201, 422), answer


def test_columns() -> None:
    client = enforced(policy(MORE_THAN_ONE))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    assert client.get(POLICIES, accept=accept)["rows"][0]["cells"] == ["p", 1, "<unset>", "0s"]
    assert client.get(BINDINGS, accept=accept)["rows"][0]["cells"] == ["b", "p", "<unset>", "0s"]


def test_policies_survive_a_restart(tmp_path: Path) -> None:
    for attempt in range(2):
        data = DataFile(tmp_path / "c.db")
        store = open_store(data, random.Random(1), 0)
        enforce_policies(store)
        if not attempt:
            store.create(POLICY, None, policy(MORE_THAN_ONE), 0)
            store.create(BINDING, None, binding(), 0)
        deployments = store.catalog.by_url("apps", "v1", "deployments")
        with pytest.raises(ApiError, match="denied request"):
            store.create(deployments, "default", deployment(1), 0)
        data.close()
