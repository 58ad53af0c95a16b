"""Extended resources that device classes serve.

docs/reference/08 §7, §12 rows 33 to 40.
"""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import ApiError, Container, Pod, ResourceClaim
from kubesched.api.codec import from_builtins, to_builtins
from kubesched.api.meta import Status as ApiStatus
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import SUCCESS, Diagnosis, PodInfo
from kubesched.scheduler.plugins.dynamic_resources.extended_requests import extended_requests
from kubesched.testing import make_node, make_pod
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    DRIVER,
    DeviceHarness,
    claim,
    device_class,
    exactly,
    slice_of,
)

GPU = "example.com/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/k"
CLASS = device_class("k", f'device.driver == "{DRIVER}"', extendedResourceName=GPU)


def container(name: str, *, sidecar: bool = False, **requests: str) -> Container:
    names = {"gpu": GPU, "implicit": IMPLICIT, "cpu": "cpu", "other": "example.com/other"}
    amounts = {names[key]: amount for key, amount in requests.items()}
    document: dict[str, Any] = {"name": name, "resources": {"requests": amounts}}
    if sidecar:
        document["restartPolicy"] = "Always"
    return from_builtins(document, Container)


def pod_of(*containers: Container, init: tuple[Container, ...] = ()) -> Pod:
    pod = make_pod("pod")
    return replace(pod, spec=replace(pod.spec, containers=containers, init_containers=init))


def generated(pod: Pod, *resources: str) -> tuple[dict[str, int], list[tuple[str, str]]]:
    found = extended_requests(pod, [(name, "k") for name in resources])
    requests = {
        request.name: request.exactly.count for request in found.requests if request.exactly
    }
    return requests, [(each.container_name, each.request_name) for each in found.mappings]


def test_two_names_of_one_class_are_two_requests() -> None:
    pod = pod_of(container("main", implicit="1", gpu="2"))
    assert generated(pod, GPU, IMPLICIT) == (
        {"container-0-request-0": 1, "container-0-request-1": 2},
        [("main", "container-0-request-0"), ("main", "container-0-request-1")],
    )


def test_short_lived_init_containers_share_the_largest_request() -> None:
    pod = pod_of(
        container("main", other="1"), init=(container("a", gpu="1"), container("b", gpu="2"))
    )
    assert generated(pod, GPU) == (
        {"container-1-request-0": 2},
        [("a", "container-1-request-0"), ("b", "container-1-request-0")],
    )


def test_an_init_container_reuses_devices_of_a_later_sidecar() -> None:
    pod = pod_of(
        container("main", cpu="1"),
        init=(
            container("a", gpu="1"),
            container("side", gpu="1", sidecar=True),
            container("c", gpu="2"),
        ),
    )
    requests, mappings = generated(pod, GPU)
    assert requests == {"container-1-request-0": 1, "container-2-request-0": 2}
    assert mappings == [
        ("side", "container-1-request-0"),
        ("a", "container-1-request-0"),
        ("c", "container-2-request-0"),
    ]


def test_requests_are_sorted_by_name() -> None:
    pod = pod_of(*(container(f"c{number}", gpu="1") for number in range(11)))
    requests, _ = generated(pod, GPU)
    assert list(requests)[:3] == [
        "container-0-request-0",
        "container-1-request-0",
        "container-10-request-0",
    ]


def test_a_node_with_the_resource_itself_needs_no_claim() -> None:
    async def case() -> None:
        nodes = (make_node("n", extended={GPU: 1}), make_node("m"))
        devices = DeviceHarness(CLASS, *nodes, slice_of("a", node="m"))
        pod = pod_of(container("main", gpu="1"))
        assert devices.filter(pod, "n") == SUCCESS
        assert devices.filter(pod, "m") == SUCCESS
        assert devices.plugin.reserve(devices.state, pod, "n") == SUCCESS
        assert await devices.plugin.pre_bind(devices.state, pod, "n") == SUCCESS
        assert devices.handle.fake_api.calls == []

    run(case())


