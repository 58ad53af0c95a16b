"""What a node may read and write: only what its pods need, and its own objects."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.cluster.apiserver.http import ADMIN, ApiService, Requester, Users
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]
CORE = "/api/v1/namespaces/default"
STORAGE = "/apis/storage.k8s.io/v1"
NODE = Requester("system:node:a", groups=("system:nodes",))


def make_client() -> Client:
    """Return a client of a server with pods on the nodes `a` and `b`."""
    client = Client()
    users = Users({"root": ADMIN, "a": NODE, "ann": Requester("ann")})
    client.service = ApiService(client.store, client.clock, users=users, rbac=True)
    for node in "ab":
        create(client, "/api/v1/nodes", {"metadata": {"name": node}})
        for part in ("env", "from", "volume", "projected", "pull"):
            body = {"metadata": {"name": f"{part}-{node}"}, "data": {}}
            create(client, f"{CORE}/secrets", body)
            create(client, f"{CORE}/configmaps", body)
        account = {"metadata": {"name": f"account-{node}"}}
        create(client, f"{CORE}/serviceaccounts", account)
        create(client, f"{CORE}/pods", pod(node))
        claim_spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
        }
        claim = {"metadata": {"name": f"claim-{node}"}, "spec": claim_spec}
        create(client, f"{CORE}/persistentvolumeclaims", claim)
        volume_spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/x"},
            "claimRef": {"namespace": "default", "name": f"claim-{node}"},
        }
        volume = {"metadata": {"name": f"volume-{node}"}, "spec": volume_spec}
        create(client, "/api/v1/persistentvolumes", volume)
    return client


def create(client: Client, path: str, body: Json) -> None:
    code, made = client.send("POST", path, body, authorization="Bearer root")
    assert code == 201, made


def pod(node: str, **metadata: Any) -> Json:
    """Return a pod on a node that refers to objects in every way."""

    def refer(part: str) -> Json:
        return {"name": f"{part}-{node}"}

    env = [
        {"name": "S", "valueFrom": {"secretKeyRef": {**refer("env"), "key": "k"}}},
        {"name": "C", "valueFrom": {"configMapKeyRef": {**refer("env"), "key": "k"}}},
    ]
    container = {
        "name": "c",
        "image": "i",
        "env": env,
        "envFrom": [{"secretRef": refer("from")}, {"configMapRef": refer("from")}],
    }
    sources = [{"secret": refer("projected")}, {"configMap": refer("projected")}]
    volumes = [
        {"name": "s", "secret": {"secretName": f"volume-{node}"}},
        {"name": "c", "configMap": refer("volume")},
        {"name": "p", "projected": {"sources": sources}},
        {"name": "d", "persistentVolumeClaim": {"claimName": f"claim-{node}"}},
    ]
    spec = {
        "nodeName": node,
        "serviceAccountName": f"account-{node}",
        "containers": [container],
        "imagePullSecrets": [refer("pull")],
        "volumes": volumes,
    }
    return {"metadata": {"name": f"pod-{node}", **metadata}, "spec": spec}


OWN_READS = [
    *(f"{CORE}/secrets/{part}" for part in ("env", "from", "volume", "projected", "pull")),
    *(f"{CORE}/configmaps/{part}" for part in ("env", "from", "volume", "projected")),
    f"{CORE}/persistentvolumeclaims/claim",
    "/api/v1/persistentvolumes/volume",
    f"{CORE}/pods/pod",
]


@pytest.fixture(scope="module")
def cluster() -> Client:
    return make_client()


@pytest.mark.parametrize("path", OWN_READS)
def test_a_node_reads_what_its_pods_refer_to_and_nothing_else(cluster: Client, path: str) -> None:
    assert cluster.send("GET", f"{path}-a", authorization="Bearer a")[0] == 200
    assert cluster.send("GET", f"{path}-b", authorization="Bearer a")[0] == 403
    # Requests for missing objects are forbidden as well, so that the response does not reveal
    # names.
    assert cluster.send("GET", f"{path}-none", authorization="Bearer a")[0] == 403


@pytest.mark.parametrize(
    ("path", "code"),
    [
        (f"{CORE}/configmaps/pull-a", 403),  # only a secret of that name is used
        (f"{CORE}/secrets", 403),
        (f"{CORE}/secrets?fieldSelector=metadata.name%3Denv-a", 200),
        ("/api/v1/namespaces/kube-system/secrets/env-a", 403),
        ("/api/v1/nodes/a", 200),
        ("/api/v1/nodes/b", 403),
        ("/api/v1/nodes", 403),
        ("/api/v1/nodes?fieldSelector=metadata.name%3Da", 200),
        ("/api/v1/pods", 403),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Da", 200),
        ("/api/v1/pods?fieldSelector=spec.nodeName%3Db", 403),
        ("/api/v1/services", 200),
        (f"{STORAGE}/csidrivers", 200),
        (f"{STORAGE}/storageclasses", 403),
    ],
)
def test_lists_of_a_node(cluster: Client, path: str, code: int) -> None:
    assert cluster.send("GET", path, authorization="Bearer a")[0] == code


def refused(client: Client, method: str, path: str, body: Json | None = None) -> str:
    code, answer = client.send(method, path, body, authorization="Bearer a")
    return answer["message"] if code == 403 else ""


def test_a_node_writes_only_its_own_objects() -> None:
    client = make_client()
    other = 'nodes "c" is forbidden: node "a" is not allowed to modify node "c"'
    assert refused(client, "POST", "/api/v1/nodes", {"metadata": {"name": "c"}}) == other
    assert "cannot delete resource" in refused(client, "DELETE", "/api/v1/nodes/b")
    assert "cannot delete resource" in refused(client, "DELETE", "/api/v1/nodes/a")
    patch = {"content_type": "application/merge-patch+json", "authorization": "Bearer a"}
    label = {"metadata": {"labels": {"x": "y"}}}
    assert client.send("PATCH", "/api/v1/nodes/a", label, **patch)[0] == 200
    assert client.send("PATCH", "/api/v1/nodes/b", label, **patch)[0] == 403
    status = {"status": {"phase": "Running"}}
    assert client.send("PATCH", f"{CORE}/pods/pod-a/status", status, **patch)[0] == 200
    code, answer = client.send("PATCH", f"{CORE}/pods/pod-b/status", status, **patch)
    assert (code, answer["message"]) == (
        403,
        'pods "pod-b" is forbidden: node "a" can only update pod status for pods with '
        "spec.nodeName set to itself",
    )
    assert "can only delete pods" in refused(client, "DELETE", f"{CORE}/pods/pod-b")
    assert "mirror pods" in refused(client, "POST", f"{CORE}/pods", pod("a", name="x"))
    leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
    lease = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "a"}}
    sent = {"authorization": "Bearer a"}
    assert client.send("POST", leases, lease, **sent)[0] == 201
    assert client.send("GET", f"{leases}/a", **sent)[0] == 200
    assert client.send("GET", f"{leases}/b", **sent)[0] == 403
    token = {"spec": {}}
    accounts = f"{CORE}/serviceaccounts"
    assert client.send("POST", f"{accounts}/account-a/token", token, **sent)[0] == 201
    assert client.send("POST", f"{accounts}/account-b/token", token, **sent)[0] == 403


def test_users_outside_the_group_of_nodes_are_no_nodes(cluster: Client) -> None:
    users = Users({"n": Requester("system:node:a"), "g": Requester("x", groups=("system:nodes",))})
    service = ApiService(cluster.store, cluster.clock, users=users, rbac=True)
    client = Client()
    client.service = service
    for token in "ng":
        path = f"{CORE}/secrets/env-a"
        assert client.send("GET", path, authorization=f"Bearer {token}")[0] == 403
