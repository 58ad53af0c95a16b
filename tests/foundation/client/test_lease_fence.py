"""Writes of leaders: none while another may lead, few shortly before the lease expires.

The contenders are complete: elections and writes over HTTP, to a slow server, on a network that
delays and loses requests, from machines that are suspended and whose clocks jump. The tests check
that the sender holds the lease in the store when a write takes effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Callable

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kubesched.api import ApiError
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.leader_election import ElectionSettings, LeaderElector
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util.clock import MILLISECOND, SECOND, ManualClock, current_clock
from kubesched.foundation.util.virtual_loop import run
from tests.foundation.client.own_clock import OwnClock
from tests.foundation.client.wire_network import Machine, Network, Trouble

HOUR = 3600 * SECOND
DEFAULTS = (15 * SECOND, 10 * SECOND, 2 * SECOND)


# The fence alone


def fence_of(age_ns: int) -> tuple[LeaseFence, ManualClock]:
    clock = ManualClock(now_ns=HOUR)
    fence = LeaseFence(clock, *DEFAULTS)
    fence.renewed(clock.monotonic_ns(), clock.now_ns())
    clock.advance(age_ns)
    return fence, clock


LIMITS = {
    "right after a renewal": (0, 10),
    "when renewals are late": (7, 5.5),
    "just before the deadline": (9.5, 3),
}


@pytest.mark.parametrize(("age_s", "want_s"), LIMITS.values(), ids=LIMITS)
def test_a_write_has_as_long_as_the_lease_is_safe(age_s: float, want_s: float) -> None:
    fence, clock = fence_of(int(age_s * SECOND))
    ends_ns = asyncio.run(fence.enter())
    assert ends_ns - clock.monotonic_ns() == want_s * SECOND


@pytest.mark.parametrize("age_s", [10, 11, 1000])
def test_no_write_begins_after_the_renew_deadline(age_s: int) -> None:
    fence, clock = fence_of(age_s * SECOND)
    with pytest.raises(ApiError, match="not sent: the lease may be in other hands"):
        asyncio.run(fence.enter())
    fence.renewed(clock.monotonic_ns(), clock.now_ns())
    asyncio.run(fence.enter())
    fence.close()
    with pytest.raises(ApiError):
        fence.check()


def test_a_fence_that_was_never_opened_is_closed() -> None:
    fence = LeaseFence(ManualClock(), *DEFAULTS)
    assert not fence.may_begin()


def test_writes_are_serialized_while_renewals_are_late() -> None:
    async def main() -> None:
        fence = LeaseFence(current_clock(), *DEFAULTS)
        fence.renewed(current_clock().monotonic_ns(), current_clock().now_ns())
        at_once: list[int] = []

        async def write() -> None:
            ends_ns = await fence.enter()
            at_once.append(fence.under_way)
            await asyncio.sleep(0.5)
            fence.leave(ends_ns, is_settled=True)

        await asyncio.gather(*(write() for _ in range(5)))
        assert at_once == [1, 2, 3, 4, 5]
        await asyncio.sleep(6)
        at_once.clear()
        await asyncio.gather(*(write() for _ in range(5)))
        assert at_once == [1] * 5

    run(main)


def test_waiting_writes_are_not_sent_after_the_deadline() -> None:
    async def main() -> None:
        clock = current_clock()
        fence = LeaseFence(clock, *DEFAULTS)
        fence.renewed(clock.monotonic_ns(), clock.now_ns())
        await asyncio.sleep(8)
        ends_ns = await fence.enter()
        with pytest.raises(ApiError):
            await fence.enter()
        assert 10 * SECOND <= clock.monotonic_ns() < 10.2 * SECOND
        assert ends_ns == 12.5 * SECOND
        fence.leave(ends_ns, is_settled=False)
        await fence.settled()
        # Its way takes time, and the server's clock may be slower: the lease lasts to the end.
        assert clock.monotonic_ns() == 15 * SECOND

    run(main)


def test_a_lease_is_released_when_a_slower_clock_has_dropped_what_was_sent() -> None:
    """Seed 600000005284: the clock was 5 % fast, and an abandoned write was executed."""

    async def main() -> None:
        server = current_clock()
        ours = OwnClock(server, rate=1.05)
        fence = LeaseFence(ours, 60 * SECOND, 50 * SECOND, 10 * SECOND)
        fence.renewed(ours.monotonic_ns(), ours.now_ns())
        arrives_ns, ends_ns = server.monotonic_ns(), await fence.enter()
        left_ns = fence.check(ends_ns)
        fence.leave(ends_ns, is_settled=False)
        await fence.settled()
        assert server.monotonic_ns() > arrives_ns + left_ns

    run(main)


class SteppedClock(ManualClock):
    """A wall clock that can be set; the monotonic clock is not affected."""

    def set_by(self, offset_ns: int) -> None:
        self._now_ns += offset_ns


def test_a_wall_clock_that_jumps_forward_closes_until_the_next_renewal_and_back_does_not() -> None:
    clock = SteppedClock(now_ns=10 * HOUR)
    fence = LeaseFence(clock, *DEFAULTS)
    fence.renewed(clock.monotonic_ns(), clock.now_ns())
    clock.set_by(-HOUR)
    assert fence.may_begin()
    clock.advance(11 * SECOND)
    assert not fence.may_begin()
    fence.renewed(clock.monotonic_ns(), clock.now_ns())
    assert fence.may_begin()
    clock.set_by(HOUR)  # as after a machine was suspended
    assert not fence.may_begin()
    fence.renewed(clock.monotonic_ns(), clock.now_ns())
    assert fence.may_begin()


# Contenders


class Replica:
    """The part of a scheduler that uses the lease: it sends writes endlessly, three at a time."""

    def __init__(self, network: Network, number: int, rate: float = 1.0) -> None:
        self.number, self._network = number, network
        self.clock = OwnClock(network.clock, rate)
        self.machine = Machine(self.clock, rate)
        self.machine.awake = self.clock.awake
        self.elector: LeaderElector | None = None
        self.lives = 0
        self.most_after_loss = 0

    def sleep(self) -> None:
        self.clock.awake.clear()

    def wake(self) -> None:
        self.clock.awake.set()

    async def run(self) -> None:
        while True:
            await self.live()
            await self.clock.sleep(SECOND)

    async def live(self) -> None:
        self.lives += 1
        identity = f"{self.number}-{self.lives}"
        settings = ElectionSettings(identity=identity)
        timeout_ns = settings.request_timeout_ns
        lease = self._network.client(f"lease {identity}", self.machine, timeout_ns=timeout_ns)
        dice = random.Random(identity)
        elector = self.elector = LeaderElector(lease, self.clock, dice, settings)
        api = self._network.client(identity, self.machine, fence=elector.fence)
        acting = [asyncio.create_task(self._act(api, dice)) for _ in range(3)]
        ending = asyncio.create_task(self._give_up(elector, acting))
        try:
            await elector.run()
        finally:
            for task in (*acting, ending):
                task.cancel()
            await asyncio.gather(*acting, ending, return_exceptions=True)

    async def _act(self, api: HttpApi, dice: random.Random) -> None:
        while True:
            await self.clock.sleep(dice.randint(1, 2000) * MILLISECOND)
            with contextlib.suppress(ApiError):
                await api.bind("default", "pod", "uid", "node")

    async def _give_up(self, elector: LeaderElector, acting: list[asyncio.Task[None]]) -> None:
        await elector.over.wait()
        self.most_after_loss = max(self.most_after_loss, elector.fence.under_way)
        for task in acting:
            task.cancel()


class WriteRecorder:
    """Records every write when it takes effect, and the holder of the lease at that time."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self.writes: Counter[str] = Counter()
        self.order: list[str] = []
        self.wrong: list[str] = []
        network.on_applied = self._saw

    def _saw(self, name: str, _request: OutgoingRequest, _answer: ServerResponse) -> None:
        if name.startswith("lease "):
            return
        lease = self._network.store.find("leases.coordination.k8s.io", "kube-system/kube-scheduler")
        holder = None if lease is None else lease["spec"].get("holderIdentity")
        if holder != name:
            when = self._network.clock.monotonic_ns() / SECOND
            self.wrong.append(f"{name} at {when} s, while {holder!r} holds the lease")
        self.writes[name] += 1
        if not self.order or self.order[-1] != name:
            self.order.append(name)