def test_a_claim_is_created_where_devices_serve_the_resource() -> None:
    async def case() -> None:
        pod = pod_of(container("main", gpu="2", cpu="1"))
        devices = DeviceHarness(CLASS, slice_of("a", "b"), pod)
        assert devices.filter(pod) == SUCCESS
        assert devices.plugin.reserve(devices.state, pod, "n") == SUCCESS
        assert await devices.plugin.pre_bind(devices.state, pod, "n") == SUCCESS
        (made,) = devices.handle.objects.list(ResourceClaim)
        assert made.metadata.name.startswith("pod-extended-resources-")
        assert made.metadata.owner_references[0].uid == pod.metadata.uid
        assert made.metadata.annotations == {
            "resource.kubernetes.io/extended-resource-claim": "true"
        }
        (request,) = made.spec.devices.requests
        assert (request.name, request.exactly and request.exactly.count) == (
            "container-0-request-1",
            2,
        )
        assert made.status.allocation is not None
        assert [r.device for r in made.status.allocation.devices.results] == ["a", "b"]
        assert made.status.reserved_for[0].uid == pod.metadata.uid
        stored = devices.handle.objects.get(Pod, "pod", "default")
        assert stored is not None
        assert to_builtins(stored.status.extended_resource_claim_status) == {
            "requestMappings": [
                {
                    "containerName": "main",
                    "resourceName": GPU,
                    "requestName": "container-0-request-1",
                }
            ],
            "resourceClaimName": made.metadata.name,
        }
        assert len(devices.plugin.devices.in_flight) == 0
        creates = devices.handle.metrics.resourceclaim_creates_total
        assert creates.labels("success").value == 1
        # Unreserve deletes the claim that was created for the pod.
        devices.plugin.unreserve(devices.state, pod, "n")
        await devices.handle.finish_work()
        assert devices.handle.objects.list(ResourceClaim) == []
        assert devices.filter(pod) == SUCCESS

    run(case())


def test_a_leftover_claim_is_deleted_first() -> None:
    async def case() -> None:
        pod = pod_of(container("main", gpu="1"))
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "pod",
            "uid": pod.metadata.uid,
            "controller": True,
        }
        left = claim("left", exactly())
        left = replace(
            left,
            metadata=replace(
                left.metadata,
                annotations={"resource.kubernetes.io/extended-resource-claim": "true"},
                finalizers=("resource.kubernetes.io/delete-protection",),
                owner_references=from_builtins(
                    {"metadata": {"ownerReferences": [owner]}}, ResourceClaim
                ).metadata.owner_references,
            ),
        )
        devices = DeviceHarness(CLASS, slice_of("a"), left)
        assert devices.filter(pod).message == "cannot schedule extended resource claim"
        result = devices.plugin.post_filter(devices.state, PodInfo(pod), Diagnosis())
        assert result.status.message == "deletion of ResourceClaim completed"
        await devices.handle.finish_work()
        assert devices.handle.objects.list(ResourceClaim) == []
        assert devices.filter(pod) == SUCCESS

    run(case())


def test_an_unknown_resource_does_not_fit() -> None:
    devices = DeviceHarness(CLASS, slice_of("a"))
    pod = pod_of(container("main", gpu="1", other="1"))
    assert devices.filter(pod).message == "cannot fit resource"


def test_a_failed_creation_of_the_claim_is_an_error() -> None:
    async def case() -> None:
        pod = pod_of(container("main", gpu="1"))
        devices = DeviceHarness(CLASS, slice_of("a"), pod)
        assert devices.filter(pod) == SUCCESS
        assert devices.plugin.reserve(devices.state, pod, "n") == SUCCESS
        refusal = ApiStatus(status="Failure", code=403, reason="Forbidden", message="no")
        devices.handle.fake_api.failures["create"] = ApiError(refusal)
        status = await devices.plugin.pre_bind(devices.state, pod, "n")
        assert status.message == (
            "create claim for extended resources default/<extended-resources>: no"
        )
        creates = devices.handle.metrics.resourceclaim_creates_total
        assert creates.labels("failure").value == 1
        devices.plugin.unreserve(devices.state, pod, "n")
        assert len(devices.plugin.devices.in_flight) == 0

    run(case())


@pytest.mark.parametrize("amount", ["0", "500m"])
def test_fractional_amounts_request_no_device(amount: str) -> None:
    requests, mappings = generated(pod_of(container("main", gpu=amount)), GPU)
    assert (requests, mappings) == ({}, [])
