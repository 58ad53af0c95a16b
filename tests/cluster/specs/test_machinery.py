"""Specs of the API itself: definitions, policies, events, lists, watches."""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from urllib.parse import urlencode

import pytest

from kubesched.cluster.apiserver.http import ServedWatch
from kubesched.cluster.apiserver.http.protobuf.wire_encoding import fields
from kubesched.foundation.http.http_messages import Request, Response
from tests.cluster.specs.definitions import DEFINITIONS, define
from tests.cluster.specs.spec_runner import PATCHES, Json, RefusedError, Spec, SpecSteps, play, pod

METADATA = ",".join(
    f"{language};as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
    for language in ("application/vnd.kubernetes.protobuf", "application/json")
)
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
FLOW = "/apis/flowcontrol.apiserver.k8s.io/v1"


def is_there(spec: Spec, path: str) -> bool:
    answer = spec.ask("GET", path)
    assert isinstance(answer, Response)
    return answer.status == 200


# Definitions


async def _definitions_are_listed(spec: Spec) -> None:
    """Definitions are listed and deleted by label; their resources are no longer served then."""
    label = {"e2e-list": spec.namespace}
    made = [
        define(spec, plural=f"{letter}noxus", namespaced=False, labels=label) for letter in "abc"
    ]
    stays = define(spec, plural="stays", namespaced=False)
    selected = f"{DEFINITIONS}?labelSelector=e2e-list%3D{spec.namespace}"
    found = spec.send("GET", selected)["items"]
    assert len(found) == 3
    for each, defined in zip(found, made, strict=True):
        assert each["spec"] == spec.send("GET", defined.definition)["spec"]
    for each in made:
        each.create("instance")
    spec.send("DELETE", selected)
    assert not spec.send("GET", selected)["items"]
    for each in made:
        assert not is_there(spec, each.path())
    listed = spec.send("GET", f"/apis/{stays.group}/v1")["resources"]
    assert [each["name"] for each in listed] == ["stays"]
    assert is_there(spec, stays.definition)


async def _definition_has_a_status(spec: Spec) -> None:
    path = f"{define(spec, namespaced=False).definition}/status"
    found = spec.send("GET", path)
    found["status"]["conditions"].append({"message": "updated"})
    updated = spec.send("PUT", path, found)
    assert updated["status"]["conditions"][-1]["message"] == "updated"
    patch = [{"op": "add", "path": "/status/conditions", "value": [{"message": "patched"}]}]
    patched = spec.send("PATCH", path, patch, PATCHES["json"])
    [condition] = patched["status"]["conditions"]
    assert condition["message"] == "patched"


async def _definition_goes_with_its_finalizer(spec: Spec) -> None:
    defined = define(spec, namespaced=False)
    body: Json = {"metadata": {"finalizers": ["example.com/held"]}}
    spec.send("PATCH", defined.definition, body, PATCHES["merge"])
    spec.send("DELETE", defined.definition)
    assert is_there(spec, defined.path())
    body = {"metadata": {"finalizers": []}}
    spec.send("PATCH", defined.definition, body, PATCHES["merge"])
    assert not is_there(spec, defined.definition)
    assert not is_there(spec, defined.path())


async def _defaults_come_and_go(spec: Spec) -> None:
    text = {"type": "string"}
    schema = {
        "type": "object",
        "x-kubernetes-preserve-unknown-fields": True,
        "properties": {"a": text, "b": text},
    }
    defined = define(spec, schema, namespaced=False)
    defined.create("one")
    home = "/spec/versions/0/schema/openAPIV3Schema/properties"
    patch: Json = [{"op": "add", "path": f"{home}/a/default", "value": "A"}]
    spec.send("PATCH", defined.definition, patch, PATCHES["json"])
    assert spec.send("GET", defined.path("one"))["a"] == "A"
    assert defined.create("two")["a"] == "A"
    patch = [
        {"op": "remove", "path": f"{home}/a/default"},
        {"op": "add", "path": f"{home}/b/default", "value": "B"},
    ]
    spec.send("PATCH", defined.definition, patch, PATCHES["json"])
    found = spec.send("GET", defined.path("two"))
    assert (found["a"], found["b"]) == ("A", "B")


