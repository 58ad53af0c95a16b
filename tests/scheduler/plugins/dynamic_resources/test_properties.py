"""Random clusters with random changes.

Caches (groups of nodes, verdicts by row, usage by pool, exhausted pools) must never change a
result. After every step, a plugin that is built from the objects alone has the same results, down
to the devices. Usage equals a recount of allocated claims and claims in flight.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import Node, ResourceClaim, ResourceClaimSpec, ResourceSlice
from kubesched.api.quantity import ZERO, Quantity, quantity_from_json
from kubesched.foundation.util.virtual_loop import run
from kubesched.framework import SUCCESS
from kubesched.scheduler.plugins.dynamic_resources.allocated_devices import PoolUsage
from kubesched.testing import make_node
from tests.scheduler.plugins.dynamic_resources.device_objects import (
    DRIVER,
    DeviceHarness,
    Json,
    claim,
    device,
    device_class,
    exactly,
    pod_with,
    slice_of,
)

CLASS = device_class("k", f'device.driver == "{DRIVER}"')
SHARED = device_class("shared", "device.allowMultipleAllocations")
ZONES = ("a", "b")
COUNTERS = [{"name": "set", "counters": {"m": {"value": "4"}}}]


class RandomScenario:
    """A cluster with changes drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self._names = 0
        nodes = [
            make_node(f"n{number}", labels={"zone": self.rng.choice(ZONES)})
            for number in range(self.rng.randint(1, 5))
        ]
        self.nodes = [node.metadata.name for node in nodes]
        slices = [each for name in self.nodes for each in self._slices_of(name)]
        self.devices = DeviceHarness(CLASS, SHARED, *nodes, *slices, *self._wide_slices())
        self.placed: list[tuple[Any, Any, str]] = []  # state, pod, node
        # Few names, so that equal claims are frequent.
        self._specs = [self._new_spec() for _ in range(3)]
        if self.rng.random() < 0.5:
            self.devices.plugin.devices.inventory.few_pools = 0

    # -- objects -----------------------------------------------------------------------

    def _name(self, prefix: str) -> str:
        self._names += 1
        return f"{prefix}{self._names}"

    def _device(self, name: str) -> dict[str, Any]:
        rng, fields = self.rng, dict[str, Any]()
        fields["attributes"] = {"model": rng.choice(["x", "y"]), "slot": rng.randint(0, 2)}
        if rng.random() < 0.3:
            fields["capacity"] = {"m": str(rng.randint(1, 4))}
            fields["allowMultipleAllocations"] = rng.random() < 0.7
        if rng.random() < 0.15:
            fields["taints"] = [{"key": "t", "effect": "NoSchedule"}]
        if rng.random() < 0.1:
            fields["bindingConditions"] = ["ready"]
        return device(name, **fields)

    def _devices(self) -> list[dict[str, Any]]:
        return [self._device(f"d{number}") for number in range(self.rng.randint(1, 4))]

    def _slices_of(self, node: str) -> list[ResourceSlice]:
        rng, slices = self.rng, []
        if rng.random() < 0.9:
            slices.append(slice_of(*self._devices(), pool=node, node=node, name=f"{node}-s"))
        if rng.random() < 0.3:
            partitions = [
                device(
                    f"part{number}",
                    attributes={"model": "x"},
                    consumesCounters=[
                        {"counterSet": "set", "counters": {"m": {"value": str(number + 1)}}}
                    ],
                )
                for number in range(rng.randint(1, 3))
            ]
            pool = f"{node}-parts"
            slices += [
                slice_of(name=f"{pool}-c", pool=pool, node=node, count=2, sharedCounters=COUNTERS),
                slice_of(*partitions, name=f"{pool}-d", pool=pool, node=node, count=2),
            ]
        return slices

    def _wide_slices(self) -> list[ResourceSlice]:
        rng, slices = self.rng, []
        if rng.random() < 0.4:
            slices.append(slice_of(*self._devices(), pool="everywhere", node=None, allNodes=True))
        if rng.random() < 0.4:
            zone = {"key": "zone", "operator": "In", "values": [rng.choice(ZONES)]}
            terms = {"nodeSelectorTerms": [{"matchExpressions": [zone]}]}
            slices.append(slice_of(*self._devices(), pool="zone", node=None, nodeSelector=terms))
        if rng.random() < 0.3:
            each = [
                self._device(f"d{number}") | {"nodeName": rng.choice(self.nodes)}
                for number in range(2)
            ]
            slices.append(slice_of(*each, pool="mixed", node=None, perDeviceNodeSelection=True))
        return slices

    def _request(self) -> Json | list[Json]:
        rng = self.rng
        if rng.random() < 0.2:
            return [exactly(2), exactly(1)]
        options: list[Json] = [
            exactly(rng.randint(1, 2)),
            exactly(1, f'device.attributes["{DRIVER}"].model == "x"'),
            exactly(1, f'device.attributes["{DRIVER}"].model != "z"'),
            exactly(1, tolerations=[{"operator": "Exists"}]),
            exactly(1, capacity={"requests": {"m": "1"}}),
            exactly(1, deviceClassName="shared"),
            exactly(None, f'"{DRIVER}" in device.attributes'),
        ]
        return rng.choice(options)

    def new_claim(self) -> ResourceClaim:
        return replace(claim(self._name("c")), spec=self.rng.choice(self._specs))

    def _new_spec(self) -> ResourceClaimSpec:
        rng = self.rng
        requests: Any = [self._request() for _ in range(rng.randint(1, 2))]
        constraints = []
        if rng.random() < 0.2:
            kind = rng.choice(["matchAttribute", "distinctAttribute"])
            constraints.append({kind: f"{DRIVER}/{rng.choice(['model', 'slot'])}"})
        return claim("any", *requests, constraints=constraints).spec

    # -- random changes ----------------------------------------------------------------

    async def step(self) -> None:
        happening = self.rng.choice(
            [self.place, self.place, self.place, self.unreserve, self.delete_claim,
             self.change_slice, self.change_node]
        )  # fmt: skip
        await happening()

    async def place(self) -> None:
        claims = [self.new_claim() for _ in range(self.rng.randint(1, 2))]
        for each in claims:
            self.devices.handle.objects.put(each)
        pod = pod_with(*claims, name=self._name("pod"))
        fitting = []
        for node in self.nodes:
            status = self.devices.filter(pod, node)
            self.compare_with_fresh(pod, node, status.message, claims)
            if status.is_success:
                fitting.append(node)
        if not fitting:
            return
        node = self.rng.choice(fitting)
        assert self.devices.filter(pod, node) == SUCCESS
        state = self.devices.state
        assert self.devices.plugin.reserve(state, pod, node) == SUCCESS
        self.placed.append((state, pod, node))
        if self.rng.random() < 0.7 and not _waits(self.devices, claims):
            assert await self.devices.plugin.pre_bind(state, pod, node) == SUCCESS

    async def unreserve(self) -> None:
        if self.placed:
            state, pod, node = self.placed.pop(self.rng.randrange(len(self.placed)))
            self.devices.plugin.unreserve(state, pod, node)
            await self.devices.handle.finish_work()

    async def delete_claim(self) -> None:
        objects, in_flight = self.devices.handle.objects, self.devices.plugin.devices.in_flight
        claims = [c for c in objects.list(ResourceClaim) if c.metadata.uid not in in_flight]
        if claims:
            gone = self.rng.choice(claims)
            objects.remove(ResourceClaim, gone.metadata.name, "default")

    async def change_slice(self) -> None:
        objects = self.devices.handle.objects
        slices = objects.list(ResourceSlice)
        if not slices:
            return
        old = self.rng.choice(slices)
        if self.rng.random() < 0.3:
            objects.remove(ResourceSlice, old.metadata.name)
            return
        if old.spec.shared_counters or old.spec.pool.resource_slice_count > 1:
            return
        pool = replace(old.spec.pool, generation=old.spec.pool.generation + 1)
        changed = slice_of(*self._devices()).spec.devices
        if old.spec.per_device_node_selection:
            changed = old.spec.devices[:1]
        objects.put(replace(old, spec=replace(old.spec, pool=pool, devices=changed)))

    async def change_node(self) -> None:
        objects = self.devices.handle.objects
        cache, node = self.devices.cache, self.rng.choice(objects.list(Node))
        if self.rng.random() < 0.3 and len(self.nodes) > 1:
            # The node is deleted, and another one gets its row.
            cache.remove_node(node)
            objects.remove(Node, node.metadata.name)
            self.nodes.remove(node.metadata.name)
            node = make_node(self._name("new"), labels={"zone": self.rng.choice(ZONES)})
            for each in self._slices_of(node.metadata.name):
                objects.put(each)
            self.nodes.append(node.metadata.name)
            cache.add_node(node)
            objects.put(node)
        else:
            labels = {**node.metadata.labels, "zone": self.rng.choice(ZONES)}
            changed = replace(node, metadata=replace(node.metadata, labels=labels))
            cache.update_node(changed)
            objects.put(changed)
        cache.update_snapshot()

    # -- invariants --------------------------------------------------------------------

    def compare_with_fresh(
        self, pod: Any, node: str, message: str, claims: list[ResourceClaim]
    ) -> None:
        """Compare with a plugin that was built from the objects alone."""
        kept = self.devices.plugin
        flying = {each.metadata.uid: each for each in kept.devices.in_flight.claims()}
        objects = [
            flying.get(each.metadata.uid, each)
            for kind in (Node, ResourceSlice, ResourceClaim)
            for each in self.devices.handle.objects.list(kind)
        ]
        fresh = DeviceHarness(CLASS, SHARED, *objects)
        assert fresh.filter(pod, node).message == message
        if message:
            return
        assert _found(self.devices, pod, node) == _found(fresh, pod, node)

    def check_usage(self) -> None:
        """Check that usage equals the sum over claims and claims in flight."""
        devices = self.devices.plugin.devices
        dedicated: set[tuple[str, str, str]] = set()
        shares: Counter[tuple[str, str, str]] = Counter()
        capacity: dict[tuple[str, str, str], Quantity] = {}
        claims = [*devices.claims.list(), *devices.in_flight.claims()]
        for each in claims:
            allocation = each.status.allocation
            for result in allocation.devices.results if allocation is not None else ():
                key = (result.driver, result.pool, result.device)
                if result.share_id is None:
                    dedicated.add(key)
                    continue
                shares[key] += 1
                for amount in (result.consumed_capacity or {}).values():
                    capacity[key] = capacity.get(key, ZERO) + quantity_from_json(amount)
        pools = {key[:2] for key in (*dedicated, *shares)}
        for pool in pools:
            usage = devices.inventory.allocated.usage(pool) or PoolUsage()
            assert set(usage.dedicated) == {key[2] for key in dedicated if key[:2] == pool}
            assert set(usage.shared) == {key[2] for key in shares if key[:2] == pool}
            for device_name in usage.with_capacity:
                got = sum(usage.consumed_capacity(device_name).values(), ZERO)
                assert got == capacity.get((*pool, device_name), ZERO)
        assert devices.inventory.allocated.pools() == pools


