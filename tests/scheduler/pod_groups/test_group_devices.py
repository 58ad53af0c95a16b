"""Members of a group that use the same claims (docs/reference/09 §9.6, 08 §3.5)."""

from __future__ import annotations

import asyncio
import random

import pytest

from kubesched.api import ApiError
from kubesched.api.meta import Status
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.foundation.util.clock import MILLISECOND
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.plugins.dynamic_resources.device_state import DeviceState
from kubesched.scheduler.scheduler import Scheduler
from tests.scheduler.pod_groups.group_device_harness import GroupDeviceHarness
from tests.scheduler.pod_groups.group_harness import GANGS

SHARED = {"name": "all", "resourceClaimName": "shared"}
OWN = {"name": "mine", "resourceClaimTemplateName": "one"}


def in_flight(scheduler: Scheduler) -> int:
    """Return the number of claims whose allocation is in flight."""
    state: DeviceState = scheduler.services.shared.get("DynamicResources", lambda: None)
    return len(state.in_flight)


@pytest.mark.parametrize("verifies", [False, True])
def test_members_share_a_claim_before_it_is_allocated(verifies: bool) -> None:
    """With --verify-engine, both searches use the allocations of other members."""

    async def scenario() -> None:
        harness = GroupDeviceHarness(GANGS)
        scheduler = harness.scheduler(verify_engine=verifies)
        async with running(*harness.cluster.parts, scheduler):
            await harness.prepare()
            for number in range(3):
                await harness.add_member(f"p{number}", "g", SHARED, OWN)
            await asyncio.sleep(2)
            await harness.add_group("g", 3)
            await asyncio.sleep(5)
            pods, claims = await harness.pods(), await harness.claims()
            assert len({pod.spec.node_name for pod in pods.values()} - {""}) == 1
            users = {user.name for user in claims["shared"].status.reserved_for}
            assert users == {"p0", "p1", "p2"}
            await harness.check_devices()
            assert in_flight(scheduler) == 0

    run(scenario)


def test_a_gang_that_does_not_fit_leaves_no_device_taken() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GANGS)
        scheduler = harness.scheduler()
        async with running(*harness.cluster.parts, scheduler):
            await harness.prepare(nodes=1, gpus=3)
            await harness.add_group("g", 3)
            for number in range(3):
                await harness.add_member(f"p{number}", "g", SHARED, OWN)  # four devices in all
            await asyncio.sleep(30)
            claims = await harness.claims()
            assert all(claim.status.allocation is None for claim in claims.values())
            assert not any(pod.spec.node_name for pod in (await harness.pods()).values())
            assert in_flight(scheduler) == 0
            messages = {
                each.message
                for pod in (await harness.pods()).values()
                for each in pod.status.conditions
                if each.type == "PodScheduled"
            }
            assert any("cannot allocate all claims" in text for text in messages)

    run(scenario)


def test_pods_without_a_group_do_not_share_what_is_not_written_yet() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GANGS)
        async with running(*harness.cluster.parts, harness.scheduler()):
            await harness.prepare()
            await harness.add_group("g", 1)
            await harness.add_group("h", 1)
            await harness.add_member("p", "g", SHARED)
            await harness.add_member("q", "h", SHARED)
            await asyncio.sleep(15)
            pods = await harness.pods()
            assert all(pod.spec.node_name for pod in pods.values())
            await harness.check_devices()

    run(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_killed_schedulers_allocate_no_device_twice(seed: int) -> None:
    async def scenario() -> None:
        harness, dice = GroupDeviceHarness(GANGS, seed), random.Random(seed)

        def fault(verb: str, _kind: str, _namespace: str | None, _name: str) -> Fault | None:
            if verb == "watch":
                return None
            delay_ns = dice.randint(0, 30) * MILLISECOND
            if verb not in ("update", "patch", "bind") or dice.random() > 0.15:
                return Fault(delay_ns=delay_ns)
            code, reason = dice.choice(((0, ""), (504, "Timeout"), (409, "Conflict")))
            error = ApiError(Status(status="Failure", code=code, reason=reason, message="injected"))
            is_lost = code != 409 and dice.random() < 0.5
            return Fault(delay_ns=delay_ns, error=error, answer_lost=is_lost)

        async with running(*harness.cluster.parts):
            await harness.prepare(nodes=3)
            for group in ("g", "h"):
                await harness.add_group(group, 2)
                for number in range(3):
                    await harness.add_member(f"{group}{number}", group, SHARED, OWN)
            for life in range(5):
                killed = asyncio.create_task(harness.scheduler(fault, life).run())
                await asyncio.sleep(dice.uniform(0.1, 4))
                killed.cancel()
                await asyncio.gather(killed, return_exceptions=True)
                await harness.check_devices()
            async with running(harness.scheduler(seed=9)):
                await asyncio.sleep(400)  # longer than any pod waits for other members
                pods = await harness.pods()
                await harness.check_devices()
                # The node has four devices: one for the shared claim, three for pods.
                placed = [pod for pod in pods.values() if pod.spec.node_name]
                assert len({pod.spec.node_name for pod in placed}) == 1
                assert len(placed) == 3

    run(scenario)
