from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.api import Node, Pod
from kubesched.api.codec import decode, encode, from_builtins
from kubesched.api.sharing import NodeSharing, PodSharing, RecentlyUsed, SharedValues


def pod_document(number: int, **changes: Any) -> dict[str, Any]:
    """Return a running pod of a Deployment, as a server sends it."""
    document: dict[str, Any] = {
        "metadata": {
            "name": f"web-{number}",
            "namespace": "default",
            "uid": f"uid-{number}",
            "resourceVersion": str(number),
            "creationTimestamp": f"2026-01-01T00:00:{number:02d}Z",
            "labels": {"app": "web"},
            "ownerReferences": [{"kind": "ReplicaSet", "name": "web", "uid": "rs-1"}],
        },
        "spec": {
            "nodeName": f"node-{number}",
            "containers": [{"name": "c", "image": "web:1", "resources": {"requests": {"cpu": 1}}}],
            "volumes": [{"name": f"token-{number}", "projected": {"defaultMode": 420}}],
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 300}],
        },
        "status": {
            "phase": "Running",
            "hostIP": "10.0.0.1",
            "hostIPs": [{"ip": "10.0.0.1"}],
            "podIP": f"10.1.0.{number}",
            "podIPs": [{"ip": f"10.1.0.{number}"}],
            "startTime": f"2026-01-01T00:00:{number:02d}Z",
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": f"2026-01-0{number}"},
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01"},
            ],
            "containerStatuses": [
                {
                    "name": "c",
                    "image": "web:1",
                    "imageID": "sha256:1",
                    "containerID": f"containerd://{number}",
                    "state": {"running": {"startedAt": f"2026-01-0{number}"}},
                }
            ],
        },
    }
    for part, values in changes.items():
        document[part] |= values
    return document


def decoded_pod(number: int, **changes: Any) -> Pod:
    """Return a pod that was decoded alone and shares no parts."""
    return decode(encode(from_builtins(pod_document(number, **changes), Pod)), Pod)


def test_pods_of_one_owner_share_equal_parts() -> None:
    sharing = PodSharing()
    first = sharing.share(decoded_pod(1), None)
    second = sharing.share(decoded_pod(2), None)
    assert (first, second) == (decoded_pod(1), decoded_pod(2))
    assert second.metadata.labels is first.metadata.labels
    assert second.metadata.owner_references is first.metadata.owner_references
    assert second.spec.containers is first.spec.containers
    assert second.spec.tolerations is first.spec.tolerations
    assert second.spec.volumes[0].projected is first.spec.volumes[0].projected
    assert second.status.host_ips is first.status.host_ips
    assert second.status.conditions[0].type is first.status.conditions[0].type
    assert second.status.container_statuses[0].image is first.status.container_statuses[0].image


def test_pods_of_different_owners_share_parts_that_all_pods_have() -> None:
    sharing = PodSharing()
    first = sharing.share(decoded_pod(1), None)
    other = {"labels": {"app": "db"}, "ownerReferences": [{"uid": "rs-2"}]}
    image = {"name": "c", "image": "db:1", "resources": {"requests": {"cpu": 1}}}
    changed = {"metadata": other, "spec": {"containers": [image]}}
    second = sharing.share(decoded_pod(2, **changed), None)
    assert second == decoded_pod(2, **changed)
    assert second.spec.tolerations is first.spec.tolerations
    assert second.spec.containers[0].resources is first.spec.containers[0].resources


def test_a_changed_template_becomes_the_model() -> None:
    sharing = PodSharing()
    sharing.share(decoded_pod(1), None)
    changed = {"containers": [{"name": "c", "image": "web:2"}]}
    second = sharing.share(decoded_pod(2, spec=changed), None)
    third = sharing.share(decoded_pod(3, spec=changed), None)
    assert third == decoded_pod(3, spec=changed)
    assert third.spec.containers is second.spec.containers


def test_an_update_of_the_status_retains_the_same_spec_object() -> None:
    sharing = PodSharing()
    before = sharing.share(decoded_pod(1), None)
    after = sharing.share(decoded_pod(1, status={"phase": "Failed"}), before)
    assert after == decoded_pod(1, status={"phase": "Failed"})
    assert after.spec is before.spec


def test_a_bound_pod_shares_the_parts_of_the_unbound_version() -> None:
    sharing = PodSharing()
    waiting = sharing.share(decoded_pod(1, spec={"nodeName": ""}), None)
    bound = sharing.share(decoded_pod(1), waiting)
    assert bound == decoded_pod(1)
    assert bound.spec.containers is waiting.spec.containers
    assert bound.spec.volumes is waiting.spec.volumes


def test_parts_that_differ_from_the_model_are_the_pods_own() -> None:
    sharing = PodSharing()
    sharing.share(decoded_pod(1), None)
    crashed = {
        "containerStatuses": [
            {"name": "c", "state": {"terminated": {"exitCode": 1}}, "restartCount": 3}
        ],
        "conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}],
    }
    assert sharing.share(decoded_pod(2, status=crashed), None) == decoded_pod(2, status=crashed)


