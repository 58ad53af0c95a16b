"""Quotas, limit ranges and runtime classes: defaults for new objects, and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from kubesched.api import ApiError
from kubesched.cluster.apiserver.store.object_store import Store

Json = dict[str, Any]


class ResourceLimitHarness:
    def __init__(self) -> None:
        self.store = Store()

    def create(
        self, version: str, kind: str, body: Json, namespace: str | None = "default"
    ) -> Json:
        resource = self.store.catalog.by_manifest(version, kind)
        assert resource is not None
        home = namespace if resource.namespaced else None
        return self.store.create(resource, home, body, 0).data

    def pod(self, name: str, resources: Json | None = None, **spec: Any) -> Json:
        container = {"name": "c", "image": "i", "resources": resources or {}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        return self.create("v1", "Pod", body)

    def quota(self, hard: Json, **spec: Any) -> None:
        self.create(
            "v1", "ResourceQuota", {"metadata": {"name": "q"}, "spec": {"hard": hard, **spec}}
        )

    def used(self) -> Json:
        resource = self.store.catalog.by_url("", "v1", "resourcequotas")
        return self.store.get(resource, "default", "q").data["status"]["used"]

    def refusal(self, *args: Any, **kwargs: Any) -> str:
        with pytest.raises(ApiError) as caught:
            self.pod(*args, **kwargs)
        assert caught.value.code == 403
        return str(caught.value)


def test_a_quota_counts_existing_new_and_deleted_objects() -> None:
    harness = ResourceLimitHarness()
    requests = {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "1"}}
    harness.pod("early", requests)
    harness.quota(
        {"pods": "3", "cpu": "2", "limits.cpu": "3", "configmaps": "2", "count/pods": "9"}
    )
    assert harness.used() == {
        "pods": "1",
        "cpu": "500m",
        "limits.cpu": "1",
        "configmaps": "0",
        "count/pods": "1",
    }
    harness.pod("late", requests)
    harness.create("v1", "ConfigMap", {"metadata": {"name": "c"}})
    assert harness.used()["cpu"] == "1"
    assert harness.used()["configmaps"] == "1"
    pods = harness.store.catalog.by_url("", "v1", "pods")
    patch = {"status": {"phase": "Succeeded"}}
    harness.store.patch(pods, "default", "late", patch, 0, subresource="status")
    assert (harness.used()["pods"], harness.used()["count/pods"]) == ("1", "2")
    harness.store.delete(pods, "default", "late", 0)
    harness.store.delete(pods, "default", "early", 0)
    assert (harness.used()["pods"], harness.used()["cpu"], harness.used()["count/pods"]) == (
        "0",
        "0",
        "0",
    )


def test_an_object_beyond_a_quota_is_refused() -> None:
    harness = ResourceLimitHarness()
    harness.quota({"pods": "1", "requests.cpu": "1"})
    text = harness.refusal("greedy", {"requests": {"cpu": "1500m"}})
    assert text == (
        'pods "greedy" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, '
        "used: requests.cpu=0, limited: requests.cpu=1"
    )
    text = harness.refusal("silent")
    assert text == 'pods "silent" is forbidden: failed quota: q: must specify requests.cpu for: c'
    harness.pod("modest", {"requests": {"cpu": "100m"}})
    text = harness.refusal("second", {"requests": {"cpu": "100m"}})
    assert "exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1" in text


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, {}, {"resources": {"requests": {"cpu": "1"}}}),
        ({"scopes": ["NotBestEffort"]}, {"resources": {"requests": {"cpu": "1"}}}, {}),
        ({"scopes": ["Terminating"]}, {"activeDeadlineSeconds": 5}, {}),
        ({"scopes": ["NotTerminating"]}, {}, {"activeDeadlineSeconds": 5}),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [
                        {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}
                    ]
                }
            },
            {"priorityClassName": "high"},
            {},
        ),
        (
            {"scopes": ["CrossNamespacePodAffinity"]},
            {
                "affinity": {
                    "podAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": "zone", "namespaces": ["other"]}
                        ]
                    }
                }
            },
            {},
        ),
    ],
)
def test_a_scoped_quota_counts_only_objects_in_its_scope(
    scope: Json, inside: Json, outside: Json
) -> None:
    harness = ResourceLimitHarness()
    harness.create(
        "scheduling.k8s.io/v1", "PriorityClass", {"metadata": {"name": "high"}, "value": 9}
    )
    harness.quota({"pods": "1"}, **scope)
    harness.pod("outside", **outside)
    harness.pod("outside-too", **outside)
    assert harness.used() == {"pods": "0"}
    harness.pod("inside", **inside)
    assert harness.used() == {"pods": "1"}
    assert "exceeded quota" in harness.refusal("one-too-many", **inside)


def test_claims_services_and_other_kinds_are_counted_by_name() -> None:
    harness = ResourceLimitHarness()
    harness.quota(
        {
            "requests.storage": "10Gi",
            "gold.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "services.nodeports": "5",
            "count/replicasets.apps": "2",
        }
    )
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "gold",
        "resources": {"requests": {"storage": "4Gi"}},
    }
    harness.create("v1", "PersistentVolumeClaim", {"metadata": {"name": "a"}, "spec": spec})
    ports = [{"port": 80, "name": "x"}, {"port": 81, "name": "y"}]
    body = {"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": ports}}
    harness.create("v1", "Service", body)
    used = harness.used()
    assert used["requests.storage"] == "4Gi"
    assert used["gold.storageclass.storage.k8s.io/persistentvolumeclaims"] == "1"
    assert used["services.nodeports"] == "2"


def limit_range(harness: ResourceLimitHarness, **item: Any) -> Json:
    spec = {"limits": [{"type": "Container", **item}]}
    return harness.create("v1", "LimitRange", {"metadata": {"name": "l"}, "spec": spec})


def test_a_limit_range_sets_default_requests_and_limits() -> None:
    harness = ResourceLimitHarness()
    made = limit_range(
        harness,
        min={"cpu": "50m"},
        max={"cpu": "500m", "memory": "1Gi"},
        default={"cpu": "300m"},
        defaultRequest={"cpu": "100m"},
    )
    (item,) = made["spec"]["limits"]
    assert item["default"] == {"cpu": "300m", "memory": "1Gi"}
    assert item["defaultRequest"] == {"cpu": "100m", "memory": "1Gi"}
    resources = harness.pod("silent")["spec"]["containers"][0]["resources"]
    assert resources == {
        "requests": {"cpu": "100m", "memory": "1Gi"},
        "limits": {"cpu": "300m", "memory": "1Gi"},
    }
    partial = harness.pod("partial", {"requests": {"memory": "100Mi"}})
    assert partial["spec"]["containers"][0]["resources"]["requests"]["memory"] == "100Mi"
    note = partial["metadata"]["annotations"]["kubernetes.io/limit-ranger"]
    assert (
        note
        == "LimitRanger plugin set: cpu request for container c; cpu, memory limit for container c"
    )


@pytest.mark.parametrize(
    ("item", "resources", "text"),
    [
        (
            {"min": {"cpu": "50m"}},
            {"requests": {"cpu": "10m"}},
            "minimum cpu usage per Container is 50m, but request is 10m",
        ),
        (
            {"max": {"memory": "1Gi"}},
            {"limits": {"memory": "2Gi"}},
            "maximum memory usage per Container is 1Gi, but limit is 2Gi",
        ),
        (
            {"maxLimitRequestRatio": {"cpu": "2"}},
            {"requests": {"cpu": "1"}, "limits": {"cpu": "3"}},
            "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000",
        ),
    ],
)
def test_a_limit_range_refuses_amounts_out_of_bounds(
    item: Json, resources: Json, text: str
) -> None:
    harness = ResourceLimitHarness()
    limit_range(harness, **item)
    assert harness.refusal("p", resources) == f'pods "p" is forbidden: {text}'


def test_a_limit_range_bounds_pods_and_claims_too() -> None:
    harness = ResourceLimitHarness()
    limits = [
        {"type": "Pod", "max": {"cpu": "1"}},
        {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}},
    ]
    body = {"metadata": {"name": "l"}, "spec": {"limits": limits}}
    harness.create("v1", "LimitRange", body)
    assert "maximum cpu usage per Pod is 1, but limit is 2" in harness.refusal(
        "p", {"limits": {"cpu": "2"}}
    )
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    with pytest.raises(ApiError, match="minimum storage usage"):
        harness.create("v1", "PersistentVolumeClaim", {"metadata": {"name": "c"}, "spec": spec})


def test_a_runtime_class_adds_its_overhead_and_node_selector() -> None:
    harness = ResourceLimitHarness()
    toleration = {"key": "gvisor", "operator": "Exists"}
    body = {
        "metadata": {"name": "gvisor"},
        "handler": "runsc",
        "overhead": {"podFixed": {"cpu": "100m"}},
        "scheduling": {"nodeSelector": {"runtime": "gvisor"}, "tolerations": [toleration]},
    }
    harness.create("node.k8s.io/v1", "RuntimeClass", body)
    spec = harness.pod("p", runtimeClassName="gvisor", nodeSelector={"a": "b"})["spec"]
    assert spec["overhead"] == {"cpu": "100m"}
    assert spec["nodeSelector"] == {"a": "b", "runtime": "gvisor"}
    assert toleration in spec["tolerations"]
    text = harness.refusal("q", runtimeClassName="none")
    assert text == 'pods "q" is forbidden: pod rejected: RuntimeClass "none" not found'
    text = harness.refusal("r", runtimeClassName="gvisor", nodeSelector={"runtime": "runc"})
    assert "conflict: runtimeClass.scheduling.nodeSelector[runtime] = gvisor" in text
    assert "Pod Overhead set without" in harness.refusal("s", overhead={"cpu": "1"})
