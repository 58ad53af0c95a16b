"""Pending pods: groups, two changes together, preemption, and no leftover state."""

from __future__ import annotations

import pytest

from kubesched.api import Deployment, Node, ObjectMeta, Pod, PodCondition, Toleration
from kubesched.api.core import ResourceQuota
from kubesched.explain import ExplainError, Explanation, Snapshot
from kubesched.explain.text import render
from kubesched.foundation.util.clock import ManualClock
from kubesched.testing import make_node, make_pod, make_pv, make_pvc, make_storage_class

ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def nodes(*names: str, **options: object) -> list[Node]:
    return [make_node(name, allocatable=ROOM, **options) for name in names]  # type: ignore[arg-type]


def running(name: str, node: str, **options: object) -> Pod:
    return make_pod(name, node_name=node, phase="Running", **options)  # type: ignore[arg-type]


def explained(objects: list[Node | Pod], pod: Pod) -> Explanation:
    return Snapshot([*objects, pod], clock=ManualClock()).explain(pod)


def test_every_rule_that_rejects_a_node_is_named() -> None:
    objects = [
        *nodes("a", taints=["gpu=yes:NoSchedule"], labels={"disk": "hdd"}),
        running("r", "a", requests={"cpu": "3"}),
    ]
    answer = explained(objects, make_pod("p", requests={"cpu": "2"}, node_selector={"disk": "ssd"}))
    (group,) = answer.groups
    assert {each.plugin for each in group.rejections} == {
        "NodeAffinity",
        "NodeResourcesFit",
        "TaintToleration",
    }


def test_two_changes_where_one_is_not_enough() -> None:
    answer = explained(
        [
            *nodes("a", taints=["gpu=yes:NoSchedule"]),
            make_node("small", allocatable={"cpu": "1", "pods": "0"}),
        ],
        make_pod("p", requests={"cpu": "5"}),
    )
    pair = next(each for each in answer.suggestions if len(each.parts) == 2)
    assert "tolerate gpu=yes:NoSchedule" in pair.parts
    assert any(part.startswith("request cpu <= 4") for part in pair.parts)
    assert pair.node == "a"


def test_preemption_names_the_victims() -> None:
    objects = [*nodes("a"), running("low", "a", requests={"cpu": "3"}, priority=1)]
    answer = explained(objects, make_pod("p", requests={"cpu": "2"}, priority=10))
    assert answer.preemption is not None
    assert answer.preemption.possible
    assert answer.preemption.node == "a"
    assert answer.preemption.victims == ("default/low",)


def test_preemption_reports_the_priority_that_would_help() -> None:
    objects = [*nodes("a"), running("equal", "a", requests={"cpu": "3"}, priority=10)]
    answer = explained(objects, make_pod("p", requests={"cpu": "2"}, priority=10))
    assert answer.preemption is not None
    assert not answer.preemption.possible
    assert answer.preemption.priority_needed == 11


def test_explaining_pending_pods_does_not_change_the_model() -> None:
    objects = [*nodes("a", "b"), running("low", "a", requests={"cpu": "3"}, priority=1)]
    pod = make_pod("p", requests={"cpu": "5"}, priority=10)
    snapshot = Snapshot([*objects, pod], clock=ManualClock())
    before = {type(each): each for each in snapshot.model.objects}
    first = snapshot.explain(pod)
    assert snapshot.explain(pod) == first
    assert {type(each): each for each in snapshot.model.objects} == before
    snapshot.model.cache.check_invariants()


def test_rules_about_kinds_that_may_not_be_read_are_left_out() -> None:
    claim = make_pvc("data", volume_name="pv-1", storage_class="fast")
    pod = make_pod("p", pvcs=["data"])
    seen = Snapshot([*nodes("a"), claim, pod], clock=ManualClock()).explain(pod)
    assert "volume pv-1, which does not exist" in seen.summary
    unseen = Snapshot(
        [*nodes("a"), claim, pod], unknown=["PersistentVolume"], clock=ManualClock()
    ).explain(pod)
    assert (unseen.verdict, unseen.node) == ("unknown", "")
    assert "it depends on PersistentVolume, which has not been read" in unseen.summary
    assert unseen.unknown == ("PersistentVolume",)
    plain = Snapshot(nodes("a"), unknown=["PersistentVolume"], clock=ManualClock())
    assert plain.explain(make_pod("q")).verdict == "fits"


