"""Recorded requests for pod groups to a real API server, replayed against this server.

The recorded server had all pod group features enabled (docs/reference/09 §2).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.api.time import parse_time
from tests.cluster.apiserver.http.client import Client
from tests.cluster.apiserver.http.test_recorded_requests import BEARER, USERS
from tests.cluster.apiserver.test_recorded_requests import Translation, comparable

PODS = "/api/v1/namespaces/wire/pods"
GROUPS = "/apis/scheduling.k8s.io/v1alpha2/namespaces/wire/podgroups"
GANG = {"schedulingPolicy": {"gang": {"minCount": 2}}}
IN_A_GROUP = {
    "metadata": {"name": "p"},
    "spec": {
        "containers": [{"name": "c", "image": "i"}],
        "schedulingGroup": {"podGroupName": "g"},
    },
}


def ask(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    return client.send(method, path, body, authorization=BEARER, **headers)


def a_server(features: frozenset[str] | None = None) -> Client:
    client = Client(USERS, parse_time("2026-11-15T13:59:56Z"), features=features)
    code, _ = ask(client, "POST", "/api/v1/namespaces", {"metadata": {"name": "wire"}})
    assert code == 201
    return client


@pytest.fixture(scope="module")
def outcomes(goldens: Path) -> dict[str, tuple[Any, Any]]:
    """Return (response, recorded response) by the name of the request."""
    client, translation = a_server(), Translation()
    found = {}
    for line in (goldens / "api/podgroups-wire.jsonl").read_text().splitlines():
        recording = json.loads(line)
        request, wanted = translation.apply(recording["request"]), recording["response"]
        headers = request["headers"]
        answer = ask(
            client,
            request["method"],
            request["path"],
            request["body"],
            content_type=headers.get("Content-Type", ""),
            accept=headers["Accept"],
        )
        translation.learn(wanted["body"], answer[1])
        expected = wanted["status"], translation.apply(wanted["body"])
        found[recording["name"]] = answer, expected
    return found


def essential(body: Any) -> Any:
    """Remove values that differ between servers, and values that this server omits on purpose."""
    shown = comparable(body)
    if isinstance(shown, dict):
        shown.get("metadata", {}).pop("deletionTimestamp", None)
        spec = shown.get("spec")
        if isinstance(spec, dict) and "containers" in spec and not spec.get("priority"):
            # A pod without a class stays without a priority (docs/differences.md).
            spec.pop("priority", None)
            spec.pop("preemptionPolicy", None)
        for each in shown.get("resources", ()):
            each.pop("storageVersionHash", None)
        if "columnDefinitions" in shown:
            return {
                "columns": [each["name"] for each in shown["columnDefinitions"]],
                "cells": [row["cells"][:4] for row in shown["rows"]],
            }
    return shown


def test_every_request_is_answered_as_recorded(outcomes: dict[str, tuple[Any, Any]]) -> None:
    assert len(outcomes) == 38
    differing = {
        name: (answered, wanted)
        for name, (answered, wanted) in outcomes.items()
        if answered[0] != wanted[0] or essential(answered[1]) != essential(wanted[1])
    }
    assert not differing


def test_without_the_feature_there_are_no_pod_groups() -> None:
    client = a_server(frozenset())
    assert ask(client, "GET", GROUPS)[0] == 404
    code, groups = ask(client, "GET", "/apis/scheduling.k8s.io")
    assert code == 200
    assert [each["version"] for each in groups["versions"]] == ["v1"]
    code, pod = ask(client, "POST", PODS, IN_A_GROUP)
    assert code == 201
    assert "schedulingGroup" not in pod["spec"]


def test_fields_of_features_that_are_off_are_dropped() -> None:
    client = a_server(frozenset({"GenericWorkload"}))
    spec = {
        **GANG,
        "schedulingConstraints": {"topology": [{"key": "rack"}]},
        "resourceClaims": [{"name": "c", "resourceClaimName": "c"}],
        "disruptionMode": "PodGroup",
        "priorityClassName": "nope",
        "priority": 5,
    }
    code, group = ask(client, "POST", GROUPS, {"metadata": {"name": "g"}, "spec": spec})
    assert code == 201
    assert group["spec"] == {"podGroupTemplateRef": None, **GANG}
    assert ask(client, "POST", PODS, IN_A_GROUP)[1]["spec"]["schedulingGroup"] == {
        "podGroupName": "g"
    }


CLAIMS: dict[str, tuple[list[dict[str, str]], str]] = {
    "five claims": (
        [{"name": f"c{number}", "resourceClaimName": "c"} for number in range(5)],
        "spec.resourceClaims: Too many: 5: must have at most 4 items",
    ),
    "no source": (
        [{"name": "c"}],
        'spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`, '
        "`resourceClaimTemplateName`",
    ),
    "two sources": (
        [{"name": "c", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}],
        'spec.resourceClaims[0]: Invalid value: "{resourceClaimName, resourceClaimTemplateName}": '
        "must specify exactly one of: `resourceClaimName`, `resourceClaimTemplateName`",
    ),
}


@pytest.mark.parametrize(("claims", "want"), CLAIMS.values(), ids=CLAIMS)
def test_claims_of_a_group_are_checked(claims: list[dict[str, str]], want: str) -> None:
    client = a_server()
    spec = {**GANG, "resourceClaims": claims}
    code, body = ask(client, "POST", GROUPS, {"metadata": {"name": "g"}, "spec": spec})
    assert code == 422
    assert body["message"] == f'PodGroup.scheduling.k8s.io "g" is invalid: {want}'


def test_only_claims_of_the_group_have_statuses() -> None:
    client = a_server()
    spec = {**GANG, "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]}
    assert ask(client, "POST", GROUPS, {"metadata": {"name": "g"}, "spec": spec})[0] == 201

    def patch_claim_status(name: str) -> Any:
        body_of_patch = {
            "status": {"resourceClaimStatuses": [{"name": name, "resourceClaimName": "x"}]}
        }
        merge = "application/merge-patch+json"
        return ask(client, "PATCH", f"{GROUPS}/g/status", body_of_patch, content_type=merge)

    assert patch_claim_status("c")[0] == 200
    code, body = patch_claim_status("other")
    assert code == 422
    assert "must match the name of an entry in `spec.resourceClaims`" in body["message"]
