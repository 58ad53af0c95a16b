"""Slices, classes and claims in short notation, and a harness for the plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from kubesched.api import DeviceClass, Node, Pod, PodResourceClaim, ResourceClaim, ResourceSlice
from kubesched.api.base import ApiObject
from kubesched.api.codec import from_builtins
from kubesched.framework import CycleState, PodInfo, Status
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.plugins.dynamic_resources import DynamicResources
from kubesched.testing import FakeHandle, make_node, make_pod

DRIVER = "d.example.com"

Json = Mapping[str, Any]


def device(name: str, **fields: Any) -> dict[str, Any]:
    """Return a device; `attributes` may be plain values, `capacity` plain quantities."""
    attributes = {
        key: value if isinstance(value, dict) else {_kind(value): value}
        for key, value in fields.pop("attributes", {}).items()
    }
    capacity = {
        key: value if isinstance(value, dict) else {"value": value}
        for key, value in fields.pop("capacity", {}).items()
    }
    return {"name": name, "attributes": attributes, "capacity": capacity, **fields}


def _kind(value: object) -> str:
    return {bool: "bool", int: "int", str: "string"}[type(value)]


def slice_of(
    *devices: Json | str,
    name: str = "",
    pool: str = "p",
    node: str | None = "n",
    generation: int = 1,
    count: int = 1,
    driver: str = DRIVER,
    **spec: Any,
) -> ResourceSlice:
    where = {} if node is None else {"nodeName": node}
    return from_builtins(
        {
            "metadata": {"name": name or f"{pool}-slice"},
            "spec": {
                "driver": driver,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
                "devices": [device(each) if isinstance(each, str) else each for each in devices],
                **where,
                **spec,
            },
        },
        ResourceSlice,
    )


def device_class(name: str = "k", *expressions: str, **spec: Any) -> DeviceClass:
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return from_builtins(
        {"metadata": {"name": name}, "spec": {"selectors": selectors, **spec}}, DeviceClass
    )


def exactly(count: int | None = 1, *expressions: str, **fields: Any) -> dict[str, Any]:
    """Return an exact request; a count of None means all devices."""
    mode = {"allocationMode": "All"} if count is None else {"allocationMode": "ExactCount"}
    amount = {} if count is None else {"count": count}
    selectors = [{"cel": {"expression": each}} for each in expressions]
    return {"deviceClassName": "k", "selectors": selectors, **mode, **amount, **fields}


def claim(name: str = "c", *requests: Json, **devices: Any) -> ResourceClaim:
    """Return a claim with requests r0, r1 ….

    A list is a request with alternatives s0, s1 …
    """
    listed = [
        {"name": f"r{number}", "firstAvailable": _named(each)}
        if isinstance(each, list)
        else {"name": f"r{number}", "exactly": each}
        for number, each in enumerate(requests)
    ]
    return from_builtins(
        {
            "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
            "spec": {"devices": {"requests": listed, **devices}},
        },
        ResourceClaim,
    )


def _named(alternatives: Sequence[Json]) -> list[dict[str, Any]]:
    return [{"name": f"s{number}", **each} for number, each in enumerate(alternatives)]


def allocated(
    given: ResourceClaim, *results: Json, node: str | None = None, **status: Any
) -> ResourceClaim:
    """Return the claim with these results, by default of pool p and request r0."""
    full = [{"request": "r0", "driver": DRIVER, "pool": "p", **each} for each in results]
    allocation: dict[str, Any] = {"devices": {"results": full}}
    if node is not None:
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        allocation["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    timestamp = status.pop("timestamp", None)
    if timestamp is not None:
        allocation["allocationTimestamp"] = timestamp
    document = {"metadata": {}, "spec": {}, "status": {"allocation": allocation, **status}}
    return replace(given, status=from_builtins(document, ResourceClaim).status)


def pod_with(*claims: ResourceClaim | str, name: str = "pod") -> Pod:
    pod = make_pod(name)
    wanted = tuple(
        PodResourceClaim(
            name=f"c{number}",
            resource_claim_name=each if isinstance(each, str) else each.metadata.name,
        )
        for number, each in enumerate(claims)
    )
    return replace(pod, spec=replace(pod.spec, resource_claims=wanted))


class DeviceHarness:
    """The plugin with some objects, and its extension points for one pod."""

    def __init__(
        self, *objects: ApiObject, gates: Mapping[str, bool] | None = None, args: Any = None
    ) -> None:
        self.nodes = [each for each in objects if isinstance(each, Node)]
        if not self.nodes:
            self.nodes = [make_node("n")]
            objects = (*objects, *self.nodes)
        self.cache = Cache()
        for node in self.nodes:
            self.cache.add_node(node)
        snapshot = self.cache.update_snapshot()
        self.handle = FakeHandle(objects, feature_gates=gates, snapshot=snapshot)
        self.plugin = DynamicResources(args, self.handle)
        self.state = CycleState()
        self.may_pause = False

    def pre_filter(self, pod: Pod) -> Status:
        self.state = CycleState()
        self.state.may_pause = self.may_pause
        return self.plugin.pre_filter(self.state, PodInfo(pod), self.handle.snapshot.nodes)

    def filter(self, pod: Pod, node: str = "n") -> Status:
        """Run PreFilter and Filter in both forms, which must agree."""
        status = self.pre_filter(pod)
        if not status.is_success:
            return status
        view = self.handle.snapshot.nodes
        names = list(view.names)
        each = [self.plugin.filter(self.state, pod, info) for info in view]
        together = self.plugin.filter_nodes(self.state, pod, view)
        for index, alone in enumerate(each):
            both = together.status(index)
            if alone.code.label != "Error":
                assert (both is None) if alone.is_success else both == alone
        return each[names.index(node)]

    def allocate(self, *claims: ResourceClaim, node: str = "n") -> list[list[str]] | str:
        """Return `request:pool/device` for each claim in order, or a rejection's reason."""
        pod = pod_with(*claims)
        for each in claims:
            self.handle.objects.put(each)
        status = self.filter(pod, node)
        if not status.is_success:
            return status.message
        assert self.plugin.reserve(self.state, pod, node).is_success
        found = []
        for each in claims:
            flying = self.plugin.devices.in_flight.get(each.metadata.uid)
            assert flying is not None
            assert flying.status.allocation is not None
            results = flying.status.allocation.devices.results
            found.append([f"{r.request}:{r.pool}/{r.device}" for r in results])
        return found
