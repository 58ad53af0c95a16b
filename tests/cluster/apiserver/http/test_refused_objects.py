"""Objects that the server refuses, with the texts of the reference."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]
CORE = "/api/v1/namespaces/default"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
PORTS = [{"port": 80}]


def volume(**changed: Any) -> Json:
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/x"},
    }
    spec |= changed
    return {"spec": {key: value for key, value in spec.items() if value is not None}}


def quota(**requirement: Any) -> Json:
    return {"spec": {"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [requirement]}}}


def affinity(seconds: int) -> Json:
    config = {"clientIP": {"timeoutSeconds": seconds}}
    return {
        "spec": {"sessionAffinity": "ClientIP", "sessionAffinityConfig": config, "ports": PORTS}
    }


TOO_LONG = (
    "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: {}: must be greater than 0 "
    "and less than 86400"
)


def pod(**container: Any) -> Json:
    return {"spec": {"containers": [{"name": "c", "image": "i", **container}]}}


FIRST = "spec.containers[0]"
VALUES = "spec.scopeSelector.matchExpressions.values"
CASES: dict[str, tuple[str, Json, str]] = {
    "an affinity that is too long": (f"{CORE}/services", affinity(90000), TOO_LONG.format(90000)),
    "an affinity without time": (f"{CORE}/services", affinity(0), TOO_LONG.format(0)),
    "a mount of a volume that the pod does not have": (
        f"{CORE}/pods",
        pod(volumeMounts=[{"name": "v", "mountPath": "/v"}]),
        f'{FIRST}.volumeMounts[0].name: Not found: "v"',
    ),
    "a variable with a value and a source": (
        f"{CORE}/pods",
        pod(
            env=[
                {
                    "name": "A",
                    "value": "b",
                    "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}},
                }
            ]
        ),
        f'{FIRST}.env[0].valueFrom: Invalid value: "": may not be specified when `value` is not '
        "empty",
    ),
    "a variable without a name": (
        f"{CORE}/pods",
        pod(env=[{"name": "", "value": "b"}]),
        f"{FIRST}.env[0].name: Required value",
    ),
    "an external loopback address": (
        f"{CORE}/services",
        {"spec": {"externalIPs": ["127.0.0.1"], "ports": PORTS}},
        'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range '
        "(127.0.0.0/8, ::1/128)",
    ),
    "a volume with an unknown reclaim policy": (
        "/api/v1/persistentvolumes",
        volume(persistentVolumeReclaimPolicy="Foo"),
        'spec.persistentVolumeReclaimPolicy: Unsupported value: "Foo": supported values: '
        '"Delete", "Recycle", "Retain"',
    ),
    "a volume without a source": (
        "/api/v1/persistentvolumes",
        volume(hostPath=None),
        "spec: Required value: must specify a volume type",
    ),
    "a volume with two sources": (
        "/api/v1/persistentvolumes",
        volume(nfs={"server": "s", "path": "/p"}),
        "spec.nfs: Forbidden: may not specify more than 1 volume type",
    ),
    "a volume for one pod and others": (
        "/api/v1/persistentvolumes",
        volume(accessModes=["ReadWriteOncePod", "ReadWriteOnce"]),
        "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
    ),
    "a volume with a path that leads up": (
        "/api/v1/persistentvolumes",
        volume(hostPath={"path": "/x/../y"}),
        "spec.hostPath.path: Invalid value: \"/x/../y\": must not contain '..'",
    ),
    "a claim with an unknown mode": (
        f"{CORE}/persistentvolumeclaims",
        {
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Foo",
                "resources": {"requests": {"storage": "1"}},
            }
        },
        'spec.volumeMode: Unsupported value: "Foo": supported values: "Block", "Filesystem"',
    ),
    "a budget with an unknown policy": (
        "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
        {"spec": {"minAvailable": 1, "unhealthyPodEvictionPolicy": "Foo"}},
        'spec.unhealthyPodEvictionPolicy: Unsupported value: "Foo": supported values: '
        '"AlwaysAllow", "IfHealthyBudget"',
    ),
    "a rule without groups": (
        f"{RBAC}/namespaces/default/roles",
        {"rules": [{"verbs": ["get"], "resources": ["pods"]}]},
        "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
    ),
    "a rule without verbs": (
        f"{RBAC}/clusterroles",
        {"rules": [{"nonResourceURLs": ["/x"]}]},
        "rules[0].verbs: Required value: verbs must contain at least one value",
    ),
    "a rule for paths in a namespace": (
        f"{RBAC}/namespaces/default/roles",
        {"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}]},
        'rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to '
        "non-resource URLs",
    ),
    "a binding to a role in no namespace": (
        f"{RBAC}/clusterrolebindings",
        {"roleRef": {"kind": "Role", "name": "r"}},
        'roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"',
    ),
    "a binding for an unknown kind": (
        f"{RBAC}/namespaces/default/rolebindings",
        {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "Bar", "name": "b"}]},
        'subjects[0].kind: Unsupported value: "Bar": supported values: "ServiceAccount", "User", '
        '"Group"',
    ),
    "a binding for an account in no namespace": (
        f"{RBAC}/clusterrolebindings",
        {
            "roleRef": {"kind": "ClusterRole", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "s"}],
        },
        "subjects[0].namespace: Required value",
    ),
    "a quota whose selector needs values": (
        f"{CORE}/resourcequotas",
        quota(scopeName="PriorityClass", operator="In"),
        f"{VALUES}: Required value: must be at least one value when `operator` is 'In' or 'NotIn' "
        "for scope selector",
    ),
    "a quota whose selector has values": (
        f"{CORE}/resourcequotas",
        quota(scopeName="PriorityClass", operator="Exists", values=["a"]),
        f"{VALUES}: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or "
        "'DoesNotExist' for scope selector",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_refused(case: tuple[str, Json, str]) -> None:
    path, body, text = case
    code, answer = Client().send("POST", path, {"metadata": {"name": "x"}, **body})
    assert (code, answer["message"].partition(" is invalid: ")[2]) == (422, text)


def test_a_pod_that_is_debugged_can_be_resized() -> None:
    client = Client()
    pods = f"{CORE}/pods"
    requests = {"requests": {"cpu": "1"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": requests}]}
    client.create(pods, {"metadata": {"name": "p"}, "spec": spec})
    patch = {"content_type": "application/strategic-merge-patch+json"}
    debugger = {"spec": {"ephemeralContainers": [{"name": "d", "image": "i"}]}}
    assert client.send("PATCH", f"{pods}/p/ephemeralcontainers", debugger, **patch)[0] == 200
    larger = {"name": "c", "resources": {"requests": {"cpu": "2"}}}
    code, answer = client.send(
        "PATCH", f"{pods}/p/resize", {"spec": {"containers": [larger]}}, **patch
    )
    assert code == 200, answer
    assert answer["spec"]["containers"][0]["resources"]["requests"]["cpu"] == "2"


def test_a_stateful_set_mounts_the_volumes_of_its_claims() -> None:
    client = Client()
    labels = {"a": "b"}
    mounts = [{"name": "data", "mountPath": "/data"}]
    template = {"metadata": {"labels": labels}, **pod(volumeMounts=mounts)}
    spec = {"selector": {"matchLabels": labels}, "template": template, "serviceName": "s"}
    path = "/apis/apps/v1/namespaces/default/{}"
    client.create(path.format("statefulsets"), {"metadata": {"name": "x"}, "spec": spec})
    del spec["serviceName"]
    body = {"metadata": {"name": "x"}, "spec": spec}
    code, answer = client.send("POST", path.format("deployments"), body)
    assert code == 422
    text = 'spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"'
    assert text in answer["message"]