_PARTS: dict[str, dict[str, list[Any]]] = {
    "metadata": {
        "name": ["a", "b"],
        "namespace": ["x", "y"],
        "labels": [{}, {"app": "a"}, {"app": "b", "zone": "z"}],
        "annotations": [{}, {"note": "n"}],
        "ownerReferences": [[], [{"uid": "1"}], [{"uid": "2"}], [{"uid": "1"}, {"uid": "2"}]],
        "deletionTimestamp": [None, "2026-01-01"],
    },
    "spec": {
        "nodeName": ["", "n1", "n2"],
        "hostname": ["", "h"],
        "priority": [None, 0, 5],
        "volumes": [[], [{"name": "v"}], [{"name": "v", "emptyDir": {}}], [{"name": "w"}]],
        "containers": [[{"name": "c"}], [{"name": "c"}, {"name": "d"}], [{"name": "e"}]],
        "overhead": [{}, {"cpu": "1"}],
    },
    "status": {
        "phase": ["Pending", "Running"],
        "podIP": ["", "1.1.1.1", "2.2.2.2"],
        "podIPs": [[], [{"ip": "1.1.1.1"}], [{"ip": "1.1.1.1"}, {"ip": "::1"}]],
        "conditions": [
            [],
            [{"type": "A", "lastTransitionTime": "1"}],
            [{"type": "A", "lastTransitionTime": "2", "reason": "R"}],
            [{"type": "A"}, {"type": "B", "lastProbeTime": "3"}],
        ],
        "containerStatuses": [
            [],
            [{"name": "c", "state": {"running": {"startedAt": "1"}}}],
            [{"name": "c", "state": {"waiting": {"reason": "W"}}, "ready": True}],
            [{"name": "c", "state": {"running": {}, "terminated": {"exitCode": 2}}}],
        ],
    },
}

pods = st.fixed_dictionaries(
    {
        part: st.fixed_dictionaries({name: st.sampled_from(some) for name, some in fields.items()})
        for part, fields in _PARTS.items()
    }
).map(lambda document: from_builtins(document, Pod))


@given(st.lists(st.tuples(pods, st.booleans()), max_size=12))
def test_sharing_never_changes_a_pod(arriving: list[tuple[Pod, bool]]) -> None:
    sharing = PodSharing()
    kept: dict[str, Pod] = {}
    for pod, is_update in arriving:
        name = pod.metadata.name
        shared = sharing.share(pod, kept.get(name) if is_update else None)
        assert shared == pod
        assert encode(shared) == encode(pod)
        kept[name] = shared


def decoded_node(number: int, **status: Any) -> Node:
    image = {"names": ["registry.example/app@sha256:0", "registry.example/app:1"], "sizeBytes": 5}
    document = {
        "metadata": {
            "name": f"n{number}",
            "labels": {
                "kubernetes.io/hostname": f"n{number}",
                "node.kubernetes.io/instance-type": "large",
                "topology.kubernetes.io/zone": "zone-1",
            },
        },
        "status": {
            "allocatable": {"cpu": "4", "memory": "16Gi"},
            "nodeInfo": {"machineID": str(number), "kernelVersion": "6.8.0"},
            "addresses": [{"type": "Hostname", "address": f"n{number}"}],
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": str(number)}],
            "images": [image, {"names": [f"registry.example/own:{number}"], "sizeBytes": number}],
        }
        | status,
    }
    return decode(encode(from_builtins(document, Node)), Node)


def test_nodes_share_equal_parts() -> None:
    sharing = NodeSharing()
    first = sharing.share(decoded_node(1), None)
    second = sharing.share(decoded_node(2), None)
    assert (first, second) == (decoded_node(1), decoded_node(2))
    assert second.status.images[0] is first.status.images[0]
    assert second.status.allocatable is first.status.allocatable
    zone = "topology.kubernetes.io/zone"
    assert second.metadata.labels[zone] is first.metadata.labels[zone]


def test_a_heartbeat_of_a_node_reuses_its_other_parts() -> None:
    sharing = NodeSharing()
    before = sharing.share(decoded_node(1), None)
    beats = [{"type": "Ready", "status": "True", "lastHeartbeatTime": "later"}]
    after = sharing.share(decoded_node(1, conditions=beats), before)
    assert after == decoded_node(1, conditions=beats)
    assert after.status.images is before.status.images
    assert after.metadata.labels is before.metadata.labels


@pytest.mark.parametrize("most", [1, 2, 10])
def test_the_caches_are_bounded(most: int) -> None:
    recent: RecentlyUsed[int, int] = RecentlyUsed(most)
    shared = SharedValues(most)
    for number in range(10 * most):
        recent.put(number, number)
        assert recent.get(number) == number
        assert shared(f"value {number}") == f"value {number}"
        assert len(recent) <= 2 * most
        assert len(shared) <= 2 * most


def test_frequently_used_entries_are_not_evicted() -> None:
    shared = SharedValues(10)
    first = shared("".join(["of", "ten"]))
    for number in range(1_000):
        shared(f"passing {number}")
        if number % 5 == 0:
            assert shared("".join(["of", "ten"])) is first
