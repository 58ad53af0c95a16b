"""The fault injector: faults of requests, watches, the server, and the machines of schedulers."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse, TransportError
from kubesched.foundation.util.clock import MILLISECOND, SECOND
from tests.fault_injection.plan import Step
from tests.fault_injection.replica import Replica
from tests.foundation.client.wire_network import Mangled, Network, Trouble

__all__ = ["FaultInjector"]

_LOST = "connection lost"
_GARBAGE = (b"<html>502 Bad Gateway</html>", b'{"kind":"Pod","metad', b"[]", b"\xff\xfe\x00")
_GARBAGE_LINES = (b"<html>\n", b'{"type":"MODIFIED","object":{"kind":"Po\n', b"\x00\xff\n", b"7\n")


class FaultInjector:
    """Injects one kind of network fault at a time, and faults of machines beside it."""

    def __init__(
        self,
        network: Network,
        replicas: Sequence[Replica],
        restart: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`restart` restarts the server from its data file, if it has one."""
        self._network, self._replicas, self._restart = network, replicas, restart
        # Number of a replica -> how it ends at its next write.
        self._ending_at_write: dict[int, str] = {}
        # Number of a replica -> for how many seconds it pauses at its next write.
        self._pausing_at_write: dict[int, float] = {}
        # How often each fault took effect.
        self.faults: Counter[str] = Counter()

    def stop_faults(self) -> None:
        """End every fault: the server is up, the network is reliable, the machines run."""
        self._clear()
        self._ending_at_write.clear()
        self._pausing_at_write.clear()
        if not self._network.is_up:
            self._network.come_up()
        for replica in self._replicas:
            replica.clock.resume()

    def _clear(self) -> None:
        network = self._network
        network.trouble = lambda _: None
        network.mangle = lambda _, lines: lines
        network.skips, network.replays = False, 0

    def refuse(self, method: str, count: int) -> None:
        """Fail the next `count` requests of a method about pods; all other requests succeed."""
        left = count

        def refused(request: OutgoingRequest) -> Trouble | None:
            nonlocal left
            if left <= 0 or request.method != method or "/pods/" not in request.target:
                return None
            left -= 1
            trouble = _refusal(random.Random(left), "server errors", request)
            # The server answers a binding late before it refuses it.
            late_ns = 2 * SECOND if request.target.endswith("/binding") else 0
            return None if trouble is None else msgspec.structs.replace(trouble, answer_ns=late_ns)

        self._network.trouble = refused

    def intercept(self, trouble: Callable[[OutgoingRequest], Trouble | None] | None) -> None:
        """Decide what happens to each request; None: all succeed."""
        self._network.trouble = trouble or (lambda _: None)

    def forget_history(self) -> None:
        """Break all watches, and forget the history, so that they cannot be resumed."""
        self._network.compact()
        self._network.break_streams()

    def merge_events(self, is_on: bool) -> None:
        """Break all watches; from then on each skips to the last version of every object."""
        self._network.skips = is_on
        self._network.break_streams()

    def pause_leader(self) -> Callable[[], None]:
        """Pause the machine of the leader; the result ends the pause."""
        for replica in self._replicas:
            if replica.process is not None and replica.process.is_leading:
                replica.clock.awake.clear()
                return replica.clock.awake.set
        return lambda: None

    async def inject(self, step: Step) -> None:
        """Inject the fault of a step; it replaces the network fault before it."""
        rng, network = random.Random(step.number), self._network
        if step.what.startswith("replica") or step.what.startswith("clock"):
            self._inject_machine_fault(self._choose_replica(rng), step.what, rng)
            return
        if step.what == "server lags":
            self.faults[step.what] += 1
            network.usual = _latencies(rng)
            return
        self._clear()
        if step.what.startswith("watches"):
            self._inject_watch_fault(step.what, rng)
        elif step.what == "history gone":
            self.faults[step.what] += network.watches
            network.compact()
            network.break_streams()
        elif step.what == "server down":
            self.faults[step.what] += 1
            network.go_down()
            await asyncio.sleep(step.pause_s)
            if self._restart is not None:
                await self._restart()
            network.come_up(forgetful=rng.random() < 0.3)
        else:
            network.trouble = self._counted(step.what, _request_fault(step.what, rng))

    def _counted(
        self, what: str, trouble: Callable[[OutgoingRequest], Trouble | None]
    ) -> Callable[[OutgoingRequest], Trouble | None]:
        def counted(request: OutgoingRequest) -> Trouble | None:
            given = trouble(request)
            self.faults[what] += given is not None
            return given

        return counted

    # Machines

    def _choose_replica(self, rng: random.Random) -> Replica:
        """Choose a replica, in most cases the leader, which has more state to lose."""
        leaders = [each for each in self._replicas if each.process and each.process.is_leading]
        return rng.choice(leaders if leaders and rng.random() < 0.7 else self._replicas)

    def _inject_machine_fault(self, replica: Replica, what: str, rng: random.Random) -> None:
        loop = asyncio.get_running_loop()
        if what in ("clock jumps", "clock leaps") and replica.clock.is_suspended:
            # The clock of a suspended machine cannot be set. If its wall clock were set back during
            # the pause, neither of its clocks would show how long the pause was.
            return
        self.faults[what] += 1
        if what == "clock jumps":
            seconds = rng.choice([-3600, -60, -5, -1, 5, 60, 3600])
            replica.clock.wall_offset_ns += seconds * SECOND
        elif what == "clock leaps":
            seconds = rng.choice([-172_800, -21_600, -7_200, 7_200, 21_600, 172_800])
            replica.clock.wall_offset_ns += seconds * SECOND
        elif what == "replica pauses":
            self._pause(replica, rng.choice([0.5, 12, 40, 90, 180]))
        elif what == "replica suspends":
            replica.clock.suspend()
            # Mostly until shortly after the end of the lease.
            loop.call_later(replica.lease_s * rng.choice([0.7, 1.2, 1.5, 3]), replica.clock.resume)
        elif what == "replica pauses at a write":
            seconds = replica.lease_s * rng.choice([0.8, 1.4, 1.7, 3])
            self._pausing_at_write[self._replicas.index(replica)] = seconds
        elif what == "replica ends at a write":
            self._clear()
            longest_s = replica.lease_s * rng.uniform(0.1, 0.6)
            self._network.trouble = self._counted(what, _slow_writes(rng, longest_s))
            self._ending_at_write[self._replicas.index(replica)] = "ends"
        elif what == "replica ends":
            loop.call_later(rng.choice([0, 0.5, 3]), replica.end)
        else:
            when = rng.choice(["now", "soon", "sent", "applied"])
            if when == "now":
                replica.crash()
            elif when == "soon":
                loop.call_later(rng.uniform(0, 3), replica.crash)
            else:
                self._ending_at_write[self._replicas.index(replica)] = when

    def _pause(self, replica: Replica, seconds: float) -> None:
        replica.clock.awake.clear()
        asyncio.get_running_loop().call_later(seconds, replica.clock.awake.set)

    def on_connecting_request(self, name: str, request: OutgoingRequest) -> None:
        """Pause the machine of a write that waits for a connection, if a step requests it."""
        if not self._pausing_at_write or request.method == "GET" or name.startswith("lease "):
            return
        number = int(name.partition("-")[0])
        if (seconds := self._pausing_at_write.pop(number, 0)) > 0:
            self._pause(self._replicas[number], seconds)

    def on_request(self, name: str, request: OutgoingRequest, when: str) -> None:
        """End the sender of a write that was sent, or that took effect, if a step requests it."""
        number = name.partition("-")[0]
        if not self._ending_at_write or request.method == "GET" or name.startswith("lease "):
            return
        ending = self._ending_at_write.get(int(number))
        if ending == when:
            del self._ending_at_write[int(number)]
            self._replicas[int(number)].crash()
        elif ending == "ends" and when == "sent":
            del self._ending_at_write[int(number)]
            self._replicas[int(number)].end()

    # Watches

    def _inject_watch_fault(self, what: str, rng: random.Random) -> None:
        network = self._network
        if what in ("watches break", "watches end", "watches stall"):
            self.faults[what] += network.watches
        if what == "watches break":
            network.break_streams()
        elif what == "watches end":
            network.end_streams()
        elif what == "watches stall":
            network.stall_streams()
        elif what == "watches skip":
            network.skips = True
            network.break_streams()
        elif what == "watches replay":
            network.replays = rng.choice([1, 5, 50])
            network.break_streams()
        elif what == "watches cut":
            network.mangle = lambda _, lines: self._counted_mangling(what, lines, _cut(lines, rng))
        else:
            network.mangle = lambda _, lines: self._counted_mangling(
                what, lines, _garbled(lines, rng)
            )

    def _counted_mangling(self, what: str, lines: bytes, mangled: Mangled) -> Mangled:
        self.faults[what] += mangled is not lines
        return mangled


