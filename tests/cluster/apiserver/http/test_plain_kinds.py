"""Built-in kinds without a struct type: creation, type checks, defaults, tables."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from kubesched.api.plain_kinds import PLAIN_KINDS
from kubesched.cluster.apiserver.http.tables import layout_of
from kubesched.foundation.http.http_messages import Response
from tests.cluster.apiserver.http.client import Client
from tests.integration.certificates import make_request

Json = dict[str, Any]
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"

BACKEND = {"service": {"name": "web", "port": {"number": 80}}}
POD = {"containers": [{"name": "c", "image": "pause"}]}
REQUEST = base64.b64encode(make_request("ann", "devs")[1]).decode()
BODIES: dict[str, Json] = {
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    "PodTemplate": {"template": {"metadata": {"labels": {"a": "b"}}, "spec": POD}},
    "HorizontalPodAutoscaler": {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "name": "web"}}
    },
    "CertificateSigningRequest": {
        "spec": {"request": REQUEST, "signerName": "example.com/s", "usages": ["client auth"]}
    },
    "FlowSchema": {"spec": {"priorityLevelConfiguration": {"name": "exempt"}}},
    "PriorityLevelConfiguration": {"spec": {"type": "Limited"}},
    "Ingress": {"spec": {"defaultBackend": BACKEND, "rules": [{"host": "a.example"}]}},
    "IngressClass": {"spec": {"controller": "example.com/c"}},
    "IPAddress": {"spec": {"parentRef": {"resource": "services", "name": "web"}}},
    "ServiceCIDR": {"spec": {"cidrs": ["10.1.0.0/16"]}},
    "ClusterRoleBinding": {"roleRef": {"kind": "ClusterRole", "name": "view"}},
    "RoleBinding": {
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "ServiceAccount", "name": "s", "namespace": "default"}],
    },
    "VolumeAttributesClass": {"driverName": "d.example", "parameters": {"iops": "1"}},
    "APIService": {
        "spec": {"group": "a.example", "version": "v1", "service": {"name": "s", "namespace": "n"}}
    },
}


@pytest.mark.parametrize(
    "kind",
    [k for k in PLAIN_KINDS if k.kind != "ComponentStatus"],
    ids=lambda k: k.api_version + k.kind,
)
def test_a_plain_kind_is_created_changed_listed_and_deleted(kind: Any) -> None:
    client = Client()
    home = f"/apis/{kind.api_version}" if kind.group else "/api/v1"
    path = (
        f"{home}/namespaces/default/{kind.plural}" if kind.namespaced else f"{home}/{kind.plural}"
    )
    name = "192.0.2.1" if kind.kind == "IPAddress" else "one"
    body = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        **BODIES.get(kind.kind, {}),
    }
    made = client.create(path, body)
    assert (made["apiVersion"], made["kind"]) == (kind.api_version, kind.kind)
    code, labelled = client.send(
        "PATCH", f"{path}/{name}", {"metadata": {"labels": {"a": "b"}}}, content_type=STRATEGIC
    )
    assert (code, labelled["metadata"]["labels"]) == (200, {"a": "b"})
    listed = client.get(f"{path}?labelSelector=a%3Db")
    assert [item["metadata"]["name"] for item in listed["items"]] == [name]
    assert listed["kind"] == f"{kind.kind}List"
    table = client.get(path, accept=TABLE)
    assert all(len(row["cells"]) == len(table["columnDefinitions"]) for row in table["rows"])
    assert client.send("DELETE", f"{path}/{name}")[0] == 200
    assert client.send("GET", f"{path}/{name}")[0] == 404


def test_every_kind_has_its_table_columns() -> None:
    generic = ["Name", "Created At"]
    shown_so = {
        "ClusterRole",
        "CustomResourceDefinition",
        "LimitRange",
        "PodCertificateRequest",
        "Role",
        "StorageVersionMigration",
    }
    found = {
        each.kind
        for each in Client().store.catalog.all()
        if [column.name for column in layout_of(each).columns] == generic
    }
    assert found <= shown_so


def test_a_field_of_the_wrong_type_is_refused_as_such() -> None:
    path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses"
    code, answer = Client().send("POST", path, {"metadata": {"name": "i"}, "spec": {"rules": "x"}})
    assert code == 400
    assert "cannot unmarshal string into Go struct field Ingress.spec.rules" in answer["message"]


def test_the_role_of_a_binding_stays() -> None:
    client = Client()
    path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
    client.create(
        path, {"metadata": {"name": "system:b"}, "roleRef": {"kind": "ClusterRole", "name": "v"}}
    )
    change = {"roleRef": {"name": "w"}}
    code, answer = client.send("PATCH", f"{path}/system:b", change, content_type=MERGE)
    assert code == 422
    assert "cannot change roleRef" in answer["message"]


def test_both_autoscaler_versions_show_the_same_object() -> None:
    client = Client()
    spec = {
        "maxReplicas": 3,
        "scaleTargetRef": {"kind": "Deployment", "name": "web"},
        "targetCPUUtilizationPercentage": 50,
    }
    path = "/apis/autoscaling/{}/namespaces/default/horizontalpodautoscalers"
    made = client.create(path.format("v1"), {"metadata": {"name": "h"}, "spec": spec})
    assert made["spec"]["targetCPUUtilizationPercentage"] == 50
    newer = client.get(f"{path.format('v2')}/h")
    target = {"type": "Utilization", "averageUtilization": 50}
    assert newer["spec"]["metrics"] == [
        {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    ]


def test_a_signing_request_is_approved_through_its_subresource() -> None:
    client = Client()
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    made = client.create(path, {"metadata": {"name": "c"}, **BODIES["CertificateSigningRequest"]})
    assert made["spec"]["username"] == "admin"
    assert "system:masters" in made["spec"]["groups"]
    approved = {"type": "Approved", "status": "True", "reason": "R", "message": "m"}
    body = {**made, "status": {"conditions": [approved]}}
    code, shown = client.send("PUT", f"{path}/c/approval", body)
    (condition,) = shown["status"]["conditions"]
    assert (code, condition) == (200, condition | approved)
    rows = client.get(path, accept=TABLE)["rows"]
    assert rows[0]["cells"][-1] == "Approved"


def test_system_objects_are_created_on_first_request() -> None:
    client = Client()
    flows = client.get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas")
    assert {"exempt", "catch-all", "global-default"} <= {
        i["metadata"]["name"] for i in flows["items"]
    }
    services = client.get("/apis/apiregistration.k8s.io/v1/apiservices")
    names = {item["metadata"]["name"] for item in services["items"]}
    assert {"v1", "v1.apps", "v1.rbac.authorization.k8s.io"} <= names
    roles = client.get("/apis/rbac.authorization.k8s.io/v1/clusterroles")
    assert {"cluster-admin", "view", "edit", "admin"} <= {
        i["metadata"]["name"] for i in roles["items"]
    }
    parts = client.get("/api/v1/componentstatuses")
    assert len(parts["items"]) == 3
    assert client.send("POST", "/api/v1/componentstatuses", {"metadata": {"name": "x"}})[0] == 405


@pytest.mark.parametrize("part", ["log", "exec", "attach", "portforward", "proxy"])
def test_subresources_that_need_a_process_are_refused(part: str) -> None:
    client = Client()
    pods = "/api/v1/namespaces/default/pods"
    assert client.send("GET", f"{pods}/p/{part}")[0] == 404
    client.create(pods, {"metadata": {"name": "p"}, "spec": POD})
    code, answer = client.send("GET", f"{pods}/p/{part}")
    assert code == 501
    assert "which runs no containers" in answer["message"]


def test_health_has_the_expected_checks() -> None:
    client = Client()

    def text(path: str) -> str:
        answer = client.ask("GET", path)
        assert isinstance(answer, Response)
        return answer.body.decode()

    assert text("/livez/ping") == "ok"
    lines = text("/readyz?verbose&exclude=etcd").splitlines()
    assert "[+]informer-sync ok" in lines
    assert "[+]etcd excluded: ok" in lines
    assert lines[-1] == "readyz check passed"
    assert "[+]poststarthook/scheduling/bootstrap-system-priority-classes ok" in text(
        "/healthz?verbose"
    )
    assert client.send("GET", "/livez/nothing")[0] == 404


@pytest.mark.parametrize(
    ("timeout", "code"), [("0s", 200), ("999h", 200), ("soon", 400), ("5", 400)]
)
def test_an_invalid_time_limit_is_refused(timeout: str, code: int) -> None:
    assert Client().send("GET", f"/api/v1?timeout={timeout}")[0] == code
    assert Client().send("GET", f"/version?timeout={timeout}")[0] == code


def test_an_answer_is_no_table() -> None:
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    body = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    assert Client().send("POST", path, body, accept=TABLE)[0] == 406