async def _custom_resources_are_watched(spec: Spec) -> None:
    """Custom resources are watched by name, in each version.

    Earlier changes are delivered as well.
    """
    defined = define(spec, namespaced=False, versions=("v1", "v2"))
    made = defined.create("setup-instance", metadata={"namespace": ""}, alpha="foo_123", spec={})
    defined.delete("setup-instance")
    for version in ("v1", "v2"):
        path = f"{defined.path(version=version)}?watch=true&resourceVersion="
        stream = spec.ask("GET", path + made["metadata"]["resourceVersion"])
        assert isinstance(stream, ServedWatch)
        [event] = json_events(stream)
        assert event["type"] == "DELETED"
        assert event["object"]["apiVersion"] == f"{defined.group}/{version}"
    by_name = "?watch=true&fieldSelector=metadata.name%3Dname1&timeoutSeconds=600"
    stream = spec.ask("GET", defined.path() + by_name)
    assert isinstance(stream, ServedWatch)
    defined.create("name1")
    defined.create("name2")
    body = {"metadata": {"labels": {"a": "b"}}}
    spec.send("PATCH", defined.path("name1"), body, PATCHES["merge"])
    defined.delete("name1")
    assert [each["type"] for each in json_events(stream)] == ["ADDED", "MODIFIED", "DELETED"]


def json_events(stream: ServedWatch) -> list[Json]:
    seen = [each for each in stream.watcher.read() if each.record is not None]
    return [json.loads(line) for line in stream.encode(seen).splitlines()]


# Policies


def matching(*groups: str, resource: str, label: str) -> Json:
    rule = {
        "apiGroups": list(groups),
        "apiVersions": ["v1"],
        "operations": ["*"],
        "resources": [resource],
        "scope": "*",
    }
    selector = {"matchLabels": {label: "true"}}
    return {"matchPolicy": "Equivalent", "namespaceSelector": selector, "resourceRules": [rule]}


def replicated(name: str, replicas: int) -> Json:
    container = {"name": "sample", "image": "registry.k8s.io/pause:3.10"}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    selector = {"matchLabels": {"app": name}}
    wanted = {"replicas": replicas, "selector": selector, "template": template}
    return {"metadata": {"name": name}, "spec": wanted}


def bound(spec: Spec, kind: str, name: str, **more: Any) -> None:
    selector = {"matchLabels": {spec.namespace: "true"}}
    wanted = {"policyName": name, "matchResources": {"namespaceSelector": selector}, **more}
    spec.send("POST", f"{ADMISSION}/{kind}", {"metadata": {"name": f"{name}b"}, "spec": wanted})


def labelled(spec: Spec) -> None:
    body = {"metadata": {"labels": {spec.namespace: "true"}}}
    spec.patch("namespaces", spec.namespace, body)


def policy(spec: Spec, name: str, validations: list[Json], **more: Any) -> None:
    constraints = matching("apps", resource="deployments", label=spec.namespace)
    wanted = {"matchConstraints": constraints, "validations": validations, **more}
    body = {"metadata": {"name": name}, "spec": wanted}
    spec.send("POST", f"{ADMISSION}/validatingadmissionpolicies", body)


async def _policies_validate(spec: Spec) -> None:
    labelled(spec)
    name = f"{spec.namespace}.policy.example.com"
    words = "'wants replicas > 1, got ' + object.spec.replicas"
    validations = [
        {"expression": "object.spec.replicas > 1", "messageExpression": words},
        {"expression": f"namespaceObject.metadata.name == '{spec.namespace}'", "message": "no"},
    ]
    policy(spec, name, validations)
    bound(spec, "validatingadmissionpolicybindings", name, validationActions=["Deny"])
    spec.refused("deployments", replicated("marker-deployment", 1))
    spec.create("deployments", replicated("replicated", 2))
    spec.create("replicasets", replicated("non-replicated", 1))


