"""Schedulers that are killed while they allocate devices: none is allocated twice or lost.

The cluster is the embedded one, with its claim controller and stand-in for drivers, on virtual
time; each seed is a run of its own.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import Any

import pytest

from kubesched.api import (
    ApiError,
    DeviceClass,
    Node,
    Pod,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from kubesched.api.meta import Status
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.controllers.device_driver import DEVICES
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import MILLISECOND, SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.scheduler import Scheduler

DRIVER = "gpu.example.com"
RESOURCE = "example.com/gpu"
NODES, GPUS = 3, 4

Json = dict[str, Any]


class DeviceHarness:
    def __init__(self, seed: int) -> None:
        self.dice = random.Random(seed)
        self.clock = current_clock()
        self.cluster = EmbeddedCluster(self.clock, derive(seed, "store"), heartbeats=False)
        self.api = self.cluster.api
        self.lives = 0
        self._pods = 0

    async def prepare(self) -> None:
        amounts = {"cpu": "64", "memory": "64Gi", "pods": "100"}
        for number in range(NODES):
            notes = {DEVICES: json.dumps([{"driver": DRIVER, "count": GPUS}])}
            await self.api.create_document(
                Node,
                None,
                {
                    "metadata": {"name": f"n{number}", "annotations": notes},
                    "status": {"capacity": amounts, "allocatable": amounts},
                },
            )
        await self.clock.sleep(SECOND)
        patch = {"spec": {"extendedResourceName": RESOURCE}}
        await self.api.patch(DeviceClass, DRIVER, None, patch, patch_type="merge")
        devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}
        spec = {"spec": {"devices": devices}}
        await self.create(ResourceClaimTemplate, {"metadata": {"name": "one"}, "spec": spec})
        await self.create(
            ResourceClaim, {"metadata": {"name": "shared"}, "spec": {"devices": devices}}
        )

    async def create(self, kind: type[Any], document: Json) -> None:
        await self.api.create_document(kind, "default", document)

    async def add_pod(self, how: str) -> None:
        self._pods += 1
        container: Json = {"name": "c", "image": "pause"}
        spec: Json = {"containers": [container]}
        if how == "extended":
            amounts = {RESOURCE: "1"}
            container["resources"] = {"requests": amounts, "limits": amounts}
        else:
            reference = (
                {"resourceClaimTemplateName": "one"}
                if how == "template"
                else {"resourceClaimName": "shared"}
            )
            spec["resourceClaims"] = [{"name": "gpu", **reference}]
            container["resources"] = {"claims": [{"name": "gpu"}]}
        metadata = {"name": f"{how}-{self._pods}"}
        await self.create(Pod, {"metadata": metadata, "spec": spec})

    async def live(self) -> None:
        """Run one scheduler after another, with slow responses, lost responses and conflicts."""
        while True:
            self.lives += 1
            api = LocalApi(self.cluster.store, self.clock, faults=self._fault)
            scheduler = Scheduler(api, self.clock, seed=self.lives)
            task = asyncio.create_task(scheduler.run())
            try:
                await self.clock.sleep(self.dice.randint(50, 4000) * MILLISECOND)
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    def _fault(self, verb: str, _kind: str, _namespace: str | None, _name: str) -> Fault | None:
        """Sometimes a write fails, or succeeds without a watch event."""
        draw, delay_ns = self.dice.random(), self.dice.randint(0, 30) * MILLISECOND
        if verb not in ("create", "update", "patch", "bind") or draw > 0.2:
            return Fault(delay_ns=delay_ns) if verb != "watch" else None
        code, reason = self.dice.choice(((0, ""), (504, "Timeout"), (429, "TooManyRequests")))
        error = ApiError(Status(status="Failure", code=code, reason=reason, message="injected"))
        is_lost = code != 429 and self.dice.random() < 0.5
        return Fault(delay_ns=delay_ns, error=error, answer_lost=is_lost)

    async def check(self) -> None:
        """Check that no device is allocated twice, and that running pods have their devices."""
        claims = list((await self.api.list(ResourceClaim)).items)
        held = Counter(
            (result.pool, result.device)
            for claim in claims
            if claim.status.allocation is not None
            for result in claim.status.allocation.devices.results
        )
        assert [device for device, times in held.items() if times > 1] == []
        by_name = {claim.metadata.name: claim for claim in claims}
        for pod in (await self.api.list(Pod)).items:
            if not pod.spec.node_name or pod.metadata.deletion_timestamp:
                continue
            names = [
                each.resource_claim_name
                for each in pod.spec.resource_claims
                if each.resource_claim_name
            ]
            names += [each.resource_claim_name for each in pod.status.resource_claim_statuses]
            extended = pod.status.extended_resource_claim_status
            if extended is not None:
                names.append(extended.resource_claim_name)
            assert names, pod.metadata.name
            for name in names:
                claim = by_name[str(name)]
                assert claim.status.allocation is not None
                assert pod.metadata.uid in [each.uid for each in claim.status.reserved_for]
                pools = {each.pool for each in claim.status.allocation.devices.results}
                assert pools == {pod.spec.node_name}

    async def pods(self) -> list[Pod]:
        return list((await self.api.list(Pod)).items)


async def churn(harness: DeviceHarness) -> None:
    for _ in range(60):
        draw = harness.dice.random()
        if draw < 0.6:
            await harness.add_pod(
                harness.dice.choice(["template", "template", "shared", "extended"])
            )
        elif pods := await harness.pods():
            gone = harness.dice.choice(pods).metadata
            await harness.api.delete(Pod, gone.name, "default", grace_period_seconds=0)
        await harness.clock.sleep(harness.dice.randint(10, 800) * MILLISECOND)
        await harness.check()


@pytest.mark.parametrize("seed", range(4))
def test_no_device_is_allocated_twice_or_lost(seed: int) -> None:
    async def steps() -> None:
        harness = DeviceHarness(seed)
        async with harness.cluster, running(*harness.cluster.parts):
            await harness.prepare()
            living = asyncio.create_task(harness.live())
            await churn(harness)
            assert not living.done(), living.exception()
            living.cancel()
            await asyncio.gather(living, return_exceptions=True)
            for pod in await harness.pods():
                await harness.api.delete(Pod, pod.metadata.name, "default", grace_period_seconds=0)
            await harness.clock.sleep(30 * SECOND)
            left = (await harness.api.list(ResourceClaim)).items
            assert [claim.metadata.name for claim in left] == ["shared"]
            assert left[0].status.allocation is None
            # Every device can be had again.
            for _ in range(NODES * GPUS + 1):
                await harness.add_pod("template")
            scheduler = Scheduler(harness.api, harness.clock, seed=seed)
            async with running(scheduler):
                await harness.clock.sleep(20 * SECOND)
                await harness.check()
                placed = [pod for pod in await harness.pods() if pod.spec.node_name]
                assert len(placed) == NODES * GPUS
                (waiting,) = [pod for pod in await harness.pods() if not pod.spec.node_name]
                assert "cannot allocate all claims" in waiting.status.conditions[0].message
            assert harness.lives > 5
            assert (await harness.api.list(ResourceSlice)).items
        harness.cluster.store.check_invariants()

    run(steps)
