"""Bugs found by fault injection (docs/reliability.md), each as a minimal test."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Container, Deployment, Node, Pod, PriorityClass, ResourceClaim
from kubesched.api.access import ApiError
from kubesched.api.dynamic_resources import (
    AllocationResult,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
    ResourceClaimStatus,
)
from kubesched.api.meta import ObjectMeta
from kubesched.api.meta import Status as ApiStatus
from kubesched.api.pod import ContainerPort, PodCondition
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.controllers.device_driver import DEVICES
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import (
    ClaimCache,
    CycleState,
    Diagnosis,
    NodeInfo,
    Plugin,
    PodInfo,
    PostFilterResult,
    Status,
)
from kubesched.framework.pod_status_writer import POD_SCHEDULED, PodStatusWriter
from kubesched.framework.status_writes import StatusWrites
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import AllocatedDevices
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_pod
from kubesched.testing.fakes.fake_objects import FakeObjects
from tests.foundation.client.own_clock import OwnClock

DRIVER = "gpu.example.com"
NO_FLUSH = timedelta(hours=10)
LOST = ApiError(ApiStatus(status="Failure", code=0, message="connection lost"))
AMOUNTS = {"cpu": "8", "memory": "8Gi", "pods": "10"}


async def add_node(api: LocalApi, **metadata: Any) -> None:
    status = {"capacity": AMOUNTS, "allocatable": AMOUNTS}
    document = {"metadata": {"name": "n0", **metadata}, "status": status}
    await api.create_document(Node, None, document)


async def node_of(api: LocalApi, name: str) -> str:
    return (await api.get(Pod, name, "default")).spec.node_name


def test_a_wall_clock_that_is_set_back_keeps_no_pod_in_backoff() -> None:
    """Otherwise a pod whose binding failed would wait until the clock reaches the old time."""

    async def main() -> None:
        base = current_clock()
        clock = OwnClock(base, 1.0)
        cluster = EmbeddedCluster(base, derive(0, "store"), heartbeats=False)
        await add_node(cluster.api)
        failures = 2

        def faults(verb: str, *_: object) -> Fault | None:
            nonlocal failures
            if verb != "bind" or not failures:
                return None
            failures -= 1
            return Fault(error=LOST)

        scheduler = Scheduler(LocalApi(cluster.store, base, faults=faults), clock)
        async with running(scheduler):
            spec = {"containers": [{"name": "c", "image": "i"}]}
            document = {"metadata": {"name": "p"}, "spec": spec}
            await cluster.api.create_document(Pod, "default", document)
            await asyncio.sleep(0.5)
            clock.wall_offset_ns = -3600 * SECOND
            await asyncio.sleep(10)
            assert await node_of(cluster.api, "p") == "n0"

    run(main)


def test_a_pod_is_retried_once_the_outcome_of_its_claim_write_is_known() -> None:
    """Seed 33: the pod was rejected for a claim in allocation, and no event requeued it."""

    async def main() -> None:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False)
        api = cluster.api
        began_ns = clock.now_ns()

        def faults(verb: str, kind: str, *_: object) -> Fault | None:
            is_early = clock.now_ns() - began_ns < 8 * SECOND
            if kind == "ResourceClaim" and verb in ("get", "update", "patch") and is_early:
                return Fault(error=LOST)
            return None

        scheduler = Scheduler(
            LocalApi(cluster.store, clock, faults=faults),
            clock,
            pod_max_in_unschedulable_pods_duration=NO_FLUSH,
        )
        notes = {DEVICES: json.dumps([{"driver": DRIVER, "count": 1}])}
        async with running(*cluster.parts, scheduler):
            await add_node(api, annotations=notes)
            await asyncio.sleep(1)
            requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
            claim = {"metadata": {"name": "c"}, "spec": {"devices": {"requests": requests}}}
            await api.create_document(ResourceClaim, "default", claim)
            container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
            claims = [{"name": "gpu", "resourceClaimName": "c"}]
            spec = {"containers": [container], "resourceClaims": claims}
            document = {"metadata": {"name": "p"}, "spec": spec}
            await api.create_document(Pod, "default", document)
            await asyncio.sleep(60)
            assert await node_of(api, "p") == "n0"

    run(main)


def _claim(*devices: str) -> ResourceClaim:
    results = tuple(
        DeviceRequestAllocationResult(request="r", driver=DRIVER, pool="n0", device=device)
        for device in devices
    )
    allocation = AllocationResult(devices=DeviceAllocationResult(results=results))
    metadata = ObjectMeta(name="c", namespace="default", uid="u")
    return ResourceClaim(metadata=metadata, status=ResourceClaimStatus(allocation=allocation))


def test_a_claim_reallocated_between_two_watches_releases_its_old_devices() -> None:
    """A list after a gap shows only where a claim ended up."""
    allocated = AllocatedDevices(consumable_capacity=False, on_change=lambda _: None)
    allocated.claim_changed(None, _claim("a"))
    allocated.claim_changed(_claim("a"), _claim("b", "c"))
    usage = allocated.usage((DRIVER, "n0"))
    assert usage is not None
    assert set(usage.dedicated) == {"b", "c"}


def test_a_device_stays_taken_if_a_late_watch_event_shows_an_earlier_release() -> None:
    """Seed 550118897959: the device was then allocated a second time."""
    allocated = AllocatedDevices(consumable_capacity=False, on_change=lambda _: None)
    allocated.claim_changed(None, _claim("a"))  # as this scheduler has written it
    allocated.claim_changed(None, _claim("a"))  # another claim, which had it before
    allocated.claim_changed(_claim("a"), None)
    usage = allocated.usage((DRIVER, "n0"))
    assert usage is not None
    assert set(usage.dedicated) == {"a"}
    allocated.claim_changed(_claim("a"), None)
    assert allocated.usage((DRIVER, "n0")) is None


def test_a_claim_that_is_deleted_with_its_devices_requeues_waiting_pods() -> None:
    """Seed 100940: a watch skipped the state between, in which the claim had none any more."""

    async def main() -> None:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False)
        api = cluster.api
        scheduler = Scheduler(
            LocalApi(cluster.store, clock), clock, pod_max_in_unschedulable_pods_duration=NO_FLUSH
        )
        notes = {DEVICES: json.dumps([{"driver": DRIVER, "count": 1}])}
        async with running(*cluster.parts, scheduler):
            await add_node(api, annotations=notes)
            await asyncio.sleep(1)
            requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
            for name in ("held", "wanted"):
                claim = {"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}}
                await api.create_document(ResourceClaim, "default", claim)
            result = {"request": "gpu", "driver": DRIVER, "pool": "n0", "device": "gpu-0"}
            status = {"allocation": {"devices": {"results": [result]}}}
            await api.patch(
                ResourceClaim, "held", "default", {"status": status}, subresource="status"
            )
            container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "gpu"}]}}
            claims = [{"name": "gpu", "resourceClaimName": "wanted"}]
            spec = {"containers": [container], "resourceClaims": claims}
            document = {"metadata": {"name": "p"}, "spec": spec}
            await api.create_document(Pod, "default", document)
            await asyncio.sleep(30)
            assert await node_of(api, "p") == ""
            await api.delete(ResourceClaim, "held", "default")
            await asyncio.sleep(30)
            assert await node_of(api, "p") == "n0"

    run(main)


def test_devices_that_a_claim_has_released_are_reported_once() -> None:
    told: list[tuple[ResourceClaim | None, ResourceClaim | None]] = []
    claims = ClaimCache()
    claims.on_return = lambda old, new: told.append((old, new))
    claims.watched(None, _claim("a"))
    claims.watched(_claim("a"), _claim("b"))
    claims.watched(_claim("b"), _claim("b"))
    claims.watched(_claim("b"), None)
    nothing = replace(_claim(), status=ResourceClaimStatus())
    assert told == [(_claim("a"), nothing), (_claim("b"), nothing)]


class NoRoomMade(Plugin):
    """A PostFilter plugin whose check for room fails."""

    name = "NoRoomMade"
    asked = 0

    def post_filter(
        self, state: CycleState, pod_info: PodInfo, diagnosis: Diagnosis
    ) -> PostFilterResult:
        NoRoomMade.asked += 1
        return PostFilterResult(Status.failure("the extender did not answer"))


def test_a_pod_whose_room_check_failed_is_retried() -> None:
    """Seed 465: an extender was too slow about victims, and nothing happened any more."""

    async def main() -> None:
        NoRoomMade.asked = 0
        cluster = EmbeddedCluster(current_clock(), derive(0, "store"), heartbeats=False)
        await add_node(cluster.api)
        plugins = {
            "multiPoint": {"enabled": [{"name": "NoRoomMade"}]},
            "postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": "NoRoomMade"}]},
        }
        scheduler = Scheduler(
            cluster.api,
            current_clock(),
            profiles=[{"plugins": plugins}],
            out_of_tree_registry={"NoRoomMade": NoRoomMade},
            pod_max_in_unschedulable_pods_duration=NO_FLUSH,
        )
        async with running(scheduler):
            requests = {"requests": {"cpu": "100"}}
            spec = {"containers": [{"name": "c", "image": "i", "resources": requests}]}
            document = {"metadata": {"name": "p"}, "spec": spec}
            await cluster.api.create_document(Pod, "default", document)
            await asyncio.sleep(60)
        assert 3 < NoRoomMade.asked < 30

    run(main)


def test_a_pod_that_waits_for_an_empty_node_is_not_delayed_by_new_pods() -> None:
    """Seed 200004: the victim was replaced on the same node before it ended, repeatedly."""

    async def main() -> None:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False)
        api = cluster.api
        scheduler = Scheduler(api, clock, pod_max_in_unschedulable_pods_duration=NO_FLUSH)
        async with running(*cluster.parts, scheduler):
            await add_node(api, labels={"kubernetes.io/hostname": "n0"})
            high = {"metadata": {"name": "high"}, "value": 100}
            await api.create_document(PriorityClass, None, high)
            containers = [{"name": "c", "image": "i"}]
            labels = {"app": "web"}
            template = {
                "metadata": {"labels": labels},
                "spec": {"containers": containers, "terminationGracePeriodSeconds": 5},
            }
            web = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
            deployment = {"metadata": {"name": "web"}, "spec": web}
            await api.create_document(Deployment, "default", deployment)
            await asyncio.sleep(10)
            term = {
                "topologyKey": "kubernetes.io/hostname",
                "labelSelector": {"matchLabels": labels},
            }
            apart = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
            spec = {
                "containers": containers,
                "priorityClassName": "high",
                "affinity": {"podAntiAffinity": apart},
            }
            alone = {"metadata": {"name": "alone"}, "spec": spec}
            await api.create_document(Pod, "default", alone)
            await asyncio.sleep(60)
            assert await node_of(api, "alone") == "n0"

    run(main)


def test_a_port_of_two_pods_is_in_use_until_both_are_deleted() -> None:
    """Seed 200067: a user had bound a second pod with the same port."""
    node = NodeInfo("n0")
    ports = [ContainerPort(container_port=80, host_port=80)]
    container = Container(name="c", image="i", ports=tuple(ports))
    pods = [PodInfo(make_pod(name, containers=[container])) for name in ("a", "b")]
    for pod in pods:
        node.add_pod(pod)
    node.remove_pod(pods[0].uid)
    assert {port.port for port in node.used_ports} == {80}
    node.remove_pod(pods[1].uid)
    assert not node.used_ports


def test_a_condition_is_not_written_to_a_recreated_pod() -> None:
    """Seed 2199: a slow write nominated a gated pod that had been made under the same name."""

    async def main() -> None:
        clock = current_clock()
        api = EmbeddedCluster(clock, derive(0, "store"), heartbeats=False).api
        spec = {"containers": [{"name": "c", "image": "i"}]}
        document = {"metadata": {"name": "p"}, "spec": spec}
        await api.create_document(Pod, "default", document)
        first = await api.get(Pod, "p", "default")
        await api.delete(Pod, "p", "default", grace_period_seconds=0)
        await api.create_document(Pod, "default", document)
        condition = PodCondition(type=POD_SCHEDULED, status="False", reason="Unschedulable")
        writer = PodStatusWriter(
            api, clock, derive(0, "status"), StatusWrites(FakeObjects().lister)
        )
        with pytest.raises(ApiError, match="UID in precondition"):
            await writer.write(first, condition, "n0")
        second = await api.get(Pod, "p", "default")
        assert second.status.nominated_node_name == ""
        assert second.status.conditions == ()
        await writer.write(second, condition, "n0")
        assert (await api.get(Pod, "p", "default")).status.nominated_node_name == "n0"

    run(main)