async def _policies_have_variables(spec: Spec) -> None:
    labelled(spec)
    name = f"{spec.namespace}.policy.example.com"
    variables = [
        {"name": "replicas", "expression": "object.spec.replicas"},
        {"name": "oddReplicas", "expression": "variables.replicas % 2 == 1"},
    ]
    validations = [
        {"expression": "variables.replicas > 1"},
        {"expression": "variables.oddReplicas"},
    ]
    policy(spec, name, validations, variables=variables)
    bound(spec, "validatingadmissionpolicybindings", name, validationActions=["Deny"])
    spec.refused("deployments", replicated("marker-deployment", 1))
    spec.refused("deployments", replicated("even", 2))
    spec.create("deployments", replicated("replicated", 3))


def warned(spec: Spec, name: str) -> list[tuple[str, str]]:
    found = spec.send("GET", f"{ADMISSION}/validatingadmissionpolicies/{name}")
    told = found["status"]["typeChecking"].get("expressionWarnings", ())
    return [(each["fieldRef"], each["warning"]) for each in told]


async def _policies_are_type_checked(spec: Spec) -> None:
    name = f"{spec.namespace}.policy.example.com"
    policy(spec, f"correct-{name}", [{"expression": "object.spec.replicas > 1"}])
    assert warned(spec, f"correct-{name}") == []
    words = "'wants replicas > 1, got ' + object.spec.replicas"
    confused = {"expression": "object.spec.replicas > '1'", "messageExpression": words}
    policy(spec, f"confused-{name}", [confused])
    (first, told), (second, more) = warned(spec, f"confused-{name}")
    assert first == "spec.validations[0].expression"
    assert "found no matching overload for '_>_' applied to '(int, string)'" in told
    assert second == "spec.validations[0].messageExpression"
    assert "found no matching overload for '_+_' applied to '(string, int)'" in more


async def _policies_know_custom_resources(spec: Spec) -> None:
    replicas = {"type": "integer"}
    wanted = {
        "type": "object",
        "properties": {"replicas": replicas, "cronSpec": {"type": "string"}},
    }
    schema = {"type": "object", "properties": {"spec": wanted}}
    defined = define(spec, schema, plural="crontabs")
    constraints = matching(defined.group, resource="crontabs", label=spec.namespace)
    name = f"{spec.namespace}.crd.example.com"
    policy(
        spec,
        f"correct-{name}",
        [{"expression": "object.spec.replicas > 1"}],
        matchConstraints=constraints,
    )
    assert warned(spec, f"correct-{name}") == []
    expressions = ("object.spec.replicas > '1'", "object.spec.maxRetries < 10")
    validations = [{"expression": each} for each in expressions]
    policy(spec, f"confused-{name}", validations, matchConstraints=constraints)
    (first, told), (second, more) = warned(spec, f"confused-{name}")
    assert (first, second) == tuple(f"spec.validations[{n}].expression" for n in (0, 1))
    assert "found no matching overload for '_>_' applied to '(int, string)'" in told
    assert "undefined field 'maxRetries'" in more


async def _policies_mutate(spec: Spec) -> None:
    labelled(spec)
    name = f"{spec.namespace}.policy.example.com"
    expressions = (
        "Object{spec: Object.spec{replicas: 7}}",
        'Object{metadata: Object.metadata{annotations: {"mutated-by": "admission-policy"}}}',
    )
    mutations = [
        {"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": each}}
        for each in expressions
    ]
    constraints = matching("apps", resource="deployments", label=spec.namespace)
    wanted = {
        "matchConstraints": constraints,
        "mutations": mutations,
        "reinvocationPolicy": "Never",
    }
    body = {"metadata": {"name": name}, "spec": wanted}
    spec.send("POST", f"{ADMISSION}/mutatingadmissionpolicies", body)
    bound(spec, "mutatingadmissionpolicybindings", name)
    made = spec.create("deployments", replicated("marker-deployment", 1))
    assert made["spec"]["replicas"] == 7
    assert made["metadata"]["annotations"]["mutated-by"] == "admission-policy"
    spec.delete("deployments", "marker-deployment", propagationPolicy="Background")


