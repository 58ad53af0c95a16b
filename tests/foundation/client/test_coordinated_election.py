"""Coordinated leader election (docs/reference/02 §7.12) on virtual time.

The embedded API server elects no leaders: the tests write the lease in place of its controller.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from kubesched.api import ApiError, Lease, LeaseSpec, ObjectMeta, Status
from kubesched.api.plain_kinds import LeaseCandidate
from kubesched.api.time import format_micro_time
from kubesched.cluster.apiserver import Fault, LocalApi, Store
from kubesched.foundation.client.coordinated_elector import CoordinatedElector
from kubesched.foundation.client.leader_election import ElectionSettings
from kubesched.foundation.client.lease_candidate import (
    CandidateDescription,
    LeaseCandidateRenewer,
)
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run


class CoordinatedHarness:
    """A store, a replica, and the writes of the API server's controller."""

    def __init__(self) -> None:
        self.clock = current_clock()
        self.store = Store(random.Random(0))
        self.api = LocalApi(self.store, self.clock)
        self.calls: list[str] = []
        self.fail: dict[str, Fault] = {}

    def _note(self, verb: str, kind: str, _namespace: str | None, _name: str) -> Fault | None:
        self.calls.append(f"{verb} {kind}")
        return self.fail.get(verb)

    def elector(self, identity: str = "me") -> CoordinatedElector:
        api = LocalApi(self.store, self.clock, faults=self._note)
        settings = ElectionSettings(identity=identity)
        return CoordinatedElector(api, self.clock, random.Random(identity), settings)

    def candidate(self) -> LeaseCandidateRenewer:
        description = CandidateDescription(
            identity="me",
            lease_name="kube-scheduler",
            binary_version="1.36.4",
            emulation_version="1.36.0",
        )
        api = LocalApi(self.store, self.clock, faults=self._note)
        return LeaseCandidateRenewer(api, self.clock, random.Random(0), description)

    async def elect(self, holder: str, **more: Any) -> None:
        now = format_micro_time(self.clock.now_ns())
        spec = LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=15,
            acquire_time=now,
            renew_time=now,
            lease_transitions=7,
            strategy="OldestEmulationVersion",
            **more,
        )
        metadata = ObjectMeta(name="kube-scheduler", namespace="kube-system")
        try:
            found = await self.api.get(Lease, "kube-scheduler", "kube-system")
        except ApiError:
            await self.api.create(Lease(metadata=metadata, spec=spec))
        else:
            await self.api.update(msgspec.structs.replace(found, spec=spec))

    async def lease(self) -> LeaseSpec:
        return (await self.api.get(Lease, "kube-scheduler", "kube-system")).spec

    async def described(self) -> dict[str, Any]:
        found = await self.api.get(LeaseCandidate, "me", "kube-system")
        return found.spec


def virtually(steps: Callable[[CoordinatedHarness], Awaitable[None]]) -> None:
    async def main() -> None:
        await steps(CoordinatedHarness())

    run(main)


def test_a_missing_lease_is_not_created() -> None:
    async def steps(harness: CoordinatedHarness) -> None:
        async with running(elector := harness.elector()):
            await asyncio.sleep(60)
            assert not elector.may_act()
            assert set(harness.calls) == {"get Lease"}

    virtually(steps)


def test_the_elected_replica_leads_and_leaves_the_lease_as_the_server_made_it() -> None:
    async def steps(harness: CoordinatedHarness) -> None:
        async with running(elector := harness.elector()):
            await asyncio.sleep(5)
            await harness.elect("me")
            before = await harness.lease()
            await asyncio.wait_for(elector.leading.wait(), 10)
            await asyncio.sleep(10)
            assert elector.may_act()
            after = await harness.lease()
            assert (after.acquire_time, after.lease_transitions) == (before.acquire_time, 7)
            assert after.strategy == "OldestEmulationVersion"
            assert after.renew_time != before.renew_time

    virtually(steps)


def test_a_lease_of_another_replica_is_not_taken_even_after_it_has_expired() -> None:
    async def steps(harness: CoordinatedHarness) -> None:
        await harness.elect("other")
        async with running(elector := harness.elector()):
            await asyncio.sleep(120)
            assert not elector.may_act()
        assert (await harness.lease()).holder_identity == "other"
        assert "update Lease" not in harness.calls

    virtually(steps)


def test_an_expired_lease_is_not_renewed_by_its_own_holder() -> None:
    async def steps(harness: CoordinatedHarness) -> None:
        await harness.elect("me")
        async with running(elector := harness.elector()):
            await asyncio.wait_for(elector.leading.wait(), 10)
            harness.fail["update"] = Fault(error=ApiError(Status(code=503)))
            await asyncio.wait_for(elector.over.wait(), 20)
            assert not elector.may_act()

    virtually(steps)


def test_a_leader_whose_lease_expires_stops() -> None:
    async def steps(harness: CoordinatedHarness) -> None:
        await harness.elect("me")
        async with running(elector := harness.elector()):
            await asyncio.wait_for(elector.leading.wait(), 10)
            await harness.elect("me", preferred_holder="other")
            await asyncio.wait_for(elector.over.wait(), 20)
            assert not elector.may_act()

    virtually(steps)


def test_a_candidate_is_created_with_its_versions() -> None:
    async def steps(harness: CoordinatedHarness) -> None:
        async with running(candidate := harness.candidate()):
            assert not candidate.has_synced
            await asyncio.sleep(1)
            assert candidate.has_synced
            spec = await harness.described()
            assert {name: text for name, text in spec.items() if name != "renewTime"} == {
                "leaseName": "kube-scheduler",
                "binaryVersion": "1.36.4",
                "emulationVersion": "1.36.0",
                "strategy": "OldestEmulationVersion",
            }

    virtually(steps)


def test_a_candidate_is_renewed_every_five_minutes_and_when_it_is_pinged() -> None:
    async def steps(harness: CoordinatedHarness) -> None:
        async with running(harness.candidate()):
            await asyncio.sleep(1)
            created = (await harness.described())["renewTime"]
            await asyncio.sleep(298)
            assert (await harness.described())["renewTime"] == created
            await asyncio.sleep(3)
            renewed = (await harness.described())["renewTime"]
            assert renewed > created
            await asyncio.sleep(60)
            ping = {"spec": {"pingTime": format_micro_time(harness.clock.now_ns())}}
            await harness.api.patch(LeaseCandidate, "me", "kube-system", ping, patch_type="merge")
            await asyncio.sleep(1)
            answered = (await harness.described())["renewTime"]
            assert answered > renewed

    virtually(steps)


def test_a_refused_candidate_is_retried() -> None:
    async def steps(harness: CoordinatedHarness) -> None:
        harness.fail["create"] = Fault(error=ApiError(Status(code=403, reason="Forbidden")))
        async with running(harness.candidate()):
            await asyncio.sleep(20)
            del harness.fail["create"]
            await asyncio.sleep(130)
            assert (await harness.described())["leaseName"] == "kube-scheduler"
            assert harness.calls.count("create LeaseCandidate") >= 3

    virtually(steps)