def test_a_device_claim_is_unknown_if_its_kinds_have_not_been_read() -> None:
    pod = make_pod("p", resource_claims={"gpu": "gpu"}, requests={"cpu": "1"})
    unread = ["ResourceClaim", "ResourceSlice", "DeviceClass", "PodGroup"]
    answer = Snapshot(nodes("a"), unknown=unread, clock=ManualClock()).explain(pod)
    assert answer.verdict == "unknown"
    assert "ResourceClaim, ResourceSlice, DeviceClass, which have not been read" in answer.summary
    # Another rule rejects the pod whatever the devices are; a change may still not be enough.
    large = make_pod("p", resource_claims={"gpu": "gpu"}, requests={"cpu": "64"})
    rejected = Snapshot(nodes("a"), unknown=unread, clock=ManualClock()).explain(large)
    assert rejected.verdict == "pending"
    assert rejected.summary.startswith("Insufficient cpu")
    assert {each.verified for each in rejected.suggestions} == {False}
    assert "without the rules about kinds that have not been read" in render(rejected)


def test_further_reasons_follow_the_first_one() -> None:
    gated = explained(nodes("a"), make_pod("p", gates=["x"], requests={"cpu": "6"}))
    assert gated.breakdown.startswith("Once that is solved: Insufficient cpu: asks 6")
    unclaimed = explained(nodes("a"), make_pod("p", pvcs=["data"], requests={"cpu": "6"}))
    assert unclaimed.summary == "claim data does not exist in namespace default"
    assert unclaimed.breakdown.startswith("Once that is solved: Insufficient cpu: asks 6")


def test_a_pod_that_was_never_created_is_distinguished_from_a_typo() -> None:
    deployment = Deployment(metadata=ObjectMeta(name="web", namespace="shop"))
    quota = ResourceQuota(metadata=ObjectMeta(name="small", namespace="shop"))
    snapshot = Snapshot([*nodes("a"), deployment, quota], clock=ManualClock())
    with pytest.raises(ExplainError) as raised:
        snapshot.explain("shop/web-1")
    (note,) = raised.value.__notes__
    assert note.startswith("Deployment shop/web has 0 pods")
    assert "quota small" in note


def test_a_scheduler_of_another_name_that_has_tried_the_pod_is_quoted() -> None:
    pod = make_pod(
        "p",
        scheduler_name="volcano",
        conditions=[
            PodCondition(
                type="PodScheduled",
                status="False",
                reason="Unschedulable",
                message="0/1 nodes are available: queue full.",
            )
        ],
    )
    answer = explained(nodes("a"), pod)
    assert answer.summary.startswith("scheduler 'volcano' has tried it, and said: 0/1 nodes")
    assert "Run a scheduler" not in answer.advice
    assert "--config" in answer.advice


def test_the_nodes_of_the_selector_are_tainted_and_full() -> None:
    objects = [
        *nodes("gpu", taints=["gpu=yes:NoSchedule"], labels={"pool": "gpu"}),
        *nodes("other"),
        running("r", "gpu", requests={"cpu": "4"}),
    ]
    pod = make_pod("p", requests={"cpu": "2"}, node_selector={"pool": "gpu"})
    summary = explained(objects, pod).summary
    assert "untolerated taint gpu=yes:NoSchedule; besides, Insufficient cpu" in summary


def test_a_misspelt_key_of_a_toleration() -> None:
    pod = make_pod("p", tolerations=[Toleration(key="dedicate", operator="Exists")])
    answer = explained(nodes("a", taints=["dedicated=x:NoSchedule"]), pod)
    assert "the pod tolerates the key dedicate: is dedicated meant?" in answer.summary
    assert answer.suggestions[0].change == "tolerate dedicated=x:NoSchedule"


@pytest.mark.parametrize("waits", [False, True])
def test_the_free_volumes_are_too_small(waits: bool) -> None:
    objects = [
        *nodes("a"),
        make_storage_class(
            "local", provisioner="kubernetes.io/no-provisioner", wait_for_first_consumer=waits
        ),
        make_pvc("data", storage_class="local", size="10Gi"),
        make_pv("pv-1", storage_class="local", size="5Gi"),
        make_pv("pv-2", storage_class="local", size="8Gi"),
    ]
    summary = explained(objects, make_pod("p", pvcs=["data"])).summary
    assert "wants 10Gi of class local, and 2 volumes of it are free" in summary
    assert "the largest, pv-2, has only 8Gi" in summary