def _api(home: str, plural: str, wanted: Json, changed: Json, *, has_status: bool) -> SpecSteps:
    """Every verb of a cluster-scoped resource, as the conformance tests use it."""

    async def steps(spec: Spec) -> None:
        path, mine = f"{home}/{plural}", f"labelSelector=e2e%3D{spec.namespace}"
        metadata = {"generateName": "e2e-example-", "labels": {"e2e": spec.namespace}}
        for _ in range(3):
            made = spec.send("POST", path, {"metadata": metadata, "spec": wanted})
        one = f"{path}/{made['metadata']['name']}"
        assert spec.send("GET", one)["metadata"]["uid"] == made["metadata"]["uid"]
        listed = spec.send("GET", f"{path}?{mine}")
        assert len(listed["items"]) == 3
        version = listed["metadata"]["resourceVersion"]
        stream = spec.ask("GET", f"{path}?watch=true&{mine}&resourceVersion={version}")
        assert isinstance(stream, ServedWatch)
        body = {"metadata": {"annotations": {"patched": "true"}}, "spec": changed}
        patched = spec.send("PATCH", one, body, PATCHES["merge"])
        assert patched["spec"].items() >= changed.items()
        patched["metadata"]["annotations"]["updated"] = "true"
        updated = spec.send("PUT", one, patched)
        assert updated["metadata"]["annotations"] == {"patched": "true", "updated": "true"}
        assert {each["type"] for each in json_events(stream)} == {"MODIFIED"}
        if has_status:
            custom = {"type": "E2E", "status": "False", "reason": "e2e", "message": "Set"}
            custom["lastTransitionTime"] = "2024-01-01T00:00:00Z"
            body = {"status": {"conditions": [custom]}}
            found = spec.send("PATCH", f"{one}/status", body, PATCHES["merge"])
            found["status"]["conditions"].append({**custom, "type": "E2EToo"})
            found = spec.send("PUT", f"{one}/status", found)
            assert [each["type"] for each in found["status"]["conditions"]] == ["E2E", "E2EToo"]
        spec.send("DELETE", one)
        assert not is_there(spec, one)
        spec.send("DELETE", f"{path}?{mine}")
        assert not spec.send("GET", f"{path}?{mine}")["items"]

    return steps