def _latencies(rng: random.Random) -> Callable[[OutgoingRequest], Trouble]:
    """Return the latencies of a busy server: most are short, a few are long, writes take longer."""
    longest_ms = rng.choice([50, 200, 1000])

    def usual(request: OutgoingRequest) -> Trouble:
        typical_ms = 2 if request.method == "GET" else 8
        server_ms = min(rng.lognormvariate(0, 1) * typical_ms, longest_ms)
        return Trouble(server_ns=int(server_ms * MILLISECOND))

    return usual


def _cut(lines: bytes, rng: random.Random) -> Mangled:
    """Break the connection of some watches, in some cases in the middle of a line."""
    roll = rng.random()
    if roll > 0.3:
        return lines
    error = TransportError(_LOST, "reset")
    return error if roll < 0.1 else (lines[: rng.randrange(len(lines))] or b"\n", error)


def _garbled(lines: bytes, rng: random.Random) -> Mangled:
    """Insert invalid bytes into some watches, and break the connection."""
    if rng.random() > 0.2:
        return lines
    whole = lines.splitlines(keepends=True)
    place = rng.randrange(len(whole) + 1)
    text = b"".join(whole[:place]) + rng.choice(_GARBAGE_LINES)
    return text, TransportError(_LOST, "reset")


# Requests