class LeaseFenceHarness:
    def __init__(self, contenders: int, rates: tuple[float, ...] = ()) -> None:
        self.network = Network()
        self.witness = WriteRecorder(self.network)
        rates = rates or (1.0,) * contenders
        self.replicas = [Replica(self.network, n, rates[n]) for n in range(contenders)]

    async def leader(self) -> Replica:
        while True:
            for replica in self.replicas:
                if replica.elector is not None and replica.elector.may_act():
                    return replica
            await asyncio.sleep(0.01)


def contend(
    contenders: int,
    steps: Callable[[LeaseFenceHarness], Awaitable[None]],
    rates: tuple[float, ...] = (),
) -> None:
    """Run the scenario with contenders. Afterwards a replica must lead, without any violation."""

    async def main() -> None:
        harness = LeaseFenceHarness(contenders, rates)
        tasks = [asyncio.create_task(replica.run()) for replica in harness.replicas]
        try:
            await steps(harness)
            harness.network.trouble = lambda _: None
            for replica in harness.replicas:
                replica.wake()
            await asyncio.sleep(90)
            assert harness.witness.wrong == []
            before = harness.witness.writes.total()
            await asyncio.sleep(10)
            assert harness.witness.writes.total() > before, "no replica acts without faults"
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    run(main)