RULES = {
    "resourceRules": [
        {
            "operations": ["CREATE"],
            "apiGroups": ["apps"],
            "apiVersions": ["v1"],
            "resources": ["deployments"],
        }
    ]
}
LIMITED = {"nominalConcurrencyShares": 2, "limitResponse": {"type": "Reject"}}
MUTATION = {
    "patchType": "ApplyConfiguration",
    "applyConfiguration": {"expression": "Object{spec: Object.spec{replicas: 100}}"},
}
UNUSED_RULE = {
    "subjects": [{"kind": "User", "user": {"name": "example-e2e-non-existent-user"}}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


# Events


async def _core_events(spec: Spec) -> None:
    body = {
        "metadata": {"name": "event-test", "labels": {"testevent-constant": spec.namespace}},
        "message": "This is a test event",
        "reason": "Test",
        "type": "Normal",
        "count": 1,
        "involvedObject": {"namespace": spec.namespace},
    }
    spec.create("events", body)
    assert len(spec.list("events", f"testevent-constant={spec.namespace}", everywhere=True)) == 1
    spec.patch("events", "event-test", {"message": "This is a test event - patched"})
    found = spec.get("events", "event-test")
    assert found["message"] == "This is a test event - patched"
    found["series"] = {"count": 100, "lastObservedTime": "2017-09-19T13:49:16.000000Z"}
    del found["metadata"]["resourceVersion"]
    spec.update("events", found)
    again = spec.get("events", "event-test")
    del again["metadata"]["resourceVersion"]
    assert again == found
    spec.delete("events", "event-test")
    for number in range(3):
        body["metadata"] = {"name": f"test-event-{number}", "labels": {"testevent-set": "true"}}
        spec.create("events", body)
    spec.delete_all("events", "testevent-set=true")
    assert not spec.list("events", "testevent-set=true")


async def _new_events(spec: Spec) -> None:
    home = f"/apis/events.k8s.io/v1/namespaces/{spec.namespace}/events"
    body = {
        "metadata": {"name": "event-test", "labels": {"testevent-constant": "true"}},
        "regarding": {"namespace": spec.namespace},
        "eventTime": "2017-09-19T13:49:16.000000Z",
        "note": "This is event-test",
        "action": "Do",
        "reason": "Test",
        "type": "Normal",
        "reportingController": "test-controller",
        "reportingInstance": "test-node",
    }
    spec.send("POST", home, body)
    for place in (home, "/apis/events.k8s.io/v1/events"):
        listed = spec.send("GET", f"{place}?fieldSelector=reportingController%3Dtest-controller")
        assert [each["metadata"]["name"] for each in listed["items"]] == ["event-test"]
    patch = {"series": {"count": 2, "lastObservedTime": "2020-01-01T00:00:00.000000Z"}}
    patched = spec.send("PATCH", f"{home}/event-test", patch, PATCHES["strategic"])
    assert patched["series"]["count"] == 2
    patched["series"] = {"count": 100, "lastObservedTime": "2017-09-19T13:49:16.000000Z"}
    updated = spec.send("PUT", f"{home}/event-test", patched)
    assert updated["series"] == patched["series"]
    assert updated["eventTime"] == body["eventTime"]
    spec.send("DELETE", f"{home}/event-test")
    assert not spec.send("GET", f"{home}?labelSelector=testevent-constant%3Dtrue")["items"]


# Lists and watches


def secret(name: str) -> Json:
    return {"metadata": {"name": name, "labels": {"watchlist": "true"}}}


async def _metadata_is_compared(spec: Spec) -> None:
    """Metadata-only items in lists equal single ones and those in a watch: without a kind."""
    for number in range(1, 4):
        spec.create("secrets", secret(f"secret-{number}"))
    path = spec.path("secrets")
    one = binary(spec, f"{path}/secret-1")
    listed = binary(spec, f"{path}?labelSelector=watchlist%3Dtrue")
    items = [part for number, part in fields(listed) if number == 2]
    assert items[0] == one
    assert len(items) == 3
    begin = "watch=true&sendInitialEvents=true&allowWatchBookmarks=true"
    query = f"{begin}&resourceVersionMatch=NotOlderThan&labelSelector=watchlist%3Dtrue"
    stream = spec.service.answer(Request.of("GET", f"{path}?{query}", {"accept": METADATA}))
    assert isinstance(stream, ServedWatch)
    seen = [each for each in stream.watcher.read() if each.record is not None]
    frames = stream.encode(seen)
    assert frames.count(b"ADDED") == 3
    assert one in frames
    assert b"k8s.io/initial-events-end" in stream.bookmark(stream.revision(), True)


def binary(spec: Spec, path: str) -> bytes:
    """Return the protobuf message of a metadata-only response."""
    answer = spec.service.answer(Request.of("GET", path, {"accept": METADATA}))
    assert isinstance(answer, Response)
    assert answer.content_type == "application/vnd.kubernetes.protobuf"
    envelope = dict(fields(answer.body[4:]))
    message = envelope[2]
    assert isinstance(message, bytes)
    return message


async def _lists_equal_what_was_made(spec: Spec) -> None:
    made = [spec.create("secrets", secret(f"secret-{number}")) for number in range(1, 6)]
    listed = spec.list("secrets", "watchlist=true")
    for each in made:
        assert (each.pop("kind"), each.pop("apiVersion")) == ("Secret", "v1")
    assert listed == made


async def _tables_come_in_chunks(spec: Spec) -> None:
    container = {"name": "test", "image": "test2"}
    for number in range(20):
        body = {
            "metadata": {"name": f"template-{number:04}"},
            "template": {"spec": {"containers": [container]}},
        }
        spec.create("podtemplates", body)
    headers = {"accept": "application/json;as=Table;v=v1beta1;g=meta.k8s.io"}
    path = spec.path("podtemplates")
    first = table(spec, path, headers, limit="2")
    assert [row["cells"][0] for row in first["rows"]] == ["template-0000", "template-0001"]
    assert first["apiVersion"] == "meta.k8s.io/v1beta1"
    assert first["metadata"]["resourceVersion"]
    rest = table(spec, path, headers, **{"continue": first["metadata"]["continue"]})
    assert rest["rows"][0]["cells"][0] == "template-0002"
    assert len(rest["rows"]) == 18
    nodes = table(spec, "/api/v1/nodes", headers)
    assert nodes["columnDefinitions"][0]["name"] == "Name"
    assert len(nodes["rows"][0]["cells"]) == len(nodes["columnDefinitions"])


def table(spec: Spec, path: str, headers: Json, **query: str) -> Json:
    answer = spec.service.answer(Request.of("GET", f"{path}?{urlencode(query)}", headers))
    assert isinstance(answer, Response)
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


async def _watches_follow_selectors(spec: Spec) -> None:
    watching = spec.watch("configmaps", labels="watch-this%3Dyes")
    body = {"metadata": {"name": "m", "labels": {"watch-this": "yes"}}}
    spec.create("configmaps", body)

    def changed(key: str, value: str, labels: Json) -> None:
        held = spec.get("configmaps", "m")
        held.setdefault("data", {})[key] = value
        held["metadata"]["labels"] = labels
        spec.update("configmaps", held)

    changed("mutation", "1", {"watch-this": "yes"})
    changed("mutation", "1", {"watch-this": "no"})
    changed("mutation", "2", {"watch-this": "no"})
    changed("mutation", "2", {"watch-this": "yes"})
    changed("mutation", "3", {"watch-this": "yes"})
    spec.delete("configmaps", "m")
    seen = watching.read()
    kinds = ["ADDED", "MODIFIED", "DELETED", "ADDED", "MODIFIED", "DELETED"]
    assert [each["type"] for each in seen] == kinds
    again = spec.watch("configmaps", seen[1]["object"]["metadata"]["resourceVersion"])
    names = [each["type"] for each in again.read() if each["object"]["metadata"]["name"] == "m"]
    assert names == ["MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "DELETED"]


async def _too_old_a_watch_is_told_in_the_stream(spec: Spec) -> None:
    """As an event: a client that opens a watch does not expect to be refused."""
    defined = define(spec)
    answer = spec.ask("GET", f"{defined.path()}?watch=true&resourceVersion=1")
    assert isinstance(answer, Response)
    assert answer.status == 200
    event = json.loads(answer.body)
    assert event["type"] == "ERROR"
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


# Applying


async def _ports_are_owned(spec: Spec) -> None:
    body = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "test-svc"},
        "spec": {"ports": [{"port": 8080, "protocol": "UDP"}]},
    }
    for manager in ("apply_test", "apply_test_2"):
        path = f"{spec.path('services', 'test-svc')}?fieldManager={manager}"
        applied = spec.send("PATCH", path, body, "application/apply-patch+yaml")
    wanted = (
        '{"f:spec":{"f:ports":{"k:{\\"port\\":8080,\\"protocol\\":\\"UDP\\"}":'
        '{".":{},"f:port":{},"f:protocol":{}}}}}'
    )
    entries = applied["metadata"]["managedFields"]
    assert {each["manager"] for each in entries} == {"apply_test", "apply_test_2"}
    for each in entries:
        assert json.dumps(each["fieldsV1"], separators=(",", ":")) == wanted


async def _a_status_is_applied_apart(spec: Spec) -> None:
    kind = "application/apply-patch+yaml"
    made = {"apiVersion": "v1", "kind": "Pod", **pod("test-pod")}
    path = spec.path("pods", "test-pod")
    spec.send("PATCH", f"{path}?fieldManager=apply_test", made, kind)
    condition = {"type": "MyStatus", "status": "True"}
    head = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "test-pod"}}
    body = {**head, "status": {"conditions": [condition]}}

    def told() -> list[str]:
        found = spec.get("pods", "test-pod")["status"].get("conditions", ())
        return [each["type"] for each in found]

    spec.send("PATCH", f"{path}?fieldManager=apply_test2", body, kind)
    assert "MyStatus" not in told()
    spec.send("PATCH", f"{path}/status?fieldManager=apply_test2", body, kind)
    assert "MyStatus" in told()
    await spec.until(lambda: spec.running())
    assert "MyStatus" in told()


