"""Builders set the given fields and fill the rest as an API server would."""

from __future__ import annotations

import pytest

from kubesched.api import Pod, Taint, Toleration
from kubesched.testing import (
    HOSTNAME,
    ZONE,
    make_affinity,
    make_container,
    make_node,
    make_node_selector,
    make_node_term,
    make_pod,
    make_pod_term,
    make_pv,
    make_pvc,
    make_selector,
    make_spread,
    make_taint,
    make_toleration,
)


def test_the_same_call_makes_an_equal_pod_and_another_name_another_uid() -> None:
    assert make_pod("a") == make_pod("a")
    uids = {
        make_pod("a").metadata.uid,
        make_pod("b").metadata.uid,
        make_pod("a", namespace="other").metadata.uid,
        make_node("a").metadata.uid,
    }
    assert len(uids) == 4


def container_requests(pod: Pod) -> list[dict[str, object]]:
    return [dict(container.resources.requests) for container in pod.spec.containers]


def test_a_pod_has_one_container_by_default() -> None:
    assert container_requests(make_pod("p")) == [{}]
    assert container_requests(make_pod("p", requests={"cpu": "1"})) == [{"cpu": "1"}]
    assert container_requests(make_pod("p", requests=[{"cpu": "1"}, {}])) == [{"cpu": "1"}, {}]
    own = make_container("own", requests={"cpu": 2})
    assert make_pod("p", containers=[own]).spec.containers == (own,)


def test_images_and_ports_belong_to_containers() -> None:
    pod = make_pod("p", images=["a:1", "b:2"], host_ports=[80])
    assert [container.image for container in pod.spec.containers] == ["a:1", "b:2"]
    assert [len(container.ports) for container in pod.spec.containers] == [1, 0]
    assert pod.spec.containers[0].ports[0].host_port == 80


def test_a_placed_pod_runs_and_another_is_pending() -> None:
    assert make_pod("p", node_name="n").status.phase == "Running"
    assert make_pod("p").status.phase == "Pending"
    assert make_pod("p", phase="Failed").status.phase == "Failed"


TAINTS = {
    "key=value:NoSchedule": Taint(key="key", value="value", effect="NoSchedule"),
    "key:NoExecute": Taint(key="key", effect="NoExecute"),
}


@pytest.mark.parametrize("text", TAINTS)
def test_taints_read_as_kubectl_writes_them(text: str) -> None:
    assert make_taint(text) == TAINTS[text]
    assert make_node("n", taints=[text]).spec.taints == (TAINTS[text],)


TOLERATIONS = {
    "key=value:NoSchedule": Toleration(
        key="key", operator="Equal", value="value", effect="NoSchedule"
    ),
    "key:NoSchedule": Toleration(key="key", operator="Exists", effect="NoSchedule"),
    "key": Toleration(key="key", operator="Exists"),
    "": Toleration(operator="Exists"),
}


@pytest.mark.parametrize("text", TOLERATIONS)
def test_tolerations_follow_the_form_of_taints(text: str) -> None:
    assert make_toleration(text) == TOLERATIONS[text]
    assert make_pod("p", tolerations=[text]).spec.tolerations == (TOLERATIONS[text],)


def test_a_node_has_its_hostname_label_and_room() -> None:
    node = make_node("n", zone="z", extended={"example.com/gpu": 8})
    assert node.metadata.labels == {HOSTNAME: "n", ZONE: "z"}
    assert node.status.allocatable == {
        "cpu": "4",
        "memory": "32Gi",
        "pods": 110,
        "example.com/gpu": 8,
    }
    assert make_node("n", hostname_label=False).metadata.labels == {}
    assert make_node("n", allocatable={"cpu": 1}).status.allocatable == {"cpu": 1}


def test_an_affinity_holds_only_the_sections_that_were_named() -> None:
    affinity = make_affinity(node=("zone", "In", "a", "b"))
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.preferred_during_scheduling_ignored_during_execution is None
    assert affinity.node_affinity.required_during_scheduling_ignored_during_execution == (
        make_node_selector(make_node_term(("zone", "In", "a", "b")))
    )
    assert affinity.pod_affinity is None
    assert affinity.pod_anti_affinity is None
    empty = make_affinity(near=())
    assert empty.pod_affinity is not None


def test_a_pod_term_without_labels_selects_no_pods() -> None:
    assert make_pod_term("zone").label_selector is None
    assert make_pod_term("zone", {}).label_selector == make_selector()
    assert make_pod_term("zone", None, ("app", "Exists")).label_selector == make_selector(
        None, ("app", "Exists")
    )


def test_a_spread_constraint_is_hard_and_by_zone_by_default() -> None:
    constraint = make_spread(labels={"app": "a"})
    assert (constraint.topology_key, constraint.when_unsatisfiable) == (ZONE, "DoNotSchedule")
    assert constraint.label_selector == make_selector({"app": "a"})


def test_a_volume_refers_to_its_claim() -> None:
    claim = make_pvc("c", volume_name="v")
    volume = make_pv("v", claim=claim)
    assert volume.spec.claim_ref is not None
    assert volume.spec.claim_ref.uid == claim.metadata.uid
    assert claim.status.phase == volume.status.phase == "Bound"
