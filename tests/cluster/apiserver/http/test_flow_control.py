"""Requests are classified by FlowSchemas, once there are any."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kubesched.cluster.apiserver.http import ADMIN, Requester, Users
from kubesched.foundation.http.http_messages import Request, Response
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]
GROUP = "/apis/flowcontrol.apiserver.k8s.io/v1"
SCHEMA, LEVEL = "X-Kubernetes-PF-FlowSchema-UID", "X-Kubernetes-PF-PriorityLevel-UID"


def make_client() -> Client:
    account = "system:serviceaccount:default:robot"
    return Client(Users({"root": ADMIN, "ann": Requester("ann"), "robot": Requester(account)}))


def headers(client: Client, path: str, token: str = "ann") -> tuple[str, str]:
    request = Request.of("GET", path, {"authorization": f"Bearer {token}"})
    answer = asyncio.run(client.service.complete(request))
    assert isinstance(answer, Response)
    return answer.headers.get(SCHEMA, ""), answer.headers.get(LEVEL, "")


def create(client: Client, plural: str, name: str, spec: Json) -> str:
    body = {"metadata": {"name": name}, "spec": spec}
    code, made = client.send("POST", f"{GROUP}/{plural}", body, authorization="Bearer root")
    assert code == 201, made
    return made["metadata"]["uid"]


def uid(client: Client, plural: str, name: str) -> str:
    path = f"{GROUP}/{plural}/{name}"
    return client.get(path, authorization="Bearer root")["metadata"]["uid"]


RESOURCES = {
    "verbs": ["list"],
    "apiGroups": [""],
    "resources": ["pods"],
    "namespaces": ["default"],
}
PATHS = {"verbs": ["*"], "nonResourceURLs": ["/metrics", "/version/*"]}
ANN = {"kind": "User", "user": {"name": "ann"}}
ROBOTS = {"kind": "ServiceAccount", "serviceAccount": {"namespace": "default", "name": "*"}}
PODS = "/api/v1/namespaces/default/pods"


@pytest.mark.parametrize(
    ("subject", "path", "token", "matches"),
    [
        (ANN, PODS, "ann", True),
        (ANN, PODS, "robot", False),
        (ANN, f"{PODS}/p", "ann", False),  # the verb is get
        (ANN, "/api/v1/pods", "ann", False),  # not in the namespace
        (ANN, "/api/v1/namespaces/default/services", "ann", False),
        (ANN, "/metrics", "ann", True),
        (ANN, "/apis", "ann", False),
        (ROBOTS, PODS, "robot", True),
        (ROBOTS, PODS, "ann", False),
        ({"kind": "Group", "group": {"name": "system:authenticated"}}, PODS, "robot", True),
    ],
)
def test_a_request_belongs_to_the_first_schema_that_matches(
    subject: Json, path: str, token: str, matches: bool
) -> None:
    client = make_client()
    level = create(client, "prioritylevelconfigurations", "mine", {"type": "Limited"})
    rule = {"subjects": [subject], "resourceRules": [RESOURCES], "nonResourceRules": [PATHS]}
    spec = {"priorityLevelConfiguration": {"name": "mine"}, "rules": [rule]}
    schema = create(client, "flowschemas", "mine", {**spec, "matchingPrecedence": 1000})
    create(client, "flowschemas", "later", {**spec, "matchingPrecedence": 1001})
    dangling = {**spec, "priorityLevelConfiguration": {"name": "none"}, "matchingPrecedence": 1}
    create(client, "flowschemas", "dangling", dangling)
    if matches:
        assert headers(client, path, token) == (schema, level)
        return
    default = "global-default"
    assert headers(client, path, token) == (
        uid(client, "flowschemas", default),
        uid(client, "prioritylevelconfigurations", default),
    )


def test_the_schemas_of_the_server_apply_to_their_users_only() -> None:
    client = make_client()
    client.get(f"{GROUP}/flowschemas", authorization="Bearer root")
    for token, path, name in (("root", PODS, "exempt"), ("ann", PODS, "global-default")):
        assert headers(client, path, token)[0] == uid(client, "flowschemas", name)


def test_the_condition_dangling_depends_on_the_priority_level() -> None:
    client = make_client()
    assert headers(client, PODS) == ("", "")  # nothing is classified before the first use
    spec = {"priorityLevelConfiguration": {"name": "mine"}, "rules": []}
    create(client, "flowschemas", "mine", spec)

    def dangling() -> str:
        headers(client, f"{GROUP}/flowschemas", "root")
        shown = client.get(f"{GROUP}/flowschemas/mine", authorization="Bearer root")
        (condition,) = shown["status"]["conditions"]
        assert condition["type"] == "Dangling"
        return condition["status"]

    assert dangling() == "True"
    create(client, "prioritylevelconfigurations", "mine", {"type": "Limited"})
    assert dangling() == "False"
    _, text = client.send("GET", "/metrics", authorization="Bearer root")
    assert 'apiserver_flowcontrol_nominal_limit_seats{priority_level="mine"}' in text