def is_about_lease(request: OutgoingRequest) -> bool:
    return "/leases/" in request.target


@pytest.mark.parametrize("contenders", [2, 3])
class TestContenders:
    def test_replicas_that_start_together_do_not_alternate(self, contenders: int) -> None:
        async def steps(harness: LeaseFenceHarness) -> None:
            await asyncio.sleep(60)
            assert len(harness.witness.order) == 1

        contend(contenders, steps)

    @pytest.mark.parametrize("pause_s", [5, 11, 14, 16, 120])
    def test_a_suspended_write_checks_the_fence_when_it_resumes(
        self, contenders: int, pause_s: int
    ) -> None:
        async def steps(harness: LeaseFenceHarness) -> None:
            leader = await harness.leader()
            await asyncio.sleep(5)
            leader.sleep()
            await asyncio.sleep(pause_s)
            leader.wake()
            await asyncio.sleep(60)
            # No replica may take over within 15 s, and one must take over within 20 s.
            if pause_s < 15 or pause_s > 20:
                assert len(harness.witness.order) == (1 if pause_s < 15 else 2)

        contend(contenders, steps)

    @pytest.mark.parametrize("applied", [False, True])
    def test_renewals_that_are_lost_end_the_term_in_time(
        self, contenders: int, applied: bool
    ) -> None:
        async def steps(harness: LeaseFenceHarness) -> None:
            leader = await harness.leader()
            own = f'"{leader.number}-1"'.encode()

            def trouble(request: OutgoingRequest) -> Trouble | None:
                if is_about_lease(request) and own in request.body:
                    return Trouble(lost=not applied, answer_lost=applied)
                return None

            await asyncio.sleep(5)
            harness.network.trouble = trouble
            assert leader.elector is not None
            began_ns = harness.network.clock.monotonic_ns()
            await leader.elector.over.wait()
            took_s = (harness.network.clock.monotonic_ns() - began_ns) / SECOND
            assert 9 < took_s < 12.5
            assert leader.most_after_loss <= 1
            await asyncio.sleep(60)

        contend(contenders, steps)

    @pytest.mark.parametrize("server_s", [1, 4, 9, 30])
    def test_a_slow_server_executes_no_write_after_the_lease(
        self, contenders: int, server_s: int
    ) -> None:
        async def steps(harness: LeaseFenceHarness) -> None:
            leader = await harness.leader()
            await asyncio.sleep(5)
            dice = random.Random(server_s)

            def trouble(_: OutgoingRequest) -> Trouble:
                return Trouble(
                    server_ns=dice.randint(0, server_s * SECOND),
                    answer_ns=dice.randint(0, server_s * SECOND),
                )

            harness.network.trouble = trouble
            await asyncio.sleep(120)
            assert leader.most_after_loss <= 1

        contend(contenders, steps)

    def test_a_server_that_is_away_for_longer_than_the_lease(self, contenders: int) -> None:
        async def steps(harness: LeaseFenceHarness) -> None:
            await harness.leader()
            await asyncio.sleep(5)
            harness.network.go_down()
            await asyncio.sleep(20)
            harness.network.come_up()
            await asyncio.sleep(60)

        contend(contenders, steps)

    @pytest.mark.parametrize("offset_ns", [-HOUR, HOUR])
    def test_wall_clocks_that_jump_change_nothing_for_long(
        self, contenders: int, offset_ns: int
    ) -> None:
        async def steps(harness: LeaseFenceHarness) -> None:
            leader = await harness.leader()
            await asyncio.sleep(5)
            leader.clock.wall_offset_ns = offset_ns
            await asyncio.sleep(10)
            assert leader.elector is not None
            assert leader.elector.may_act()
            for replica in harness.replicas:
                replica.clock.wall_offset_ns = -offset_ns
            await asyncio.sleep(60)
            assert len(harness.witness.order) == 1

        contend(contenders, steps)


