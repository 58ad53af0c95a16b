"""The time without bindings while the replicas of a deployment are replaced, in virtual time.

Each replica is a whole `SchedulerProcess`; only its connections are replaced by a virtual network.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import LocalApi
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.lease_fence import LeaseFence
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MILLISECOND
from kubesched.foundation.util.loop_watchdog import LoopWatchdog
from kubesched.scheduler.process import scheduler_process
from kubesched.scheduler.process.process_setup import run_command_line
from kubesched.scheduler.process.scheduler_process import SchedulerProcess
from kubesched.testing import make_node, make_pod
from tests.foundation.client.wire_network import Network, Trouble

ARGV = ["--master=https://virtual:6443", "--secure-port=0", "--feature-gates=WatchListClient=true"]
CALM = Trouble(travel_ns=2 * MILLISECOND, answer_ns=2 * MILLISECOND)
FORBIDDEN = ServerResponse(
    403, b'{"kind":"Status","status":"Failure","reason":"Forbidden","code":403,"message":"no"}'
)
POD_EVERY_S = 0.1
STANDS_BY_S, LEADS_ALONE_S = 3.7, 5.0


class NetworkClients:
    """The clients of one process, in place of `ApiClients`."""

    def __init__(self, network: Network, identity: str) -> None:
        self._network, self._identity = network, identity

    def client(
        self, purpose: str, *, timeout_ns: int = 0, fence: LeaseFence | None = None
    ) -> HttpApi:
        name = f"{self._identity} writes" if fence is not None else f"{self._identity} {purpose}"
        return self._network.client(name, timeout_ns=timeout_ns, fence=fence)

    async def close(self) -> None:
        pass


class Rollout:
    """Replicas that are replaced one after another while pods arrive."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.network = Network()
        self.network.usual = self._weather
        self.network.on_applied = self._applied
        self.may_watch = True
        self.bound_s: list[float] = []
        self.wrong: list[str] = []
        self.codes: list[int] = []

    def _weather(self, request: OutgoingRequest) -> Trouble:
        if "/leases?" in request.target and not self.may_watch:
            return replace(CALM, answer=FORBIDDEN)
        return CALM

    @property
    def leader(self) -> str:
        lease = self.network.store.find("leases.coordination.k8s.io", "kube-system/kube-scheduler")
        assert lease is not None
        return str(lease["spec"].get("holderIdentity", "")).partition("_")[0]

    def _applied(self, name: str, request: OutgoingRequest, answer: ServerResponse) -> None:
        identity, _, purpose = name.partition(" ")
        if purpose in ("writes", "events") and request.method != "GET":
            if self.leader != identity:
                self.wrong.append(f"{request.method} {request.target} of {identity}")
            if "/binding" in request.target and answer.status == 201:
                self.bound_s.append(asyncio.get_running_loop().time())

    def process(self, identity: str) -> SchedulerProcess:
        clients: Any = NetworkClients(self.network, identity)
        self._monkeypatch.setattr(scheduler_process, "ApiClients", lambda *_: clients)
        inputs = run_command_line(ARGV, read_file=lambda _: b"", environment={}).process
        assert inputs is not None
        return SchedulerProcess(inputs, self.network.clock, int(identity[1:]), identity)

    async def pods_arrive(self) -> None:
        api = LocalApi(self.network.store, self.network.clock)
        for number in range(4):
            node = make_node(f"n{number}", cpu="640", pods=5000)
            await api.create(_new(node))
        number = 0
        while True:
            await api.create(_new(make_pod(f"p{number}", requests={"cpu": "1m"}, images=["i"])))
            number += 1
            await asyncio.sleep(POD_EVERY_S)

    async def roll(self, restarts: int) -> float:
        """Replace the leader `restarts` times; return the longest time without a binding."""
        arrivals = asyncio.create_task(self.pods_arrive())
        running: list[tuple[SchedulerProcess, asyncio.Task[int]]] = []
        try:
            for number in range(restarts + 2):
                process = self.process(f"r{number}")
                running.append((process, asyncio.create_task(process.run(), name=f"r{number}")))
                await asyncio.sleep(STANDS_BY_S)
                if number and number <= restarts:
                    leader = next(each for each in running if each[1].get_name() == self.leader)
                    leader[0].stop()
                    self.codes.append(await leader[1])
                    running.remove(leader)
                    await asyncio.sleep(LEADS_ALONE_S)
        finally:
            for process, task in running:
                process.stop()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
            arrivals.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await arrivals
        return max(b - a for a, b in zip(self.bound_s, self.bound_s[1:], strict=False))


def _new(found: Any) -> Node | Pod:
    made: Node | Pod = replace(found, metadata=replace(found.metadata, resource_version="", uid=""))
    return made


@pytest.fixture(autouse=True)
def no_watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    """Disable the thread that watches the real clock."""
    monkeypatch.setattr(LoopWatchdog, "_watch", lambda _: None)


def test_a_standby_binds_pods_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        rollout = Rollout(monkeypatch)
        gap_s = await rollout.roll(2)
        # Three requests take 12 ms: the release, and get and update of the next leader. Pods
        # arrive every 100 ms.
        assert gap_s < 0.2
        assert rollout.wrong == []
        assert rollout.codes == [0, 0]

    virtual_loop.run(main)


def test_a_standby_that_may_not_watch_the_lease_tries_every_retry_period(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def main() -> None:
        rollout = Rollout(monkeypatch)
        rollout.may_watch = False
        gap_s = await rollout.roll(2)
        assert 0.2 < gap_s < 4.5
        assert rollout.wrong == []
        assert rollout.codes == [0, 0]

    virtual_loop.run(main)
