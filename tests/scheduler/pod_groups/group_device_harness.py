"""An embedded cluster with devices and a scheduler for pod groups, in virtual time."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from typing import Any

from kubesched.api import DeviceClass, Node, Pod, PodGroup, ResourceClaim, ResourceClaimTemplate
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.controllers.device_driver import DEVICES
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.scheduler import Scheduler

DRIVER = "gpu.example.com"
Json = dict[str, Any]
ONE = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}


class GroupDeviceHarness:
    def __init__(self, gates: dict[str, bool], seed: int = 0) -> None:
        self.clock = current_clock()
        self.gates = FeatureGates(gates)
        features = frozenset(name for name, value in gates.items() if value)
        self.cluster = EmbeddedCluster(
            self.clock, derive(seed, "store"), heartbeats=False, features=features
        )
        self.api = self.cluster.api

    def scheduler(self, faults: Any = None, seed: int = 0, **options: Any) -> Scheduler:
        api = LocalApi(self.cluster.store, self.clock, faults=faults)
        return Scheduler(api, self.clock, feature_gates=self.gates, seed=seed, **options)

    async def prepare(self, nodes: int = 2, gpus: int = 4) -> None:
        """Create nodes with devices, a template for one of them, and a claim for one."""
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "100"}
        for number in range(nodes):
            notes = {DEVICES: json.dumps([{"driver": DRIVER, "count": gpus}])}
            document = {
                "metadata": {"name": f"n{number}", "annotations": notes},
                "status": {"capacity": amounts, "allocatable": amounts},
            }
            await self.api.create_document(Node, None, document)
        await asyncio.sleep(1)
        await self.api.get(DeviceClass, DRIVER)
        await self.create(
            ResourceClaimTemplate, {"metadata": {"name": "one"}, "spec": {"spec": {"devices": ONE}}}
        )
        await self.create(ResourceClaim, {"metadata": {"name": "shared"}, "spec": {"devices": ONE}})

    async def create(self, kind: type[Any], document: Json) -> None:
        await self.api.create_document(kind, "default", document)

    async def add_group(self, name: str, count: int, **fields: Any) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": count}}, **fields}
        await self.create(PodGroup, {"metadata": {"name": name}, "spec": spec})

    async def add_member(self, name: str, group: str, *claims: Json) -> None:
        """A pod of a group with these entries of `spec.resourceClaims`."""
        container: Json = {"name": "c", "image": "pause"}
        container["resources"] = {"claims": [{"name": each["name"]} for each in claims]}
        spec: Json = {
            "containers": [container],
            "schedulingGroup": {"podGroupName": group},
            "resourceClaims": list(claims),
        }
        await self.create(Pod, {"metadata": {"name": name}, "spec": spec})

    async def pods(self) -> dict[str, Pod]:
        return {pod.metadata.name: pod for pod in (await self.api.list(Pod)).items}

    async def claims(self) -> dict[str, ResourceClaim]:
        return {each.metadata.name: each for each in (await self.api.list(ResourceClaim)).items}

    async def check_devices(self) -> None:
        """Check that no device is allocated twice, and that running pods have their claims."""
        used = Counter(
            (result.pool, result.device)
            for claim in (await self.claims()).values()
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        )
        assert all(number == 1 for number in used.values()), used
