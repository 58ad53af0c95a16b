"""Computed facts about a pod are reused only for pods that are equal in the inputs."""

from __future__ import annotations

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.codec import decode
from kubesched.framework import PodInfo
from kubesched.framework.pod_info import PodInfos

POD = decode(
    b"""{"metadata": {"name": "a", "namespace": "one", "uid": "1"}, "spec": {
        "containers": [{"name": "c", "ports": [{"containerPort": 80, "hostPort": 8080}],
                        "resources": {"requests": {"cpu": "100m", "memory": "1Gi"}}}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]}}""",
    Pod,
)


def successor(**changes: str) -> Pod:
    metadata = replace(POD.metadata, name="b", uid="2", **changes)
    return replace(POD, metadata=metadata)


def facts(info: PodInfo) -> tuple[object, ...]:
    return info.requested, info.nonzero_requested, info.host_ports, info.claim_keys


def test_pods_of_one_spec_share_what_is_computed() -> None:
    infos = PodInfos()
    first, second = infos.info_of(POD), infos.info_of(successor())
    assert second.pod.metadata.name == "b"
    assert facts(second) == facts(PodInfo(successor()))
    assert second.claim_keys is first.claim_keys
    assert second.claim_keys == ("one/claim",)


def test_claims_are_those_of_the_pods_own_namespace() -> None:
    infos = PodInfos()
    for pod in (POD, successor(), successor(namespace="two")):
        assert facts(infos.info_of(pod)) == facts(PodInfo(pod))


def test_a_resized_pod_is_counted_by_its_allocated_resources() -> None:
    granted = decode(
        b"""{"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "3"},
             "resources": {"requests": {"cpu": "3", "memory": "1Gi"}}}]}""",
        type(POD.status),
    )
    resized = replace(successor(), status=granted)
    infos = PodInfos()
    for pod in (POD, successor(), resized, successor()):
        assert facts(infos.info_of(pod)) == facts(PodInfo(pod))
    assert infos.info_of(resized).requested.milli_cpu == 3_000


def test_amounts_that_cannot_be_read_fail_where_they_are_read() -> None:
    odd = decode(
        b"""{"metadata": {"name": "a", "namespace": "one"}, "spec": {"containers": [
             {"name": "c", "resources": {"requests": {"cpu": "much"}}}]}}""",
        Pod,
    )
    infos = PodInfos()
    for _ in range(3):
        assert infos.info_of(odd).host_ports == ()
