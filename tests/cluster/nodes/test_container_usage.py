"""What simulated containers use, and the metrics API that shows it."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import Pod
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.nodes.container_usage import ContainerUsage, UsageCurve
from kubesched.foundation.util.clock import SECOND
from tests.cluster.apiserver.http.client import Client

Json = dict[str, Any]
NANO = 10**9
PODS = "/api/v1/namespaces/default/pods"
METRICS = "/apis/metrics.k8s.io/v1beta1"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("250m", {0: 0.25, 1000: 0.25}),
        ("50%", {0: 1.0, 60: 1.0}),  # of a request of 2
        ("0s=1 10s=2", {0: 1, 5: 1.5, 10: 2, 99: 2}),
        ("10s=1, 20s=0", {0: 1, 10: 1, 15: 0.5, 30: 0}),
        ("0=0 1m=6 repeat", {0: 0, 30: 3, 60: 0, 90: 3}),
        ("0s=10% 10s=110%", {0: 0.2, 5: 1.2}),
    ],
)
def test_a_curve_has_a_value_at_each_time(text: str, values: dict[int, float]) -> None:
    curve = UsageCurve(text)
    for seconds, value in values.items():
        assert curve.at(seconds * SECOND, 2 * NANO) == round(value * NANO)


@pytest.mark.parametrize("text", ["", "much", "-1", "repeat", "5s=", "a=1", "10s=1 5s=2", "1 2"])
def test_invalid_usage_curves_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        UsageCurve(text)


def running_pod(client: Client, name: str, node: str = "n", **metadata: Any) -> Pod:
    containers = [
        {"name": each, "image": "i", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}}
        for each in ("main", "side")
    ]
    spec = {"nodeName": node, "containers": containers}
    client.create(PODS, {"metadata": {"name": name, **metadata}, "spec": spec})
    status = {"phase": "Running", "startTime": "2027-01-15T07:59:50Z"}
    code, _ = client.send(
        "PATCH",
        f"{PODS}/{name}/status",
        {"status": status},
        content_type="application/merge-patch+json",
    )
    assert code == 200
    resource = client.store.catalog.by_type(Pod)
    record = client.store.find_record(resource, "default", name)
    assert record is not None
    return record.typed


def metered(store: Store, client: Client) -> ContainerUsage:
    usage = ContainerUsage(store)
    client.service.show_usage(usage.of)
    return usage


def test_annotations_set_the_usage_of_a_container() -> None:
    client = Client()
    usage = ContainerUsage(client.store)
    notes = {
        "kubesched.io/cpu-usage": "0s=0 20s=2",
        "kubesched.io/cpu-usage.side": "25%",
        "kubesched.io/memory-usage": "1Gi",
        "kubesched.io/memory-usage.side": "wrong",
    }
    pod = running_pod(client, "p", annotations=notes)
    used = usage.of(pod, client.clock.now_ns())  # ten seconds after the start
    assert used == {"main": (NANO, 1 << 30), "side": (NANO // 2, 1 << 20)}
    assert usage.of(Pod(), 0) == {}  # it does not run


def test_the_load_of_a_workload_is_shared_by_its_running_pods() -> None:
    client = Client()
    usage = ContainerUsage(client.store)
    apps = "/apis/apps/v1/namespaces/default"
    selector = {"matchLabels": {"a": "b"}}
    template = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"selector": selector, "template": template}
    notes = {"kubesched.io/cpu-load": "3"}
    deployment = client.create(
        f"{apps}/deployments", {"metadata": {"name": "d", "annotations": notes}, "spec": spec}
    )

    def owned_by(kind: str, owner: Json) -> list[Json]:
        name, uid = owner["metadata"]["name"], owner["metadata"]["uid"]
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid}
        return [{**reference, "controller": True}]

    owners = owned_by("Deployment", deployment)
    replica_set = client.create(
        f"{apps}/replicasets", {"metadata": {"name": "r", "ownerReferences": owners}, "spec": spec}
    )
    owners = owned_by("ReplicaSet", replica_set)
    pods = [running_pod(client, f"p{number}", ownerReferences=owners) for number in range(3)]
    now_ns = client.clock.now_ns()
    assert [usage.of(pod, now_ns)["main"].cpu_nanos for pod in pods] == [NANO // 2] * 3
    assert usage.of(pods[0], now_ns)["main"].memory_bytes == 1 << 20


def test_the_metrics_api_shows_pods_and_nodes() -> None:
    client = Client()
    metered(client.store, client)
    client.create("/api/v1/nodes", {"metadata": {"name": "n", "labels": {"zone": "a"}}})
    client.create("/api/v1/nodes", {"metadata": {"name": "empty"}})
    notes = {"kubesched.io/cpu-usage": "100m", "kubesched.io/memory-usage": "64Mi"}
    running_pod(client, "one", annotations=notes, labels={"app": "web"})
    running_pod(client, "two", labels={"app": "db"})
    (item,) = client.get(f"{METRICS}/pods?labelSelector=app%3Dweb")["items"]
    assert (item["metadata"]["name"], item["window"]) == ("one", "15s")
    amounts = {"cpu": "100000000n", "memory": "65536Ki"}
    assert [each["usage"] for each in item["containers"]] == [amounts, amounts]
    shown = client.get(f"{METRICS}/namespaces/default/pods/one")
    assert (shown["kind"], shown["containers"]) == ("PodMetrics", item["containers"])
    nodes = client.get(f"{METRICS}/nodes")["items"]
    assert {each["metadata"]["name"]: each["usage"]["cpu"] for each in nodes} == {
        "n": "202000000n",
        "empty": "0",
    }
    assert client.get(f"{METRICS}/nodes/n")["metadata"]["labels"] == {"zone": "a"}
    assert client.send("GET", f"{METRICS}/namespaces/default/pods/none")[0] == 404
    assert client.send("DELETE", f"{METRICS}/nodes/n")[0] == 405
    assert client.send("GET", f"{METRICS}/services")[0] == 404
    listed = client.get(METRICS)["resources"]
    assert [(each["name"], each["verbs"]) for each in listed] == [
        ("nodes", ["get", "list"]),
        ("pods", ["get", "list"]),
    ]


def test_without_nodes_there_are_no_metrics() -> None:
    client = Client()
    assert client.send("GET", f"{METRICS}/nodes")[0] == 404
    names = [each["name"] for each in client.get("/apis")["groups"]]
    assert "metrics.k8s.io" not in names
