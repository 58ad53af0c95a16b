"""Claims of a group: created once, reserved once, shared (docs/reference/08 §10.3)."""

from __future__ import annotations

import asyncio
import random

import pytest

from kubesched.api import ApiError, EventsEvent, Node, Pod, PodGroup, ResourceClaim
from kubesched.api.meta import Status
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.foundation.util.clock import MILLISECOND
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from tests.scheduler.pod_groups.group_device_harness import GroupDeviceHarness
from tests.scheduler.pod_groups.group_harness import GANGS

GATES = {**GANGS, "DRAWorkloadResourceClaims": True}
NAMED = {"name": "all", "resourceClaimName": "shared"}
MADE = {"name": "team", "resourceClaimTemplateName": "one"}
OWN = {"name": "mine", "resourceClaimTemplateName": "one"}


async def _gang(harness: GroupDeviceHarness, *, count: int = 3, name: str = "g") -> None:
    """Return a group with one claim by name and one by template; its pods have another each."""
    await harness.add_group(name, count, resourceClaims=[NAMED, MADE])
    for number in range(count):
        await harness.add_member(f"{name}{number}", name, NAMED, MADE, OWN)


def _users(claim: ResourceClaim) -> list[tuple[str, str, str]]:
    return [(user.api_group, user.resource, user.name) for user in claim.status.reserved_for]


def test_a_group_has_its_claims_once_for_all_of_its_pods() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GATES)
        async with running(*harness.cluster.parts, harness.scheduler()):
            await harness.prepare(gpus=8)
            await _gang(harness)
            await asyncio.sleep(10)
            pods, claims = await harness.pods(), await harness.claims()
            assert len({pod.spec.node_name for pod in pods.values()} - {""}) == 1
            group = await harness.api.get(PodGroup, "g", "default")
            ((told, made),) = [
                (each.name, each.resource_claim_name)
                for each in group.status.resource_claim_statuses
            ]
            assert told == "team"
            assert made is not None
            (owner,) = claims[made].metadata.owner_references
            assert (owner.kind, owner.name, owner.controller) == ("PodGroup", "g", True)
            theirs = [("scheduling.k8s.io", "podgroups", "g")]
            assert _users(claims[made]) == theirs
            assert _users(claims["shared"]) == theirs
            for name, pod in pods.items():
                names = {
                    each.name: each.resource_claim_name
                    for each in pod.status.resource_claim_statuses
                }
                assert names["team"] == made
                own = names["mine"]
                assert own is not None
                assert _users(claims[own]) == [("", "pods", name)]
            assert len(claims) == 5
            await harness.check_devices()

    run(scenario)


def test_a_claim_of_a_template_that_the_group_lacks_belongs_to_the_pod() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GATES)
        async with running(*harness.cluster.parts, harness.scheduler()):
            await harness.prepare(gpus=8)
            await harness.add_group("g", 2, resourceClaims=[MADE])
            other_name = {"name": "squad", "resourceClaimTemplateName": "one"}
            await harness.add_member("p0", "g", MADE)
            await harness.add_member("p1", "g", other_name)
            await asyncio.sleep(10)
            users = sorted(
                user for claim in (await harness.claims()).values() for user in _users(claim)
            )
            assert users == [("", "pods", "p1"), ("scheduling.k8s.io", "podgroups", "g")]

    run(scenario)


def test_pods_that_come_before_their_group_wait_for_its_claims() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GATES)
        async with running(*harness.cluster.parts, harness.scheduler()):
            await harness.prepare(gpus=8)
            for number in range(2):
                await harness.add_member(f"p{number}", "g", MADE)
            await asyncio.sleep(5)
            assert set(await harness.claims()) == {"shared"}
            await harness.add_group("g", 2, resourceClaims=[MADE])
            await asyncio.sleep(10)
            assert all(pod.spec.node_name for pod in (await harness.pods()).values())
            assert len(await harness.claims()) == 2

    run(scenario)


