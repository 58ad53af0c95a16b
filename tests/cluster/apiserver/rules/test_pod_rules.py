"""The strategy of pods: defaults, admission, binding, deletion."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from kubesched.api import ApiError
from tests.cluster.apiserver.cluster import NOW, Cluster, node, pod

SECOND = 10**9
EVICTION_TOLERATIONS = [
    {
        "key": f"node.kubernetes.io/{state}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }
    for state in ("not-ready", "unreachable")
]


def created(**spec: Any) -> dict[str, Any]:
    return Cluster().create("pods", pod(**spec))


def container(**fields: Any) -> dict[str, Any]:
    return {"name": "c", "image": "pause:3.9", **fields}


class Default(NamedTuple):
    spec: dict[str, Any]
    path: tuple[str | int, ...]
    want: Any


DEFAULTS = {
    "an image without a tag is always pulled": Default(
        {"containers": [container(image="pause")]},
        ("spec", "containers", 0, "imagePullPolicy"),
        "Always",
    ),
    "an image with a tag is pulled once": Default(
        {"containers": [container()]},
        ("spec", "containers", 0, "imagePullPolicy"),
        "IfNotPresent",
    ),
    "the port of a registry is no tag": Default(
        {"containers": [container(image="registry:5000/pause")]},
        ("spec", "containers", 0, "imagePullPolicy"),
        "Always",
    ),
    "an image with a digest is pulled once": Default(
        {"containers": [container(image="pause@sha256:abc")]},
        ("spec", "containers", 0, "imagePullPolicy"),
        "IfNotPresent",
    ),
    "what is limited but not requested is requested": Default(
        {
            "containers": [
                container(
                    resources={"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}
                )
            ]
        },
        ("spec", "containers", 0, "resources", "requests"),
        {"cpu": "1", "memory": "1Gi"},
    ),
    "quantities are stored in canonical form": Default(
        {"containers": [container(resources={"requests": {"cpu": 0.5, "memory": "1024Mi"}})]},
        ("spec", "containers", 0, "resources", "requests"),
        {"cpu": "500m", "memory": "1Gi"},
    ),
    "ports are TCP": Default(
        {"containers": [container(ports=[{"containerPort": 80}])]},
        ("spec", "containers", 0, "ports"),
        [{"containerPort": 80, "protocol": "TCP"}],
    ),
    "ports of a pod on the host's network are host ports": Default(
        {"hostNetwork": True, "containers": [container(ports=[{"containerPort": 80}])]},
        ("spec", "containers", 0, "ports", 0, "hostPort"),
        80,
    ),
    "a pod that says nothing stays five minutes on a failing node": Default(
        {}, ("spec", "tolerations"), EVICTION_TOLERATIONS
    ),
    "a pod that tolerates everything gets no more tolerations": Default(
        {"tolerations": [{"operator": "Exists"}]},
        ("spec", "tolerations"),
        [{"operator": "Exists"}],
    ),
    "a toleration for one of the two leaves the other": Default(
        {"tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}]},
        ("spec", "tolerations"),
        [{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, EVICTION_TOLERATIONS[1]],
    ),
    "a volume without a source is an empty directory": Default(
        {"volumes": [{"name": "v"}]}, ("spec", "volumes"), [{"name": "v", "emptyDir": {}}]
    ),
    "without priority classes there is no priority": Default(
        {}, ("spec",), {"priority": None, "preemptionPolicy": None}
    ),
    "a system class gives its priority": Default(
        {"priorityClassName": "system-node-critical"},
        ("spec",),
        {"priority": 2_000_001_000, "preemptionPolicy": "PreemptLowerPriority"},
    ),
    "a pod begins pending": Default(
        {}, ("status",), {"phase": "Pending", "qosClass": "BestEffort", "conditions": None}
    ),
    "a gated pod says so": Default(
        {"schedulingGates": [{"name": "example.com/g"}]},
        ("status", "conditions"),
        [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastTransitionTime": NOW,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ],
    ),
    "a request makes a pod burstable": Default(
        {"containers": [container(resources={"requests": {"cpu": "1"}})]},
        ("status", "qosClass"),
        "Burstable",
    ),
    "limits on both resources in all containers guarantee a pod": Default(
        {"containers": [container(resources={"limits": {"cpu": "1", "memory": "1Gi"}})]},
        ("status", "qosClass"),
        "Guaranteed",
    ),
    "a request for other resources does not change the class": Default(
        {"containers": [container(resources={"limits": {"example.com/gpu": "1"}})]},
        ("status", "qosClass"),
        "BestEffort",
    ),
    "one container without limits makes a pod burstable": Default(
        {
            "containers": [
                container(resources={"limits": {"cpu": "1", "memory": "1Gi"}}),
                container(name="d"),
            ]
        },
        ("status", "qosClass"),
        "Burstable",
    ),
}


@pytest.mark.parametrize("case", DEFAULTS.values(), ids=DEFAULTS)
def test_defaults(case: Default) -> None:
    value: Any = created(**case.spec)
    for step in case.path:
        value = value[step]
    if isinstance(case.want, dict) and isinstance(value, dict):
        value = {key: value.get(key) for key in case.want}
    assert value == case.want


def test_match_label_keys_are_merged_into_selectors() -> None:
    term = {
        "labelSelector": {"matchLabels": {"app": "x"}},
        "matchLabelKeys": ["version", "absent"],
        "mismatchLabelKeys": ["tenant"],
        "topologyKey": "zone",
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
        "matchLabelKeys": ["version"],
    }
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    spec = created(
        labels={"version": "v1", "tenant": "t"},
        affinity={
            "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]},
            "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
        },
        topologySpreadConstraints=[spread],
    )["spec"]
    merged = [
        {"key": "version", "operator": "In", "values": ["v1"]},
        {"key": "tenant", "operator": "NotIn", "values": ["t"]},
    ]
    affinity = spec["affinity"]
    required = affinity["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    soft = affinity["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"][0]
    assert required["labelSelector"]["matchExpressions"] == merged
    assert soft["podAffinityTerm"]["labelSelector"]["matchExpressions"] == merged
    assert spec["topologySpreadConstraints"][0]["labelSelector"]["matchExpressions"] == [
        {"key": "app", "operator": "Exists"},
        {"key": "version", "operator": "In", "values": ["v1"]},
    ]


def priority_class(name: str, value: int, **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "value": value, **fields}


def test_priority_comes_from_the_class() -> None:
    cluster = Cluster()
    cluster.create("priorityclasses", priority_class("low", 10, preemptionPolicy="Never"))
    spec = cluster.create("pods", pod(priorityClassName="low"))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (10, "Never")


def test_priority_comes_from_the_lowest_global_default() -> None:
    cluster = Cluster()
    cluster.create("priorityclasses", priority_class("b", 50, globalDefault=True))
    cluster.create("priorityclasses", priority_class("a", 20, globalDefault=True))
    spec = cluster.create("pods", pod())["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (20, "a")


PRIORITY_REFUSALS = {
    "an unknown class": (
        {"priorityClassName": "nope"},
        'pods "p" is forbidden: no PriorityClass with name nope was found',
    ),
    "a number without a class": (
        {"priority": 7},
        'pods "p" is forbidden: the integer value of priority (7) must not be provided in pod '
        "spec; priority admission controller computed 0 from the given PriorityClass name",
    ),
    "a number that is not the class's": (
        {"priorityClassName": "system-cluster-critical", "priority": 7},
        'pods "p" is forbidden: the integer value of priority (7) must not be provided in pod '
        "spec; priority admission controller computed 2000000000 from the given PriorityClass "
        "name",
    ),
}


@pytest.mark.parametrize("case", PRIORITY_REFUSALS.values(), ids=PRIORITY_REFUSALS)
def test_priorities_that_are_refused(case: tuple[dict[str, Any], str]) -> None:
    spec, message = case
    with pytest.raises(ApiError) as refused:
        created(**spec)
    assert (refused.value.code, refused.value.status.message) == (403, message)


def test_a_bound_pod_has_a_node_a_condition_and_no_nomination() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    pending = {
        "status": {
            "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
            "nominatedNodeName": "n",
        }
    }
    cluster.patch("pods", "p", pending, subresource="status")
    bound = cluster.bind("p", "n").data
    assert bound["spec"]["nodeName"] == "n"
    assert "nominatedNodeName" not in bound["status"]
    assert bound["status"]["conditions"] == [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": NOW}
    ]
    assert bound["metadata"]["generation"] == 1


def test_a_bound_pod_takes_over_the_zone_and_region_of_its_node() -> None:
    cluster = Cluster()
    labels = {
        "topology.kubernetes.io/zone": "z1",
        "topology.kubernetes.io/region": "r1",
        "kubernetes.io/hostname": "n",
    }
    cluster.create("nodes", node("n", labels=labels))
    cluster.create("pods", pod("p", labels={"app": "x"}))
    assert cluster.bind("p", "n").data["metadata"]["labels"] == {
        "app": "x",
        "topology.kubernetes.io/zone": "z1",
        "topology.kubernetes.io/region": "r1",
    }


def test_a_refused_binding_changes_nothing() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("p", schedulingGates=[{"name": "g"}]))
    before = cluster.store.revision
    with pytest.raises(ApiError):
        cluster.bind("p", "n")
    assert cluster.store.revision == before
    assert "nodeName" not in cluster.get("pods", "p")["spec"]


class Removal(NamedTuple):
    bound: bool
    phase: str
    grace: int | None
    gone: bool
    period: int


REMOVALS = {
    "a pod without a node goes at once": Removal(False, "Pending", None, True, 0),
    "a pod without a node has nothing to wait for": Removal(False, "Pending", 20, True, 0),
    "a running pod gets the time it asks for": Removal(True, "Running", None, False, 30),
    "a running pod gets the time it is given": Removal(True, "Running", 5, False, 5),
    "no time means at once": Removal(True, "Running", 0, True, 0),
    "a negative time means a second": Removal(True, "Running", -1, False, 1),
    "a pod that has ended goes at once": Removal(True, "Succeeded", None, True, 0),
    "a pod that has failed goes at once": Removal(True, "Failed", 20, True, 0),
}


@pytest.mark.parametrize("case", REMOVALS.values(), ids=REMOVALS)
def test_deletion(case: Removal) -> None:
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    if case.bound:
        cluster.bind("p", "n")
    cluster.patch("pods", "p", {"status": {"phase": case.phase}}, subresource="status")
    deletion = cluster.delete("pods", "p", grace_period_seconds=case.grace)
    metadata = deletion.record.data["metadata"]
    assert deletion.gone == case.gone
    assert ("p" in cluster.names("pods")) == (not case.gone)
    assert metadata["deletionGracePeriodSeconds"] == case.period
    assert metadata["deletionTimestamp"] == f"2027-01-15T08:00:{case.period:02d}Z"
    assert metadata["generation"] == 2


def test_a_second_deletion_can_only_shorten_the_time() -> None:
    cluster = Cluster()
    cluster.create("pods", pod("p"))
    cluster.bind("p", "n")
    cluster.delete("pods", "p")
    cluster.now_ns += 10 * SECOND
    before = cluster.store.revision
    assert not cluster.delete("pods", "p", grace_period_seconds=60).gone
    assert not cluster.delete("pods", "p").gone
    assert cluster.store.revision == before
    shorter = cluster.delete("pods", "p", grace_period_seconds=12).record.data["metadata"]
    assert shorter["deletionTimestamp"] == "2027-01-15T08:00:12Z"
    assert shorter["generation"] == 2
    assert cluster.delete("pods", "p", grace_period_seconds=0).gone


def test_an_object_stays_until_its_finalizer_is_removed() -> None:
    cluster = Cluster()
    cluster.create("nodes", node("n", finalizers=["example.com/f", "example.com/g"]))
    assert not cluster.delete("nodes", "n").gone
    before = cluster.store.revision
    assert not cluster.delete("nodes", "n").gone
    assert cluster.store.revision == before
    cluster.patch("nodes", "n", {"metadata": {"finalizers": ["example.com/g"]}}, patch_type="merge")
    assert cluster.names("nodes") == ["n"]
    cluster.patch("nodes", "n", {"metadata": {"finalizers": []}}, patch_type="merge")
    assert cluster.names("nodes") == []


def test_an_object_on_its_way_out_takes_no_new_finalizers() -> None:
    cluster = Cluster()
    cluster.create("nodes", node("n", finalizers=["example.com/f"]))
    cluster.delete("nodes", "n")
    added = {"metadata": {"finalizers": ["example.com/f", "example.com/g"]}}
    with pytest.raises(ApiError) as refused:
        cluster.patch("nodes", "n", added, patch_type="merge")
    assert refused.value.status.message == (
        'Node "n" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if '
        'the object is being deleted, found new finalizers []string{"example.com/g"}'
    )


def test_the_first_default_storage_class_is_the_newest() -> None:
    cluster = Cluster()
    for name in ("old", "new"):
        annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
        body = {"metadata": {"name": name, "annotations": annotations}, "provisioner": "p"}
        cluster.create("storageclasses", body)
        cluster.now_ns += SECOND
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    claim = cluster.create("persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": spec})
    assert claim["spec"]["storageClassName"] == "new"
    assert claim["status"] == {"phase": "Pending"}


def test_device_requests_default_to_one_device() -> None:
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    body = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}}
    claim = Cluster().create("resourceclaims", body)
    assert claim["spec"]["devices"]["requests"][0]["exactly"] == {
        "deviceClassName": "gpu",
        "allocationMode": "ExactCount",
        "count": 1,
    }


def test_an_allocation_is_made_once_and_reserved_only_while_it_lasts() -> None:
    cluster = Cluster()
    cluster.create("resourceclaims", {"metadata": {"name": "c"}, "spec": {}})

    def write(**status: Any) -> None:
        body = {**cluster.get("resourceclaims", "c"), "status": status}
        cluster.update("resourceclaims", body, subresource="status")

    reserved = [{"resource": "pods", "name": "p", "uid": "1"}]
    with pytest.raises(ApiError, match="may not be specified when `allocated` is not set"):
        write(reservedFor=reserved)
    first = {"devices": {"results": [{"request": "r", "device": "d1"}]}}
    write(allocation=first, reservedFor=reserved)
    second = {"devices": {"results": [{"request": "r", "device": "d2"}]}}
    with pytest.raises(ApiError, match=r"status\.allocation: Invalid value: .*field is immutable"):
        write(allocation=second)
    write()
    write(allocation=second)