def _waits(devices: DeviceHarness, claims: list[ResourceClaim]) -> bool:
    """Whether binding would wait for a condition that is never reported."""
    found = [devices.plugin.devices.in_flight.get(each.metadata.uid) for each in claims]
    return any(
        result.binding_conditions
        for each in found
        if each is not None and each.status.allocation is not None
        for result in each.status.allocation.devices.results
    )


def _found(devices: DeviceHarness, pod: Any, node: str) -> Any:
    """Return the found devices by name, for each claim."""
    info = devices.handle.snapshot.get(node)
    assert info is not None
    assert info.node is not None
    devices.pre_filter(pod)
    found = devices.plugin.filtering.search_node(devices.state.read("DynamicResources"), pod, info)
    assert found is not None
    solution = found[1].solution
    assert solution is not None
    views = devices.plugin.devices.inventory.of_node(info.node).views
    return [
        [
            (
                pick.request.full_name,
                views[pick.view].pool.pool_id,
                views[pick.view].devices[pick.device].name,
                pick.consumed,
            )
            for pick in picks
        ]
        for picks in solution.picks
    ]


@settings(max_examples=40, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_caches_never_change_a_result(seed: int) -> None:
    async def check_history() -> None:
        scenario = RandomScenario(seed)
        for _ in range(12):
            await scenario.step()
            scenario.check_usage()
        # Releasing all claims must leave no usage.
        while scenario.placed:
            await scenario.unreserve()
        assert len(scenario.devices.plugin.devices.in_flight) == 0
        for each in scenario.devices.handle.objects.list(ResourceClaim):
            scenario.devices.handle.objects.remove(ResourceClaim, each.metadata.name, "default")
        assert scenario.devices.plugin.devices.inventory.allocated.pools() == set()

    run(check_history())
