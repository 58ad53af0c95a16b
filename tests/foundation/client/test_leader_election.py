"""Leader election on virtual time: the cases of the chapter, and random faults."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from prometheus_client.registry import CollectorRegistry

from kubesched.api import ApiError, Lease, LeaseSpec, ObjectMeta, Status
from kubesched.cluster.apiserver import Fault, LocalApi, Store
from kubesched.errors import ConfigError
from kubesched.foundation.client.leader_election import ElectionSettings, LeaderElector
from kubesched.foundation.metrics.client_metrics import LeaderElectionMetrics
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run
from tests.foundation.client.own_clock import OwnClock

HOUR = 3600 * SECOND
LOST = ApiError(Status(status="Failure", code=0, message="connection lost"))


class ElectionHarness:
    """A store, and the requests to it."""

    def __init__(self) -> None:
        self.clock = current_clock()
        self.store = Store(random.Random(0))
        self.api = LocalApi(self.store, self.clock)
        self.calls: list[str] = []
        self.fail: dict[str, Fault] = {}
        self.told: list[str] = []
        self.registry = CollectorRegistry()

    def elector(
        self, identity: str = "me", clock: Clock | None = None, **settings: Any
    ) -> LeaderElector:
        def note(verb: str, _kind: str, _namespace: str | None, _name: str) -> Fault | None:
            self.calls.append(verb)
            return self.fail.get(f"{identity}: {verb}") or self.fail.get(
                verb, Fault(delay_ns=MILLISECOND)
            )

        clock = clock or self.clock
        return LeaderElector(
            LocalApi(self.store, clock, faults=note),
            clock,
            random.Random(identity),
            ElectionSettings(identity=identity, **settings),
            metrics=LeaderElectionMetrics(self.registry) if identity == "me" else None,
            record=lambda lease, what: self.told.append(f"{lease.metadata.name}: {what}"),
        )

    async def lease(self) -> LeaseSpec:
        return (await self.api.get(Lease, "kube-scheduler", "kube-system")).spec

    async def hold(
        self, holder: str | None, *, duration: int | None = 15, transitions: int = 3
    ) -> Lease:
        """Make another replica the holder, with a renewal long past."""
        spec = LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=duration,
            renew_time="2001-01-01T00:00:00.000000Z",
            lease_transitions=transitions if holder is not None else None,
        )
        metadata = ObjectMeta(name="kube-scheduler", namespace="kube-system")
        return await self.api.create(Lease(metadata=metadata, spec=spec))

    def metric(self, name: str) -> float | None:
        return self.registry.get_sample_value(f"leader_election_{name}", {"name": "kube-scheduler"})

    async def seconds_until_leading(self, elector: LeaderElector) -> float:
        began_ns = self.clock.monotonic_ns()
        await elector.leading.wait()
        return (self.clock.monotonic_ns() - began_ns) / SECOND


def virtually(steps: Callable[[ElectionHarness], Awaitable[None]]) -> None:
    async def main() -> None:
        await steps(ElectionHarness())

    run(main)


def test_an_absent_lease_is_created_and_renewed_at_once() -> None:
    async def steps(harness: ElectionHarness) -> None:
        elector = harness.elector()
        assert harness.metric("master_status") == 0
        async with running(elector):
            await elector.leading.wait()
            await asyncio.sleep(0.5)
            assert harness.calls == ["get", "create", "update"]
            assert elector.may_act()
            assert harness.metric("master_status") == 1
            spec = await harness.lease()
            assert (spec.holder_identity, spec.lease_duration_seconds) == ("me", 15)
            assert spec.lease_transitions == 0
            harness.calls.clear()
            await asyncio.sleep(10)
            assert harness.calls == ["update"] * 5  # about every two seconds
            assert (await harness.lease()).acquire_time == spec.acquire_time
        assert not elector.may_act()
        assert harness.told == [
            "kube-scheduler: me became leader",
            "kube-scheduler: me stopped leading",
        ]

    virtually(steps)


def test_stopping_a_leader_releases_the_lease() -> None:
    async def steps(harness: ElectionHarness) -> None:
        async with running(elector := harness.elector()):
            await elector.leading.wait()
        spec = await harness.lease()
        assert (spec.holder_identity, spec.lease_duration_seconds) == ("", 1)
        assert harness.metric("master_status") == 0
        async with running(other := harness.elector("other")):
            assert await harness.seconds_until_leading(other) < 0.1
            assert (await harness.lease()).lease_transitions == 1

    virtually(steps)


def test_stopping_a_waiting_contender_leaves_the_lease_alone() -> None:
    async def steps(harness: ElectionHarness) -> None:
        before = await harness.hold("other")
        async with running(elector := harness.elector()):
            await asyncio.sleep(5)
            assert not elector.may_act()
        after = await harness.api.get(Lease, "kube-scheduler", "kube-system")
        assert after == before
        assert harness.told == []

    virtually(steps)


def test_the_transition_count_of_a_lease_may_be_at_its_maximum() -> None:
    async def steps(harness: ElectionHarness) -> None:
        await harness.hold("", transitions=2**31 - 1)
        async with running(elector := harness.elector()):
            assert await harness.seconds_until_leading(elector) < 0.1
            assert (await harness.lease()).lease_transitions == 0

    virtually(steps)


@pytest.mark.parametrize("holder", ["", None])
def test_a_lease_without_a_holder_is_acquired_immediately(holder: str | None) -> None:
    async def steps(harness: ElectionHarness) -> None:
        await harness.hold(holder)
        async with running(elector := harness.elector()):
            assert await harness.seconds_until_leading(elector) < 0.1
            assert (await harness.lease()).lease_transitions == (1 if holder is None else 4)

    virtually(steps)


@pytest.mark.parametrize(("duration", "at_least", "at_most"), [(15, 15, 20), (60, 60, 65)])
def test_a_standby_waits_for_the_duration_in_the_lease_of_a_dead_holder(
    duration: int, at_least: float, at_most: float
) -> None:
    async def steps(harness: ElectionHarness) -> None:
        await harness.hold("dead", duration=duration)
        async with running(elector := harness.elector()):
            assert at_least <= await harness.seconds_until_leading(elector) < at_most
            assert (await harness.lease()).lease_transitions == 4

    virtually(steps)


def test_a_lease_without_a_duration_is_acquired_at_the_second_poll() -> None:
    async def steps(harness: ElectionHarness) -> None:
        await harness.hold("dead", duration=None)
        async with running(elector := harness.elector()):
            assert 2 <= await harness.seconds_until_leading(elector) <= 4.5

    virtually(steps)


def test_standbys_acquire_a_released_lease_at_once(caplog: pytest.LogCaptureFixture) -> None:
    async def steps(harness: ElectionHarness) -> None:
        async with running(first := harness.elector()):
            await first.leading.wait()
            standbys = [harness.elector(f"standby {number}") for number in range(3)]
            async with running(*standbys):
                await asyncio.sleep(61)
                first.stop()
                await first.over.wait()
                await asyncio.sleep(0.1)
                assert sum(each.may_act() for each in standbys) == 1
                # All three tried at once, and two were refused.
                assert [each.message for each in caplog.records if each.levelname == "ERROR"] == []

    virtually(steps)


def test_a_lease_that_may_not_be_watched_is_tried_every_retry_period() -> None:
    async def steps(harness: ElectionHarness) -> None:
        lease = await harness.hold("other", duration=3600)
        refusal = ApiError(Status(status="Failure", code=403, message="forbidden"))
        harness.fail = {"watch": Fault(error=refusal)}
        async with running(elector := harness.elector()):
            await asyncio.sleep(59)
            assert harness.calls.count("watch") == 1
            assert 14 <= harness.calls.count("get") <= 30
            await asyncio.sleep(10)
            assert harness.calls.count("watch") == 2  # after a minute
            released = msgspec.structs.replace(lease.spec, holder_identity="")
            await harness.api.update(msgspec.structs.replace(lease, spec=released))
            assert await harness.seconds_until_leading(elector) < 4.5

    virtually(steps)


def test_each_event_or_bookmark_restarts_the_watch_timeout() -> None:
    async def steps(harness: ElectionHarness) -> None:
        lease = await harness.hold("alive")
        async with running(elector := harness.elector()):
            for minute in range(5):
                await asyncio.sleep(10)
                renew_time = f"2001-01-01T00:0{minute + 1}:00.000000Z"
                renewed = msgspec.structs.replace(lease.spec, renew_time=renew_time)
                lease = await harness.api.update(msgspec.structs.replace(lease, spec=renewed))
                assert not elector.may_act()
            assert await harness.seconds_until_leading(elector) >= 15

    virtually(steps)


def test_a_conflict_is_resolved_within_the_attempt() -> None:
    async def steps(harness: ElectionHarness) -> None:
        async with running(elector := harness.elector()):
            await elector.leading.wait()
            await asyncio.sleep(0.5)
            lease = await harness.api.get(Lease, "kube-scheduler", "kube-system")
            labelled = msgspec.structs.replace(lease.metadata, labels={"a": "b"})
            await harness.api.update(msgspec.structs.replace(lease, metadata=labelled))
            harness.calls.clear()
            await asyncio.sleep(2)
            assert harness.calls == ["update", "get", "update"]
            assert elector.may_act()
            assert harness.metric("slowpath_total") == 1
            kept = await harness.api.get(Lease, "kube-scheduler", "kube-system")
            assert kept.metadata.labels == {"a": "b"}

    virtually(steps)


@pytest.mark.parametrize("delay_s", [0, 3, 1000])
def test_a_leader_that_cannot_write_stops_before_another_replica_may_lead(delay_s: int) -> None:
    async def steps(harness: ElectionHarness) -> None:
        elector = harness.elector()
        task = asyncio.create_task(elector.run())
        await elector.leading.wait()
        await asyncio.sleep(1)
        lease = await harness.lease()
        began_ns = harness.clock.monotonic_ns()
        harness.fail = {"update": Fault(delay_ns=delay_s * SECOND, error=LOST)}
        while elector.may_act():
            await asyncio.sleep(0.1)
            assert await harness.lease() == lease
        assert 8 < (harness.clock.monotonic_ns() - began_ns) / SECOND < 10.1
        await elector.over.wait()
        assert 9 < (harness.clock.monotonic_ns() - began_ns) / SECOND < 13
        harness.fail = {}
        await task

    virtually(steps)


def test_a_lease_acquired_by_another_replica_is_not_released() -> None:
    async def steps(harness: ElectionHarness) -> None:
        elector = harness.elector()
        task = asyncio.create_task(elector.run())
        await elector.leading.wait()
        lease = await harness.api.get(Lease, "kube-scheduler", "kube-system")
        taken = msgspec.structs.replace(lease.spec, holder_identity="thief")
        await asyncio.sleep(1)
        lease = await harness.api.get(Lease, "kube-scheduler", "kube-system")
        await harness.api.update(msgspec.structs.replace(lease, spec=taken))
        await asyncio.sleep(2)
        assert not elector.may_act()  # although it retries until the deadline
        await task
        assert (await harness.lease()).holder_identity == "thief"

    virtually(steps)


def test_a_deleted_lease_is_not_taken_from_its_living_holder() -> None:
    async def steps(harness: ElectionHarness) -> None:
        elector, other = harness.elector(), harness.elector("other")
        async with running(elector):
            await elector.leading.wait()
            async with running(other):
                await asyncio.sleep(5)
                await harness.api.delete(Lease, "kube-scheduler", "kube-system")
                for _ in range(100):
                    await asyncio.sleep(0.1)
                    assert not other.may_act()
                assert elector.may_act()

    virtually(steps)


def test_a_replica_that_lost_the_race_to_create_a_lease_has_read_its_holder() -> None:
    async def steps(harness: ElectionHarness) -> None:
        # Neither finds a lease. The replica that creates it renews it only after the other tries
        # again.
        leader, other = harness.elector(retry_period_ns=6 * SECOND), harness.elector("other")
        async with running(leader, other):
            await asyncio.sleep(1)
            assert leader.may_act()
            await harness.api.delete(Lease, "kube-scheduler", "kube-system")
            for _ in range(200):
                await asyncio.sleep(0.1)
                assert not (leader.may_act() and other.may_act())

    virtually(steps)


async def never_both_lead(first: LeaderElector, second: LeaderElector, seconds: int) -> None:
    for _ in range(seconds * 20):
        await asyncio.sleep(0.05)
        assert not (first.may_act() and second.may_act())


@pytest.mark.parametrize("is_suspended", [False, True])
def test_a_replica_whose_lease_has_expired_does_not_create_a_deleted_lease(
    is_suspended: bool,
) -> None:
    """Seed 920000195: another replica had acquired the lease during the pause."""

    async def steps(harness: ElectionHarness) -> None:
        clock = OwnClock(harness.clock, 1.0)
        paused = harness.elector("paused", clock)
        other = harness.elector("other", retry_period_ns=6 * SECOND)
        async with running(paused):
            await paused.leading.wait()
            async with running(other):
                await asyncio.sleep(5)
                if is_suspended:
                    clock.suspend()
                else:
                    clock.awake.clear()
                await other.leading.wait()
                await asyncio.sleep(1)
                await harness.api.delete(Lease, "kube-scheduler", "kube-system")
                clock.resume()
                await never_both_lead(paused, other, 30)
                assert other.may_act()

    virtually(steps)


def test_a_deleted_lease_may_have_been_renewed_since_it_was_read() -> None:
    async def steps(harness: ElectionHarness) -> None:
        leader, other = harness.elector("leader"), harness.elector("other")
        async with running(leader, other):
            await asyncio.sleep(10)
            first, second = (leader, other) if leader.may_act() else (other, leader)
            identity = "leader" if first is leader else "other"
            standby = "other" if first is leader else "leader"
            # The standby reads nothing for a while. Then the leader cannot renew any more.
            harness.fail[f"{standby}: get"] = Fault(error=LOST)
            await asyncio.sleep(12)
            for verb in ("get", "create", "update"):
                harness.fail[f"{identity}: {verb}"] = Fault(error=LOST)
            await harness.api.delete(Lease, "kube-scheduler", "kube-system")
            del harness.fail[f"{standby}: get"]
            await never_both_lead(first, second, 30)
            assert second.may_act()

    virtually(steps)


SETTINGS = {
    "leaseDuration must be greater than renewDeadline": {"renew_deadline_ns": 15 * SECOND},
    "renewDeadline must be greater than retryPeriod*JitterFactor": {
        "renew_deadline_ns": 2 * SECOND
    },
    "retryPeriod must be greater than zero": {"retry_period_ns": 0},
}


@pytest.mark.parametrize(("message", "settings"), SETTINGS.items(), ids=SETTINGS)
def test_durations_that_cannot_work(message: str, settings: dict[str, int]) -> None:
    with pytest.raises(ConfigError) as error:
        ElectionSettings(identity="me", **settings).check()
    assert str(error.value) == message


# Random faults


class Machine:
    """Replicas that run one after another on a machine with many kinds of faults."""

    def __init__(self, number: int, store: Store, base: Clock, dice: random.Random) -> None:
        self.number, self._dice, self._store = number, dice, store
        self.clock = OwnClock(base, dice.uniform(0.95, 1.05))
        self.trouble = True
        self.elector: LeaderElector | None = None
        self.terms = 0

    async def run(self) -> None:
        life = 0
        while True:
            life += 1
            self.elector = LeaderElector(
                LocalApi(self._store, self.clock, faults=self._fault),
                self.clock,
                self._dice,
                ElectionSettings(identity=f"{self.number}-{life}"),
            )
            if self.trouble and self._dice.random() < 0.3:
                # A replica that is killed does not release its lease.
                try:
                    async with asyncio.timeout(self._dice.uniform(1, 100)):
                        await self.elector.run()
                except TimeoutError:
                    self.elector = None
            else:
                await self.elector.run()
            await self.clock.sleep(SECOND)

    async def suffer(self) -> None:
        """Pause at random, and let the wall clock jump."""
        while self.trouble:
            await asyncio.sleep(self._dice.uniform(1, 40))
            if self._dice.random() < 0.5:
                self.clock.wall_offset_ns = self._dice.randint(-HOUR, HOUR)
            else:
                self.clock.awake.clear()
                await asyncio.sleep(self._dice.uniform(0.1, 40))
                self.clock.awake.set()

    def acts(self) -> bool:
        return self.elector is not None and self.elector.may_act()

    def _fault(self, *_: object) -> Fault | None:
        chance = self._dice.random() if self.trouble else 1.0
        if chance < 0.1:
            return Fault(error=LOST)
        if chance < 0.2:
            return Fault(error=LOST, answer_lost=True)
        if chance < 0.3:
            return Fault(delay_ns=self._dice.randint(0, 30 * SECOND))
        return Fault(delay_ns=self._dice.randint(0, 100 * MILLISECOND))


@pytest.mark.parametrize("contenders", [2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_two_replicas_never_lead_at_the_same_time(seed: int, contenders: int) -> None:
    async def main() -> int:
        base, dice = current_clock(), random.Random(seed * 10 + contenders)
        store = Store(random.Random(0))
        machines = [Machine(number, store, base, dice) for number in range(contenders)]
        tasks = [asyncio.create_task(machine.run()) for machine in machines]
        troubles = [asyncio.create_task(machine.suffer()) for machine in machines]
        leaders: list[int] = []
        for moment in range(20_000):
            await asyncio.sleep(0.05)
            acting = [machine.number for machine in machines if machine.acts()]
            assert len(acting) <= 1, f"{acting} after {moment * 0.05} s, seed {seed}"
            if acting and acting[0] != (leaders[-1] if leaders else None):
                leaders.append(acting[0])
        for machine in machines:
            machine.trouble = False
        await asyncio.gather(*troubles)
        await asyncio.sleep(120)
        assert sum(machine.acts() for machine in machines) == 1, "no replica leads without faults"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return len(leaders)

    assert run(main) > 1
