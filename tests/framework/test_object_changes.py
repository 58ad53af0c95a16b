"""Classification of updates (docs/reference/03 §8.2, §8.3), by table and by recordings."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from kubesched.api import (
    ContainerExtendedResourceRequest,
    ContainerStatus,
    Node,
    NodeCondition,
    Pod,
    PodExtendedResourceClaimStatus,
    PodResourceClaimStatus,
    ResourceRequirements,
)
from kubesched.api.codec import from_builtins
from kubesched.framework.object_changes import node_update_events, pod_update_events
from kubesched.testing.objects.builders import make_container, make_node, make_pod, make_taint


class PodChange(NamedTuple):
    old: Pod
    new: Pod
    want: list[str]


def given(pod: Pod, cpu: str) -> Pod:
    """The pod once its container was given an amount of cpu."""
    status = ContainerStatus(
        name=pod.spec.containers[0].name, resources=ResourceRequirements(requests={"cpu": cpu})
    )
    return replace(pod, status=replace(pod.status, container_statuses=(status,)))


def claims(
    *statuses: PodResourceClaimStatus, extended: str | None = None, request: str = ""
) -> Pod:
    pod = make_pod("p")
    mapping = ContainerExtendedResourceRequest(container_name="c", request_name=request)
    extended_status = extended and PodExtendedResourceClaimStatus(
        resource_claim_name=extended, request_mappings=(mapping,)
    )
    return replace(
        pod,
        status=replace(
            pod.status,
            resource_claim_statuses=statuses,
            extended_resource_claim_status=extended_status or None,
        ),
    )


ONE, TWO = (PodResourceClaimStatus(name=name, resource_claim_name=name) for name in "ab")
UNNAMED = PodResourceClaimStatus(name="a")

POD_CHANGES = {
    "nothing that has a name": PodChange(
        make_pod("p"), make_pod("p", annotations={"a": "b"}), ["UnschedulablePodUpdate"]
    ),
    "a nomination": PodChange(
        make_pod("p"), make_pod("p", nominated_node_name="n"), ["UnschedulablePodUpdate"]
    ),
    "labels of a waiting pod": PodChange(
        make_pod("p"), make_pod("p", labels={"a": "b"}), ["UnschedulablePodUpdatePodLabel"]
    ),
    "labels of a bound pod": PodChange(
        make_pod("p", node_name="n"),
        make_pod("p", node_name="n", labels={"a": "b"}),
        ["AssignedPodUpdatePodLabel"],
    ),
    "less cpu": PodChange(
        make_pod("p", requests={"cpu": "2", "memory": "1Gi"}),
        make_pod("p", requests={"cpu": "1500m", "memory": "2Gi"}),
        ["UnschedulablePodUpdatePodScaleDown"],
    ),
    "a resource is no longer asked for": PodChange(
        make_pod("p", requests={"cpu": "0", "memory": "1Gi"}),
        make_pod("p", requests={"memory": "1Gi"}),
        ["UnschedulablePodUpdatePodScaleDown"],
    ),
    "the same amounts in other words": PodChange(
        make_pod("p", requests={"cpu": "1", "memory": "1Gi"}),
        make_pod("p", requests={"cpu": "1000m", "memory": "1024Mi"}),
        ["UnschedulablePodUpdate"],
    ),
    "less than a thousandth less is nothing": PodChange(
        make_pod("p", requests={"cpu": "1000u"}),
        make_pod("p", requests={"cpu": "900u"}),
        ["UnschedulablePodUpdate"],
    ),
    "more of everything": PodChange(
        make_pod("p", requests={"cpu": "1"}),
        make_pod("p", requests={"cpu": "2", "memory": "1Gi"}),
        ["UnschedulablePodUpdate"],
    ),
    "less overhead": PodChange(
        make_pod("p", overhead={"cpu": "2"}),
        make_pod("p", overhead={"cpu": "1"}),
        ["UnschedulablePodUpdatePodScaleDown"],
    ),
    "less for an init container that did not matter": PodChange(
        make_pod(
            "p",
            requests={"cpu": "5"},
            init_containers=[make_container("i", requests={"cpu": "2"})],
        ),
        make_pod(
            "p",
            requests={"cpu": "5"},
            init_containers=[make_container("i", requests={"cpu": "1"})],
        ),
        ["UnschedulablePodUpdate"],
    ),
    "less is asked for, but not yet given back": PodChange(
        given(make_pod("p", node_name="n", requests={"cpu": "2"}), "2"),
        given(make_pod("p", node_name="n", requests={"cpu": "1"}), "2"),
        ["AssignedPodUpdate"],
    ),
    "what is asked for was given back": PodChange(
        given(make_pod("p", node_name="n", requests={"cpu": "1"}), "2"),
        given(make_pod("p", node_name="n", requests={"cpu": "1"}), "1"),
        ["AssignedPodUpdatePodScaleDown"],
    ),
    "the last gate": PodChange(
        make_pod("p", gates=["a"]),
        make_pod("p"),
        ["UnschedulablePodUpdatePodSchedulingGatesEliminated"],
    ),
    "one gate of two": PodChange(
        make_pod("p", gates=["a", "b"]), make_pod("p", gates=["b"]), ["UnschedulablePodUpdate"]
    ),
    "a toleration more": PodChange(
        make_pod("p"),
        make_pod("p", tolerations=["a:NoSchedule"]),
        ["UnschedulablePodUpdatePodToleration"],
    ),
    "another toleration instead": PodChange(
        make_pod("p", tolerations=["a:NoSchedule"]),
        make_pod("p", tolerations=["b:NoSchedule"]),
        ["UnschedulablePodUpdate"],
    ),
    "a claim was made": PodChange(
        claims(UNNAMED), claims(ONE), ["UnschedulablePodUpdatePodGeneratedResourceClaim"]
    ),
    "claims change places": PodChange(
        claims(ONE, TWO),
        claims(TWO, ONE),
        ["UnschedulablePodUpdatePodGeneratedResourceClaim"],
    ),
    "a claim for extended resources": PodChange(
        claims(), claims(extended="c"), ["UnschedulablePodUpdatePodGeneratedResourceClaim"]
    ),
    "its requests change": PodChange(
        claims(extended="c", request="a"),
        claims(extended="c", request="b"),
        ["UnschedulablePodUpdatePodGeneratedResourceClaim"],
    ),
    "all at once, in a fixed order": PodChange(
        make_pod("p", gates=["a"], requests={"cpu": "2"}),
        replace(
            make_pod("p", labels={"a": "b"}, requests={"cpu": "1"}, tolerations=["a:NoSchedule"]),
            status=claims(ONE).status,
        ),
        [
            "UnschedulablePodUpdatePodLabel",
            "UnschedulablePodUpdatePodScaleDown",
            "UnschedulablePodUpdatePodSchedulingGatesEliminated",
            "UnschedulablePodUpdatePodToleration",
            "UnschedulablePodUpdatePodGeneratedResourceClaim",
        ],
    ),
}


@pytest.mark.parametrize("case", POD_CHANGES.values(), ids=POD_CHANGES)
def test_pod_update_events(case: PodChange) -> None:
    assert [event.label for event in pod_update_events(case.old, case.new)] == case.want


class NodeChange(NamedTuple):
    old: Node
    new: Node
    want: list[str]


def conditioned(status: str, heartbeat: str) -> Node:
    node = make_node("n")
    ready = NodeCondition(type="Ready", status=status, last_heartbeat_time=heartbeat)
    return replace(node, status=replace(node.status, conditions=(ready,)))


def with_features(*features: str) -> Node:
    node = make_node("n")
    return replace(node, status=replace(node.status, declared_features=features))


def cordoned(node: Node) -> Node:
    return replace(node, spec=replace(node.spec, unschedulable=True))


def offering(**allocatable: str) -> Node:
    node = make_node("n")
    return replace(node, status=replace(node.status, allocatable=allocatable))


NOON, LATER = "2026-01-01T12:00:00Z", "2026-01-01T12:00:10Z"
TAINTED = make_node("n", taints=["a:NoSchedule"])
NODE_CHANGES = {
    "a heartbeat": NodeChange(conditioned("True", NOON), conditioned("True", LATER), []),
    "a condition": NodeChange(
        conditioned("True", NOON), conditioned("False", NOON), ["NodeUpdateNodeCondition"]
    ),
    "cordoned": NodeChange(make_node("n"), cordoned(make_node("n")), []),
    "un-cordoned": NodeChange(cordoned(make_node("n")), make_node("n"), ["NodeUpdateNodeTaint"]),
    "un-cordoned, and its taint removed": NodeChange(
        cordoned(TAINTED), make_node("n"), ["NodeUpdateNodeTaint", "NodeUpdateNodeTaint"]
    ),
    "taints change places": NodeChange(
        make_node("n", taints=["a:NoSchedule", "b:NoSchedule"]),
        make_node("n", taints=["b:NoSchedule", "a:NoSchedule"]),
        ["NodeUpdateNodeTaint"],
    ),
    "a label and a taint": NodeChange(
        make_node("n"),
        replace(
            make_node("n", labels={"a": "b"}),
            spec=replace(make_node("n").spec, taints=(make_taint("a:NoSchedule"),)),
        ),
        ["NodeUpdateNodeLabel", "NodeUpdateNodeTaint"],
    ),
    "more to give": NodeChange(offering(cpu="1"), offering(cpu="2"), ["NodeUpdateNodeAllocatable"]),
    "something new to give": NodeChange(
        offering(cpu="1"), offering(cpu="1", gpu="1"), ["NodeUpdateNodeAllocatable"]
    ),
    "the same to give in other words": NodeChange(
        offering(cpu="1", memory="1Gi"), offering(cpu="1000m", memory="1024Mi"), []
    ),
    "an annotation": NodeChange(
        make_node("n"),
        replace(make_node("n"), metadata=replace(make_node("n").metadata, annotations={"a": "b"})),
        ["NodeUpdateNodeAnnotation"],
    ),
    "a declared feature": NodeChange(
        with_features(), with_features("f"), ["NodeUpdateNodeDeclaredFeature"]
    ),
    "capacity alone": NodeChange(
        make_node("n"),
        replace(make_node("n"), status=replace(make_node("n").status, capacity={"cpu": "99"})),
        [],
    ),
}


@pytest.mark.parametrize("case", NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_node_update_events(case: NodeChange) -> None:
    assert [event.label for event in node_update_events(case.old, case.new)] == case.want


def test_declared_features_are_a_feature() -> None:
    assert not node_update_events(with_features(), with_features("f"), declared_features=False)


def test_updates_result_in_the_documented_events(goldens: Path) -> None:
    compared = 0
    with gzip.open(goldens / "hints.jsonl.gz", "rt") as lines:
        for line in lines:
            for change in json.loads(line)["events"]:
                if change["action"] == "update" and change["resource"] in ("Pod", "Node"):
                    want = [event["label"] for event in change["expected"]]
                    assert update_labels(change) == want, change
                    compared += 1
    assert compared > 1000


def update_labels(change: dict[str, Any]) -> list[str]:
    if change["resource"] == "Node":
        old, new = (from_builtins(change[version], Node) for version in ("old", "new"))
        return [event.label for event in node_update_events(old, new)]
    old_pod, new_pod = (from_builtins(change[version], Pod) for version in ("old", "new"))
    return [event.label for event in pod_update_events(old_pod, new_pod)]
