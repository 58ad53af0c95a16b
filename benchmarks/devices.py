"""Pods with a claim for a GPU each, on a cluster whose GPUs stay four fifths in use.

Every node has eight GPUs. Before the watch starts, random ones are allocated until only a fifth is
free. Then each step places a pod with its own claim: the node is chosen, the device reserved, and
the claim counted as written. One of the earlier claims is deleted, so that the usage stays the
same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

from msgspec.structs import replace

from benchmarks.engine_options import Case
from benchmarks.measuring import Spent, Stopwatch
from benchmarks.workloads import make_node, make_pod
from kubesched.api import (
    AllocationResult,
    CELDeviceSelector,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    ExactDeviceRequest,
    ObjectMeta,
    PodResourceClaim,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from kubesched.api.access import WatchEvent
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.framework import CycleState, PodInfo
from kubesched.scheduler.plugins.dynamic_resources import DynamicResources
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.search.cached_search import CachedSearch

__all__ = ["time_devices"]

DRIVER = "gpu.example.com"
GPUS = 8
_FULL = 0.8
_WARM_UP = 200


class DeviceEngine:
    """A scheduler's cache, plugins and search, called directly."""

    def __init__(self, nodes: int) -> None:
        clock = RealClock()
        self._scheduler = Scheduler(LocalApi(Store(derive(0, "store")), clock), clock)
        self._framework = self._scheduler.profiles["default-scheduler"]
        self._search = CachedSearch(self._scheduler.cache.snapshot, derive(0, "ties"))
        plugin = self._framework.plugins.by_name["DynamicResources"]
        assert isinstance(plugin, DynamicResources)
        self._in_flight = plugin.devices.in_flight
        self._claims = self._scheduler.services.claims
        self._version = 0
        self.add(_device_class())
        for number in range(nodes):
            node = make_node(number)
            self._scheduler.cache.add_node(node)
            self.add(_slice(node.metadata.name))

    def add(self, new: DeviceClass | ResourceSlice | ResourceClaim) -> None:
        self._scheduler.informers.lister(type(new)).apply(WatchEvent("ADDED", new, ""))

    def remove(self, gone: ResourceClaim) -> None:
        self._scheduler.informers.lister(ResourceClaim).apply(WatchEvent("DELETED", gone, ""))

    def place(self, pod_info: PodInfo) -> None:
        """Choose a node and devices, and take the claim for written."""
        cache, state = self._scheduler.cache, CycleState()
        cache.update_snapshot()
        result = self._search.schedule_pod(self._framework, state, pod_info)
        assumed = pod_info.placed_on(result.node_name)
        cache.assume_pod(assumed)
        status = self._framework.binding.run_reserve(state, assumed.pod, result.node_name)
        assert status.is_success, status.message
        for uid in [each.metadata.uid for each in self._in_flight.claims()]:
            claim = self._in_flight.get(uid)
            assert claim is not None
            self._version += 1
            metadata = replace(claim.metadata, resource_version=str(self._version))
            self._claims.assume(replace(claim, metadata=metadata))
            self._in_flight.remove(uid, for_all=True)


def time_devices(case: Case) -> Spent:
    """Measure placing the pods one after another, while as many claims are deleted as created."""
    engine = DeviceEngine(case.nodes)
    given = list(_given_away(case.nodes))
    for claim in given:
        engine.add(claim)
    waiting = []
    for number in range(case.pods + _WARM_UP):
        claim = _claim(f"claim-{number}")
        engine.add(claim)
        pod = make_pod(number, "basic")
        wanted = PodResourceClaim(name="gpu", resource_claim_name=claim.metadata.name)
        waiting.append(PodInfo(replace(pod, spec=replace(pod.spec, resource_claims=(wanted,)))))
    steps = zip(waiting, given, strict=False)
    for _ in range(_WARM_UP):
        _step(engine, *next(steps))
    watch = Stopwatch()
    for pod_info, gone in steps:
        _step(engine, pod_info, gone)
    return watch.spent()


def _step(engine: DeviceEngine, pod_info: PodInfo, gone: ResourceClaim) -> None:
    engine.place(pod_info)
    engine.remove(gone)


def _given_away(nodes: int) -> Iterator[ResourceClaim]:
    places = [(number, gpu) for number in range(nodes) for gpu in range(GPUS)]
    for place in random.Random(0).sample(places, int(_FULL * len(places))):
        number, gpu = place
        node = f"node-{number:06d}"
        result = DeviceRequestAllocationResult(
            request="gpu", driver=DRIVER, pool=node, device=f"gpu-{gpu}"
        )
        allocation = AllocationResult(devices=DeviceAllocationResult(results=(result,)))
        claim = _claim(f"given-{number}-{gpu}")
        yield replace(claim, status=ResourceClaimStatus(allocation=allocation))


def _claim(name: str) -> ResourceClaim:
    request = DeviceRequest(
        name="gpu",
        exactly=ExactDeviceRequest(device_class_name="gpu", allocation_mode="ExactCount", count=1),
    )
    return ResourceClaim(
        metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(request,))),
    )


def _device_class() -> DeviceClass:
    selector = DeviceSelector(cel=CELDeviceSelector(expression=f'device.driver == "{DRIVER}"'))
    return DeviceClass(
        metadata=ObjectMeta(name="gpu", uid="uid-gpu"), spec=DeviceClassSpec(selectors=(selector,))
    )


def _slice(node: str) -> ResourceSlice:
    devices = tuple(
        Device(
            name=f"gpu-{gpu}",
            attributes={
                "model": DeviceAttribute(string_value="a100"),
                "index": DeviceAttribute(int_value=gpu),
            },
        )
        for gpu in range(GPUS)
    )
    return ResourceSlice(
        metadata=ObjectMeta(name=f"{node}-gpus", uid=f"uid-{node}-gpus"),
        spec=ResourceSliceSpec(
            driver=DRIVER,
            pool=ResourcePool(name=node, generation=1, resource_slice_count=1),
            node_name=node,
            devices=devices,
        ),
    )