async def _controllers_take_fields(spec: Spec) -> None:
    kind = "application/apply-patch+yaml"
    body = {"apiVersion": "apps/v1", "kind": "Deployment", **replicated("shared", 3)}
    path = f"{spec.path('deployments', 'shared')}?fieldManager=test_applier"
    spec.send("PATCH", path, body, kind)
    spec.change("deployments", "shared", lambda it: it["spec"].update(replicas=4))
    await spec.sleep(5)
    with pytest.raises(RefusedError) as refusal:
        spec.send("PATCH", path, body, kind)
    assert refusal.value.code == 409
    assert len(refusal.value.body["details"]["causes"]) == 1
    del body["spec"]["replicas"]
    assert spec.send("PATCH", path, body, kind)["spec"]["replicas"] == 4


SCENARIOS: dict[str, SpecSteps] = {
    "definitions are listed and deleted together": _definitions_are_listed,
    "a definition has a status": _definition_has_a_status,
    "a definition goes with its last finalizer": _definition_goes_with_its_finalizer,
    "defaults come and go": _defaults_come_and_go,
    "custom resources are watched": _custom_resources_are_watched,
    "policies validate": _policies_validate,
    "policies have variables": _policies_have_variables,
    "policies are type-checked": _policies_are_type_checked,
    "policies know custom resources": _policies_know_custom_resources,
    "policies mutate": _policies_mutate,
    "every verb of policies": _api(
        ADMISSION,
        "validatingadmissionpolicies",
        {"validations": [{"expression": "object.spec.replicas <= 100"}], "matchConstraints": RULES},
        {"failurePolicy": "Ignore"},
        has_status=True,
    ),
    "every verb of bindings": _api(
        ADMISSION,
        "validatingadmissionpolicybindings",
        {"policyName": "replicalimit-policy.example.com", "validationActions": ["Deny"]},
        {"validationActions": ["Warn"]},
        has_status=False,
    ),
    "every verb of mutating policies": _api(
        ADMISSION,
        "mutatingadmissionpolicies",
        {"reinvocationPolicy": "Never", "mutations": [MUTATION], "matchConstraints": RULES},
        {"reinvocationPolicy": "IfNeeded"},
        has_status=False,
    ),
    "every verb of mutating bindings": _api(
        ADMISSION,
        "mutatingadmissionpolicybindings",
        {"policyName": "replicalimit-policy.example.com"},
        {"policyName": "another-policy.example.com"},
        has_status=False,
    ),
    "every verb of flow schemas": _api(
        FLOW,
        "flowschemas",
        {
            "matchingPrecedence": 10000,
            "priorityLevelConfiguration": {"name": "global-default"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [UNUSED_RULE],
        },
        {"matchingPrecedence": 9999},
        has_status=True,
    ),
    "every verb of priority levels": _api(
        FLOW,
        "prioritylevelconfigurations",
        {"type": "Limited", "limited": LIMITED},
        {"limited": {**LIMITED, "nominalConcurrencyShares": 4, "lendablePercent": 0}},
        has_status=True,
    ),
    "events of the core group": _core_events,
    "events of their own group": _new_events,
    "metadata is compared": _metadata_is_compared,
    "lists equal what was made": _lists_equal_what_was_made,
    "tables come in chunks": _tables_come_in_chunks,
    "watches follow selectors": _watches_follow_selectors,
    "too old a watch is told in the stream": _too_old_a_watch_is_told_in_the_stream,
    "ports are owned": _ports_are_owned,
    "a status is applied apart": _a_status_is_applied_apart,
    "controllers take fields": _controllers_take_fields,
}


@cache
def played() -> dict[str, BaseException | None]:
    return play(SCENARIOS)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_machinery(scenario: str) -> None:
    if (error := played()[scenario]) is not None:
        raise error