def test_a_write_that_waits_for_a_connection_is_not_sent_when_it_gets_one_too_late() -> None:
    async def steps(harness: LeaseFenceHarness) -> None:
        leader = await harness.leader()
        assert leader.elector is not None
        await asyncio.sleep(5)
        harness.network.trouble = lambda request: (
            Trouble(lost=True) if is_about_lease(request) else Trouble(queued_ns=8 * SECOND)
        )
        await asyncio.sleep(5.5)
        sent = len(harness.witness.order)
        leader.sleep()
        await asyncio.sleep(10)
        leader.wake()
        before = harness.network.count("POST", "/binding")
        await asyncio.sleep(2)
        assert harness.network.count("POST", "/binding") == before
        assert len(harness.witness.order) == sent

    contend(2, steps)


class NetworkFaults(msgspec.Struct, frozen=True):
    """Faults of the network and of one machine, for a given time."""

    seconds: float
    lost: float
    answer_lost: float
    slow: float
    longest_s: float
    stopped: int
    jump_s: int


fault_phases = st.lists(
    st.builds(
        NetworkFaults,
        seconds=st.floats(0.5, 40),
        lost=st.sampled_from([0.0, 0.1, 0.5, 1.0]),
        answer_lost=st.sampled_from([0.0, 0.1, 0.5]),
        slow=st.sampled_from([0.0, 0.3, 1.0]),
        longest_s=st.floats(0.1, 30),
        stopped=st.integers(-3, 2),  # negative: no replica stops
        jump_s=st.sampled_from([0, 0, -3600, 7, 3600]),
    ),
    min_size=2,
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(
    st.integers(2, 3),
    fault_phases,
    st.integers(0, 1 << 32),
    st.tuples(*[st.floats(0.95, 1.05)] * 3),
)
def test_a_write_takes_effect_only_while_its_sender_holds_the_lease(
    contenders: int, phases: list[NetworkFaults], seed: int, rates: tuple[float, ...]
) -> None:
    async def steps(harness: LeaseFenceHarness) -> None:
        dice = random.Random(seed)
        # A suspended replica may resume with all of its writes in flight, and send none of them.
        stopped = {faults.stopped for faults in phases}
        steady = [each for each in harness.replicas if each.number not in stopped]
        for faults in phases:
            harness.network.trouble = lambda _, w=faults: _trouble(w, dice)  # type: ignore[misc]
            for replica in harness.replicas:
                replica.clock.wall_offset_ns += faults.jump_s * SECOND * dice.randint(0, 1)
                replica.wake()
            if 0 <= faults.stopped < contenders:
                harness.replicas[faults.stopped].sleep()
            await asyncio.sleep(faults.seconds)
            assert all(replica.most_after_loss <= 1 for replica in steady)

    contend(contenders, steps, rates)


def _trouble(faults: NetworkFaults, dice: random.Random) -> Trouble:
    longest_ns = int(faults.longest_s * SECOND) if dice.random() < faults.slow else 0
    # The latency is below the margin of the fence; everything else may take any time.
    return Trouble(
        queued_ns=dice.randint(0, longest_ns),
        travel_ns=dice.randint(0, min(longest_ns, SECOND)),
        lost=dice.random() < faults.lost,
        server_ns=dice.randint(0, longest_ns),
        answer_ns=dice.randint(0, longest_ns),
        answer_lost=dice.random() < faults.answer_lost,
    )
