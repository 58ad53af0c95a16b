"""Admission webhooks: which are called, with what, and what their responses do."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from kubesched.api import Pod
from kubesched.cluster.apiserver.http import ServedWatch
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.rules.admission.webhook_reviews import WebhookError
from kubesched.cluster.apiserver.store.needed_calls import WebhookCall
from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.virtual_loop import run
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]
Answer = Callable[[Json], Json]

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1"
MUTATING = f"{CONFIGURATIONS}/mutatingwebhookconfigurations"
VALIDATING = f"{CONFIGURATIONS}/validatingwebhookconfigurations"
MERGE = "application/merge-patch+json"
RULE = {
    "apiGroups": [""],
    "apiVersions": ["v1"],
    "operations": ["CREATE", "UPDATE"],
    "resources": ["configmaps"],
}


def hook(name: str = "a.example.com", **fields: Any) -> Json:
    return {
        "name": name,
        "clientConfig": {"url": "https://127.0.0.1/"},
        "rules": [RULE],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        **fields,
    }


def configuration(*hooks: Json, name: str = "config") -> Json:
    return {"metadata": {"name": name}, "webhooks": list(hooks)}


def allowed(review: Json, **fields: Any) -> Json:
    response = {"uid": review["request"]["uid"], "allowed": True, **fields}
    return {"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response}


def denied(review: Json, **status: Any) -> Json:
    return allowed(review, allowed=False, status=status)


def patching(*operations: Json) -> Answer:
    encoded = base64.b64encode(json.dumps(operations).encode()).decode()
    return lambda review: allowed(review, patch=encoded, patchType="JSONPatch")


def setting(key: str, value: str) -> Answer:
    return patching({"op": "add", "path": f"/data/{key}", "value": value})


def config_map(name: str = "one", labels: Json | None = None, **data: str) -> Json:
    return {"metadata": {"name": name, "labels": labels or {}}, "data": {"given": "1", **data}}


class Webhooks:
    """The webhooks of a test: functions by their names. It records the requests."""

    def __init__(self, **answers: Answer | Exception) -> None:
        self.answers = {f"{name}.example.com": answer for name, answer in answers.items()}
        self.reviews: list[Json] = []
        self.names: list[str] = []
        self.client = Client()
        self.client.service.call_webhooks_with(self)
        # Called before the first response, while the write waits.
        self.meanwhile: Callable[[], None] = lambda: None

    async def call(self, call: WebhookCall) -> bytes:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        review = json.loads(call.body)
        self.reviews.append(review)
        self.names.append(call.name.partition(".")[0])
        answer = self.answers[call.name]
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer(review)).encode()

    def response(self, method: str, path: str, body: Any = None, **headers: str) -> Response:
        fields = [("content-type", headers.get("content_type", "application/json"))]
        data = b"" if body is None else json.dumps(body).encode()
        request = Request.of(method, path, fields, data)
        answer: list[Response | ServedWatch] = []

        async def main() -> None:
            answer.append(await self.client.service.complete(request))

        run(main)
        assert isinstance(answer[0], Response)
        return answer[0]

    def send(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Json]:
        answer = self.response(method, path, body, **headers)
        return answer.status, json.loads(answer.body)


def test_a_mutating_webhook_changes_the_object_that_is_stored() -> None:
    hooks = Webhooks(a=setting("added", "x"))
    hooks.client.create(MUTATING, configuration(hook()))
    status, created = hooks.send("POST", CONFIG_MAPS, config_map())
    assert (status, created["data"]) == (201, {"given": "1", "added": "x"})
    assert hooks.client.get(f"{CONFIG_MAPS}/one")["data"] == created["data"]
    request = hooks.reviews[0]["request"]
    assert request["operation"] == "CREATE"
    assert request["kind"] == {"group": "", "version": "v1", "kind": "ConfigMap"}
    assert request["resource"] == {"group": "", "version": "v1", "resource": "configmaps"}
    assert (request["name"], request["namespace"]) == ("one", "default")
    assert request["object"]["data"] == {"given": "1"}
    assert request["object"]["kind"] == "ConfigMap"
    assert (request["oldObject"], request["dryRun"]) == (None, False)
    assert request["options"] == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert request["userInfo"]["username"]


def test_each_mutating_webhook_receives_the_changes_of_those_before_it() -> None:
    hooks = Webhooks(a=setting("a", "1"), b=setting("b", "2"))
    hooks.client.create(MUTATING, configuration(hook("b.example.com"), name="second"))
    hooks.client.create(MUTATING, configuration(hook(), name="first"))
    _, created = hooks.send("POST", CONFIG_MAPS, config_map())
    assert created["data"] == {"given": "1", "a": "1", "b": "2"}
    assert hooks.names == ["a", "b"]  # by the names of the configurations
    assert hooks.reviews[1]["request"]["object"]["data"] == {"given": "1", "a": "1"}


def test_a_webhook_with_reinvocation_is_repeated_after_later_changes() -> None:
    hooks = Webhooks(a=setting("a", "1"), b=setting("b", "2"))
    repeated = hook(reinvocationPolicy="IfNeeded")
    hooks.client.create(MUTATING, configuration(repeated, hook("b.example.com")))
    hooks.send("POST", CONFIG_MAPS, config_map())
    assert hooks.names == ["a", "b", "a"]
    assert hooks.reviews[2]["request"]["object"]["data"] == {"given": "1", "a": "1", "b": "2"}


class Denial(NamedTuple):
    status: Json
    code: int
    message: str


TEXT = 'admission webhook "a.example.com" denied the request'
DENIALS = {
    "a message": Denial({"message": "no"}, 400, f"{TEXT}: no"),
    "a code and a reason": Denial(
        {"code": 403, "reason": "Forbidden", "message": "no"}, 403, f"{TEXT}: no"
    ),
    "a reason only": Denial({"reason": "Wrong"}, 400, f"{TEXT}: Wrong"),
    "nothing": Denial({}, 400, f"{TEXT} without explanation"),
    "a code of success": Denial({"code": 200, "message": "no"}, 400, f"{TEXT}: no"),
}


@pytest.mark.parametrize("case", DENIALS.values(), ids=DENIALS)
def test_a_validating_webhook_refuses_with(case: Denial) -> None:
    hooks = Webhooks(a=lambda review: denied(review, **case.status))
    hooks.client.create(VALIDATING, configuration(hook()))
    status, body = hooks.send("POST", CONFIG_MAPS, config_map())
    assert (status, body["message"]) == (case.code, case.message)
    assert hooks.client.send("GET", f"{CONFIG_MAPS}/one")[0] == 404


FAILED = 'Internal error occurred: failed calling webhook "a.example.com": '


def with_uid(review: Json) -> Json:
    return allowed(review, uid="other")


FAILURES: dict[str, tuple[Answer | Exception, str]] = {
    "no response": (
        WebhookError("failed to call webhook: EOF"),
        f"{FAILED}failed to call webhook: EOF",
    ),
    "another uid": (with_uid, FAILED + 'expected response.uid="'),
    "no response object": (
        lambda review: {"apiVersion": review["apiVersion"], "kind": "AdmissionReview"},
        f"{FAILED}webhook response was absent",
    ),
    "another version": (
        lambda review: {**allowed(review), "apiVersion": "admission.k8s.io/v9"},
        f"{FAILED}expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got "
        "admission.k8s.io/v9, Kind=AdmissionReview",
    ),
    "a patch without a type": (
        lambda review: allowed(review, patch="W10="),
        FAILED + 'webhook returned invalid response.patchType of ""',
    ),
}


@pytest.mark.parametrize(("answer", "text"), FAILURES.values(), ids=FAILURES)
def test_a_webhook_that_fails_refuses_the_write_or_is_ignored(
    answer: Answer | Exception, text: str
) -> None:
    hooks = Webhooks(a=answer)
    hooks.client.create(MUTATING, configuration(hook()))
    status, body = hooks.send("POST", CONFIG_MAPS, config_map())
    assert status == 500
    assert body["message"].startswith(text)
    hooks = Webhooks(a=answer)
    hooks.client.create(MUTATING, configuration(hook(failurePolicy="Ignore")))
    assert hooks.send("POST", CONFIG_MAPS, config_map())[0] == 201


NAMESPACE = "kubernetes.io/metadata.name"
UNMATCHED = {
    "another operation": {"rules": [{**RULE, "operations": ["DELETE"]}]},
    "another resource": {"rules": [{**RULE, "resources": ["secrets"]}]},
    "another group": {"rules": [{**RULE, "apiGroups": ["apps"]}]},
    "a subresource": {"rules": [{**RULE, "resources": ["configmaps/status"]}]},
    "cluster-scoped objects": {"rules": [{**RULE, "scope": "Cluster"}]},
    "no rules": {"rules": []},
    "another namespace": {"namespaceSelector": {"matchLabels": {NAMESPACE: "x"}}},
    "other labels": {"objectSelector": {"matchLabels": {"team": "b"}}},
    "a condition that does not hold": {
        "matchConditions": [{"name": "n", "expression": "object.metadata.name == 'two'"}]
    },
}


@pytest.mark.parametrize("fields", UNMATCHED.values(), ids=UNMATCHED)
def test_a_webhook_is_not_called_if_it_names(fields: Json) -> None:
    hooks = Webhooks(a=lambda review: denied(review, message="no"))
    hooks.client.create(VALIDATING, configuration(hook(**fields)))
    assert hooks.send("POST", CONFIG_MAPS, config_map(labels={"team": "a"}))[0] == 201
    assert hooks.reviews == []


MATCHED = {
    "all resources": {"rules": [{**RULE, "resources": ["*"], "operations": ["*"]}]},
    "the namespace": {"namespaceSelector": {"matchLabels": {NAMESPACE: "default"}}},
    "the labels": {"objectSelector": {"matchLabels": {"team": "a"}}},
    "a condition that holds": {
        "matchConditions": [{"name": "n", "expression": "object.metadata.name == 'one'"}]
    },
}


@pytest.mark.parametrize("fields", MATCHED.values(), ids=MATCHED)
def test_a_webhook_is_called_if_it_names(fields: Json) -> None:
    hooks = Webhooks(a=lambda review: denied(review, message="no"))
    hooks.client.create(VALIDATING, configuration(hook(**fields)))
    assert hooks.send("POST", CONFIG_MAPS, config_map(labels={"team": "a"}))[0] == 400


def test_a_rule_for_another_version_matches_and_shows_the_object_in_it() -> None:
    rule = {
        "apiGroups": ["autoscaling"],
        "apiVersions": ["v2"],
        "operations": ["CREATE"],
        "resources": ["horizontalpodautoscalers"],
    }
    body = {
        "metadata": {"name": "h"},
        "spec": {
            "maxReplicas": 3,
            "scaleTargetRef": {"kind": "Deployment", "name": "web"},
            "targetCPUUtilizationPercentage": 50,
        },
    }
    path = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
    hooks = Webhooks(a=patching({"op": "replace", "path": "/spec/maxReplicas", "value": 7}))
    hooks.client.create(MUTATING, configuration(hook(rules=[rule])))
    status, created = hooks.send("POST", path, body)
    assert (status, created["spec"]["maxReplicas"]) == (201, 7)
    request = hooks.reviews[0]["request"]
    assert (request["kind"]["version"], request["requestKind"]["version"]) == ("v2", "v1")
    assert request["object"]["spec"]["metrics"][0]["resource"]["name"] == "cpu"
    exact = Webhooks(a=lambda review: denied(review))
    exact.client.create(MUTATING, configuration(hook(rules=[rule], matchPolicy="Exact")))
    assert exact.send("POST", path, body)[0] == 201


def test_a_webhook_is_called_again_if_the_object_changed_in_between() -> None:
    hooks = Webhooks(a=setting("added", "x"))
    hooks.client.create(CONFIG_MAPS, config_map())
    hooks.client.create(MUTATING, configuration(hook()))

    def change() -> None:
        patch = {"data": {"other": "y"}}
        hooks.client.send("PATCH", f"{CONFIG_MAPS}/one", patch, content_type=MERGE)

    hooks.meanwhile = change
    patch = {"data": {"mine": "z"}}
    status, changed = hooks.send("PATCH", f"{CONFIG_MAPS}/one", patch, content_type=MERGE)
    assert status == 200
    assert changed["data"] == {"given": "1", "other": "y", "mine": "z", "added": "x"}
    assert [review["request"]["object"]["data"] for review in hooks.reviews] == [
        {"given": "1", "mine": "z"},
        {"given": "1", "other": "y", "mine": "z"},
    ]


def test_the_webhook_receives_the_name_and_the_uid_that_are_stored() -> None:
    hooks = Webhooks(a=allowed)
    hooks.client.create(VALIDATING, configuration(hook()))
    body = {"metadata": {"generateName": "one-"}}
    _, created = hooks.send("POST", CONFIG_MAPS, body)
    seen = hooks.reviews[0]["request"]["object"]["metadata"]
    assert (seen["name"], seen["uid"]) == (
        created["metadata"]["name"],
        created["metadata"]["uid"],
    )
    assert len(hooks.reviews) == 1
    _, other = hooks.send("POST", CONFIG_MAPS, body)
    assert other["metadata"]["uid"] != created["metadata"]["uid"]


def test_deletions_are_reviewed_one_by_one_and_in_collections() -> None:
    rule = {**RULE, "operations": ["DELETE"]}
    hooks = Webhooks(a=lambda review: denied(review, message="no"))
    hooks.client.create(CONFIG_MAPS, config_map("one"))
    hooks.client.create(CONFIG_MAPS, config_map("two"))
    hooks.client.create(VALIDATING, configuration(hook(rules=[rule])))
    assert hooks.send("DELETE", f"{CONFIG_MAPS}/one")[0] == 400
    request = hooks.reviews[0]["request"]
    assert request["object"] is None
    assert request["oldObject"]["data"] == {"given": "1"}
    assert hooks.send("DELETE", CONFIG_MAPS)[0] == 400
    assert len(hooks.client.get(CONFIG_MAPS)["items"]) == 2
    hooks.answers["a.example.com"] = allowed
    assert hooks.send("DELETE", CONFIG_MAPS)[0] == 200
    assert hooks.client.get(CONFIG_MAPS)["items"] == []


def test_a_dry_run_is_marked_and_stores_nothing() -> None:
    hooks = Webhooks(a=setting("added", "x"))
    hooks.client.create(MUTATING, configuration(hook()))
    status, shown = hooks.send("POST", f"{CONFIG_MAPS}?dryRun=All", config_map())
    assert (status, shown["data"]["added"]) == (201, "x")
    assert hooks.reviews[0]["request"]["dryRun"] is True
    assert hooks.client.send("GET", f"{CONFIG_MAPS}/one")[0] == 404


def test_warnings_of_webhooks_are_in_the_response() -> None:
    hooks = Webhooks(a=lambda review: allowed(review, warnings=["soon gone"]))
    hooks.client.create(VALIDATING, configuration(hook()))
    response = hooks.response("POST", CONFIG_MAPS, config_map())
    assert "soon gone" in str(response.headers)


def test_configurations_of_webhooks_are_not_reviewed() -> None:
    rule = {**RULE, "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*", "*"]}
    hooks = Webhooks(a=lambda review: denied(review, message="no"))
    hooks.client.create(VALIDATING, configuration(hook(rules=[{**rule, "operations": ["*"]}])))
    assert hooks.send("POST", CONFIG_MAPS, config_map())[0] == 400
    assert hooks.send("DELETE", f"{VALIDATING}/config")[0] == 200


def test_writes_of_components_in_the_process_are_reviewed() -> None:
    operations = {"op": "add", "path": "/metadata/labels", "value": {"sidecar": "yes"}}
    hooks = Webhooks(a=patching(operations))
    rule = {**RULE, "resources": ["pods"]}
    hooks.client.create(MUTATING, configuration(hook(rules=[rule])))
    api = LocalApi(hooks.client.store, hooks.client.clock)
    api.webhook_calls = hooks.client.service.webhook_calls

    async def main() -> None:
        container = {"name": "c", "image": "nginx"}
        document = {"metadata": {"name": "p"}, "spec": {"containers": [container]}}
        pod = await api.create_document(Pod, "default", document)
        assert pod.metadata.labels == {"sidecar": "yes"}

    run(main)


class Problem(NamedTuple):
    fields: Json
    field: str
    message: str


PROBLEMS = {
    "a match condition that does not compile": Problem(
        {"matchConditions": [{"name": "n", "expression": "object.x =="}]},
        "webhooks[0].matchConditions[0].expression",
        'Invalid value: "object.x ==": compilation failed: ERROR: <input>:1:12: ',
    ),
    "a match condition that is no boolean": Problem(
        {"matchConditions": [{"name": "n", "expression": "'a'"}]},
        "webhooks[0].matchConditions[0].expression",
        "Invalid value: \"'a'\": must evaluate to bool",
    ),
    "a name with two segments": Problem(
        {"name": "a.example"},
        "webhooks[0].name",
        'Invalid value: "a.example": should be a domain with at least three segments separated by '
        "dots",
    ),
    "neither a url nor a service": Problem(
        {"clientConfig": {}},
        "webhooks[0].clientConfig",
        "Required value: exactly one of url or service is required",
    ),
    "an unsafe url": Problem(
        {"clientConfig": {"url": "http://127.0.0.1/"}},
        "webhooks[0].clientConfig.url",
        "Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: "
        "https://host[:port]/path",
    ),
    "a timeout that is too long": Problem(
        {"timeoutSeconds": 31},
        "webhooks[0].timeoutSeconds",
        "Invalid value: 31: the timeout value must be between 1 and 30 seconds",
    ),
    "side effects": Problem(
        {"sideEffects": "Some"},
        "webhooks[0].sideEffects",
        'Unsupported value: "Some": supported values: "None", "NoneOnDryRun"',
    ),
    "no versions": Problem(
        {"admissionReviewVersions": []},
        "webhooks[0].admissionReviewVersions",
        "Required value: must specify one of v1, v1beta1",
    ),
}


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_a_configuration_is_refused_that_has(problem: Problem) -> None:
    client = Client()
    status, body = client.send("POST", VALIDATING, configuration(hook(**problem.fields)))
    assert status == 422, body
    ((field, message),) = [(each["field"], each["message"]) for each in body["details"]["causes"]]
    assert field == problem.field
    assert message.startswith(problem.message)