def _request_fault(what: str, rng: random.Random) -> Callable[[OutgoingRequest], Trouble | None]:
    share = rng.choice([0.1, 0.3, 0.6])

    def some(
        trouble: Callable[[OutgoingRequest], Trouble | None],
    ) -> Callable[[OutgoingRequest], Trouble | None]:
        return lambda request: trouble(request) if rng.random() < share else None

    if what == "requests lost":
        return some(lambda _: Trouble(lost=rng.random() < 0.5, answer_lost=True))
    if what == "requests slow":
        longest = rng.randint(1, 20)
        return lambda _: Trouble(
            travel_ns=rng.randint(1, 500) * MILLISECOND,
            server_ns=rng.randint(0, longest) * SECOND,
            answer_ns=rng.randint(0, longest) * SECOND,
        )
    if what == "requests hang":
        return some(lambda _: Trouble(stalls=True, lost=rng.random() < 0.5))
    if what == "requests repeated":
        return some(lambda _: Trouble(again_ns=rng.randint(1, 800) * MILLISECOND))
    if what == "requests reordered":
        return lambda _: Trouble(
            queued_ns=rng.randint(0, 500) * MILLISECOND,
            travel_ns=rng.randint(1, 1500) * MILLISECOND,
            answer_ns=rng.randint(0, 500) * MILLISECOND,
        )
    if what == "wrong content":
        return some(lambda _: _wrong_content(rng))
    return some(lambda request: _refusal(rng, what, request))


def _slow_writes(
    rng: random.Random, longest_s: float
) -> Callable[[OutgoingRequest], Trouble | None]:
    """Delay all writes but those of leases, so that another replica may take the lease."""

    def slow(request: OutgoingRequest) -> Trouble | None:
        if request.method == "GET" or "/leases" in request.target:
            return None
        return Trouble(server_ns=int(longest_s * rng.uniform(0.5, 1) * SECOND))

    return slow


def _wrong_content(rng: random.Random) -> Trouble:
    garbage = rng.choice(_GARBAGE)
    if rng.random() < 0.5:
        return Trouble(garbled=garbage)
    return Trouble(answer=ServerResponse(200, garbage))


def _refusal(rng: random.Random, what: str, request: OutgoingRequest) -> Trouble | None:
    code, reason, headers = 500, "InternalError", {}
    if what == "too many requests":
        code, reason = 429, "TooManyRequests"
        headers = {"Retry-After": rng.choice(["1", "1", "3", "soon", "0"])}
    elif what == "conflicts":
        if request.method in ("GET", "POST"):
            return None
        code, reason = 409, "Conflict"
    elif rng.random() < 0.5:
        code, reason = rng.choice([(503, "ServiceUnavailable"), (504, "Timeout"), (502, "")])
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code}
    text = json.dumps({**body, "reason": reason, "message": "injected"}).encode()
    return Trouble(answer=ServerResponse(code, text, headers))
