"""The number of copies that fit, by two ways of counting, and the cause that stops the next."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import Node, Pod, ResourceClaim, ResourceClaimTemplate
from kubesched.explain import Snapshot
from kubesched.explain.copies import Copies
from kubesched.foundation.util.clock import ManualClock
from kubesched.testing import (
    make_affinity,
    make_node,
    make_node_selector,
    make_pod,
    make_pod_term,
    make_pv,
    make_spread,
    make_storage_class,
)
from tests.explain.causes import HOST, device_claim, device_class, parsed, slice_of

ZONE = "topology.kubernetes.io/zone"
ROOM = {"cpu": "4", "memory": "8Gi", "pods": "10"}


def snapshot(*objects: Any) -> Snapshot:
    return Snapshot(objects, clock=ManualClock())


def nodes(*names: str, **options: Any) -> list[Node]:
    return [make_node(name, allocatable=ROOM, **options) for name in names]


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[Node | Pod], Pod]:
    objects: list[Node | Pod] = []
    for number in range(draw(st.integers(1, 5))):
        objects.append(
            make_node(
                f"n{number}",
                allocatable={
                    "cpu": draw(st.sampled_from(["1", "3500m", "4"])),
                    "memory": "4Gi",
                    "pods": draw(st.sampled_from(["2", "5", "110"])),
                },
                labels={ZONE: draw(st.sampled_from(["z1", "z2"]))},
                taints=draw(st.sampled_from([[], ["gpu=yes:NoSchedule"]])),
            )
        )
        if draw(st.booleans()):
            objects.append(
                make_pod(
                    f"r{number}",
                    node_name=f"n{number}",
                    requests={"cpu": "700m"},
                    host_ports=draw(st.sampled_from([(), (80,)])),
                    phase="Running",
                )
            )
    pod = make_pod(
        "p",
        labels={"app": "p"},
        requests={"cpu": draw(st.sampled_from(["300m", "500m", "1"]))},
        host_ports=draw(st.sampled_from([(), (80,)])),
        spread=draw(st.sampled_from([[], [make_spread(ZONE, labels={"app": "p"})]])),
        node_selector=draw(st.sampled_from([None, {ZONE: "z1"}])),
    )
    return objects, pod


@settings(max_examples=40, deadline=None)
@given(clusters())
def test_batched_and_single_updates_give_equal_results(cluster: tuple[list[Any], Pod]) -> None:
    objects, pod = cluster
    found = snapshot(*objects).fit(pod)
    slow = snapshot(*objects)
    counted = slow.fit(pod, replicas=found.fits + 1)
    assert counted.fits == found.fits
    if not pod.spec.topology_spread_constraints:
        assert counted.nodes == found.nodes
    slow.model.cache.check_invariants()


def test_plain_pods_are_counted_all_at_once() -> None:
    model = snapshot(*nodes("a", "b")).model
    copies = Copies(model)
    copies.fill(make_pod("p", requests={"cpu": "1500m"}))
    assert copies.by_node == {"a": 2, "b": 2}
    copies.take_back()
    assert not +copies.by_node
    assert model.snapshot.get("a").requested.milli_cpu == 0


@pytest.mark.parametrize(
    "pod",
    [
        make_pod("p", labels={"app": "p"}, spread=[make_spread(ZONE, labels={"app": "p"})]),
        make_pod(
            "p",
            labels={"app": "p"},
            affinity=make_affinity(apart=[make_pod_term(ZONE, {"app": "p"})]),
        ),
    ],
)
def test_pods_with_terms_about_each_other_are_not_placed_in_bulk(pod: Pod) -> None:
    model = snapshot(*nodes("a", "b", labels={ZONE: "z1"})).model
    copies = Copies(model)
    copies.fill(pod)
    assert len(copies) == 0


def test_reasons_against_the_next_copy_are_grouped_by_nodes() -> None:
    tainted = nodes("c", taints=["gpu=yes:NoSchedule"])
    answer = snapshot(*nodes("a", "b"), *tainted).fit(make_pod("p", requests={"cpu": "3"}))
    assert (answer.fits, answer.nodes) == (2, {"a": 1, "b": 1})
    assert {(group.count, group.rejections[0].reason) for group in answer.stopped_by} == {
        (2, "Insufficient cpu"),
        (1, "node(s) had untolerated taint(s)"),
    }


def test_how_many_more_nodes_the_rest_would_need() -> None:
    answer = snapshot(*nodes("a")).fit(make_pod("p", requests={"cpu": "2"}), replicas=7)
    assert (answer.fits, answer.asked) == (2, 7)
    (needed,) = answer.nodes_needed
    assert (needed.like, needed.count) == ("a", 3)


def test_a_pod_that_no_shape_of_node_holds_needs_no_number_of_them() -> None:
    answer = snapshot(*nodes("a")).fit(make_pod("p", requests={"cpu": "64"}), replicas=1)
    assert (answer.fits, answer.nodes_needed) == (0, ())


def test_several_pods_are_counted_in_sets() -> None:
    front, back = make_pod("f", requests={"cpu": "1"}), make_pod("b", requests={"cpu": "2"})
    answer = snapshot(*nodes("a", "b")).fit(front, back)
    assert answer.fits == 2
    assert sum(answer.nodes.values()) == 4


def test_counting_leaves_no_state_behind() -> None:
    asked = snapshot(*nodes("a", "b"), make_pod("r", node_name="a", requests={"cpu": "1"}))
    first = asked.fit(make_pod("p", requests={"cpu": "1"}))
    assert asked.fit(make_pod("p", requests={"cpu": "1"})) == first
    asked.model.cache.check_invariants()


def test_devices_of_copies_are_allocated_and_released() -> None:
    template = parsed(
        ResourceClaimTemplate,
        {
            "metadata": {"name": "gpu", "namespace": "default"},
            "spec": {"spec": msgspec.to_builtins(device_claim("x", "gpu.example.com").spec)},
        },
    )
    pod = parsed(
        Pod,
        {
            "metadata": {"name": "train", "namespace": "default"},
            "spec": {
                "schedulerName": "default-scheduler",
                "containers": [{"name": "c"}],
                "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
            },
        },
    )
    asked = snapshot(
        *nodes("a", "b"),
        device_class("gpu.example.com"),
        slice_of("a", "a-0", "a-1"),
        slice_of("b", "b-0"),
        template,
    )
    first = asked.fit(pod)
    assert (first.fits, first.nodes) == (3, {"a": 2, "b": 1})
    assert first.stopped_by[0].rejections[0].reason == "cannot allocate all claims"
    assert asked.fit(pod) == first
    assert not asked.model.objects.list(ResourceClaim)


def test_a_separate_volume_is_provisioned_for_each_copy() -> None:
    source = {"volumeClaimTemplate": {"spec": {"storageClassName": "local"}}}
    template = {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{"name": "c"}],
            "volumes": [{"name": "data", "ephemeral": source}],
        },
    }
    spec = template["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]
    spec["resources"] = {"requests": {"storage": "1Gi"}}
    spec["accessModes"] = ["ReadWriteOnce"]
    here = make_node_selector((HOST, "In", "a"))
    asked = snapshot(
        *nodes("a", "b"),
        make_storage_class("local", provisioner="kubernetes.io/no-provisioner"),
        *(
            make_pv(f"pv-{number}", storage_class="local", node_selector=here, phase="Available")
            for number in range(2)
        ),
    )
    answer = asked.fit(parsed(Pod, template))
    assert (answer.fits, answer.nodes) == (2, {"a": 2})