def test_a_deleted_group_releases_all_its_resources() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GATES)
        async with running(*harness.cluster.parts, harness.scheduler()):
            await harness.prepare(gpus=8)
            await _gang(harness)
            await asyncio.sleep(10)
            for name in await harness.pods():
                await harness.api.delete(Pod, name, "default", grace_period_seconds=0)
            await asyncio.sleep(5)
            # Pods are replaced; the devices belong to the group until it is deleted.
            claims = await harness.claims()
            assert claims["shared"].status.allocation is not None
            assert len(claims) == 2
            await harness.api.delete(PodGroup, "g", "default")
            await asyncio.sleep(10)
            claims = await harness.claims()
            assert set(claims) == {"shared"}
            assert claims["shared"].status.allocation is None
            assert not claims["shared"].status.reserved_for

    run(scenario)


def test_later_members_use_what_the_group_has() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GATES)
        async with running(*harness.cluster.parts, harness.scheduler()):
            await harness.prepare(gpus=8)
            await _gang(harness, count=2)
            await asyncio.sleep(10)
            before = (await harness.claims())["shared"].metadata.resource_version
            await harness.add_member("late", "g", NAMED)
            await asyncio.sleep(10)
            pods = await harness.pods()
            assert pods["late"].spec.node_name == pods["g0"].spec.node_name
            # Nothing was written: the group had it reserved.
            assert (await harness.claims())["shared"].metadata.resource_version == before

    run(scenario)


def test_an_unusable_claim_reservation_of_a_group_is_released() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GATES)
        async with running(*harness.cluster.parts):
            await harness.prepare(nodes=2)
            await harness.add_group("g", 2, resourceClaims=[NAMED])
            async with running(harness.scheduler()):
                await harness.add_member("p0", "g", NAMED)
                await harness.add_member("p1", "g", NAMED)
                await asyncio.sleep(5)
                home = (await harness.pods())["p0"].spec.node_name
                # The pods are deleted, and the node with the devices is filled.
                for name in ("p0", "p1"):
                    await harness.api.delete(Pod, name, "default", grace_period_seconds=0)
                patch = {"spec": {"unschedulable": True}}
                await harness.api.patch(Node, home, None, patch, patch_type="merge")
                await asyncio.sleep(1)
                await harness.add_member("q0", "g", NAMED)
                await harness.add_member("q1", "g", NAMED)
                await asyncio.sleep(60)
                pods = await harness.pods()
                assert {pod.spec.node_name for pod in pods.values()} == {"n0", "n1"} - {home}
                await harness.check_devices()
                events = (await harness.api.list(EventsEvent, "default")).items
                assert any(
                    event.note.endswith("ResourceClaim unreserved for PodGroup")
                    for event in events
                    if event.regarding.name in pods
                )

    run(scenario)


def test_without_the_gate_claims_are_the_pods_own() -> None:
    async def scenario() -> None:
        harness = GroupDeviceHarness(GANGS)
        async with running(*harness.cluster.parts, harness.scheduler()):
            await harness.prepare(gpus=8)
            await _gang(harness, count=2)
            await asyncio.sleep(10)
            group = await harness.api.get(PodGroup, "g", "default")
            assert group.spec.resource_claims == ()
            claims = await harness.claims()
            assert len(claims) == 5
            assert {user[1] for claim in claims.values() for user in _users(claim)} == {"pods"}

    run(scenario)


@pytest.mark.parametrize("seed", range(6))
def test_killed_schedulers_lose_no_pod_and_bind_none_twice(seed: int) -> None:
    async def scenario() -> None:
        harness, dice = GroupDeviceHarness(GATES, seed), random.Random(seed)

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
            await harness.prepare(nodes=3, gpus=6)
            for name in ("g", "h"):
                await harness.add_group(name, 2, resourceClaims=[MADE])
                for number in range(3):
                    await harness.add_member(f"{name}{number}", name, MADE, OWN)
            for life in range(5):
                killed = asyncio.create_task(harness.scheduler(fault, life).run())
                await asyncio.sleep(dice.uniform(0.1, 4))
                killed.cancel()
                await asyncio.gather(killed, return_exceptions=True)
                await harness.check_devices()
            async with running(harness.scheduler(seed=9)):
                await asyncio.sleep(400)
                pods = await harness.pods()
                assert all(pod.spec.node_name for pod in pods.values())
                for name in ("g", "h"):
                    homes = {pod.spec.node_name for key, pod in pods.items() if key[0] == name}
                    assert len(homes) == 1, "all are where the devices of their group are"
                await harness.check_devices()
                assert len(await harness.claims()) == 9

    run(scenario)
