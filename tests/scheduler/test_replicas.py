"""Schedulers that contend for a lease under faults: one leads at a time, no pod is lost.

Each seed is a separate run on virtual time, with elections, informers, bindings and events over the
wire; a failure repeats from its seed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import LocalApi
from kubesched.foundation.client.leader_election import ElectionSettings, LeaderElector
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MILLISECOND, SECOND
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.foundation.client.wire_network import Machine, Network, Trouble

PODS = 60


class Replica:
    """Scheduler processes of one replica, restarted after each end."""

    def __init__(self, network: Network, number: int) -> None:
        self._network, self._number = network, number
        self._machine = Machine(network.clock)
        self.lives = 0

    async def run(self) -> None:
        while True:
            self.lives += 1
            await self._live(f"{self._number}-{self.lives}")
            await asyncio.sleep(1)

    async def _live(self, identity: str) -> None:
        clock, settings = self._network.clock, ElectionSettings(identity=identity)
        lease = self._network.client(
            f"lease {identity}", self._machine, timeout_ns=settings.request_timeout_ns
        )
        elector = LeaderElector(lease, clock, random.Random(identity), settings)
        api = self._network.client(identity, self._machine, fence=elector.fence)
        begins = asyncio.Event()
        scheduler = Scheduler(api, clock, seed=1, begins=begins, stream_lists=True)
        placing = asyncio.create_task(scheduler.run())
        leading = asyncio.create_task(elector.run())
        try:
            await elector.leading.wait()
            begins.set()
            await elector.over.wait()
            placing.cancel()
            await leading
        finally:
            for task in (placing, leading):
                task.cancel()
            await asyncio.gather(placing, leading, return_exceptions=True)


class ReplicaHarness:
    def __init__(self, seed: int, replicas: int) -> None:
        self.dice = random.Random(seed)
        self.network = Network()
        self.calm = LocalApi(self.network.store, self.network.clock)
        self.replicas = [Replica(self.network, number) for number in range(replicas)]
        self.bound: Counter[str] = Counter()
        self.actors: set[str] = set()
        self.wrong: list[str] = []
        self.network.on_applied = self._saw

    def _saw(self, name: str, request: OutgoingRequest, answer: ServerResponse) -> None:
        if name.startswith("lease "):
            return
        if request.method != "GET":
            lease = self.network.store.find(
                "leases.coordination.k8s.io", "kube-system/kube-scheduler"
            )
            holder = None if lease is None else lease["spec"].get("holderIdentity")
            if holder != name:
                self.wrong.append(f"{request.method} {request.target} of {name}, not {holder!r}")
            self.actors.add(name)
        if "/binding" in request.target and answer.status == 201:
            self.bound[request.target.partition("?")[0]] += 1

    async def create(self, new: Node | Pod) -> None:
        await self.calm.create(
            replace(new, metadata=replace(new.metadata, resource_version="", uid=""))
        )

    async def have_weather(self) -> None:
        """Inject one fault after another, each for some time."""
        dice, network = self.dice, self.network
        match dice.randrange(6):
            case 0:
                network.go_down()
            case 1:
                network.compact()
                network.break_streams()
            case 2:
                network.stall_streams()
            case _:
                share, longest_ns = dice.choice([0.1, 0.3, 0.9]), dice.randint(0, 20) * SECOND
                network.trouble = lambda _: _trouble(dice, share, longest_ns)
        await asyncio.sleep(dice.uniform(1, 25))
        network.trouble = lambda _: None
        network.come_up(forgetful=dice.random() < 0.3)


def _trouble(dice: random.Random, share: float, longest_ns: int) -> Trouble:
    if dice.random() > share:
        return Trouble()
    return Trouble(
        refused=dice.random() < 0.2,
        queued_ns=dice.randint(0, longest_ns),
        travel_ns=dice.randint(1, 500) * MILLISECOND,
        lost=dice.random() < 0.2,
        server_ns=dice.randint(0, longest_ns),
        answer_ns=dice.randint(0, longest_ns),
        answer_lost=dice.random() < 0.2,
    )


@pytest.mark.parametrize("replicas", [2, 3])
@pytest.mark.parametrize("seed", range(1, 6))  # in the history of seed 0 no replica takes over
def test_every_pod_is_bound_once_by_the_leader(seed: int, replicas: int) -> None:
    async def main() -> None:
        harness = ReplicaHarness(seed, replicas)
        for number in range(4):
            await harness.create(make_node(f"n{number}", cpu="8"))
        tasks = [asyncio.create_task(replica.run()) for replica in harness.replicas]
        try:
            for number in range(PODS):
                await harness.create(make_pod(f"p{number}", requests={"cpu": "10m"}, images=["i"]))
                if number % 6 == 0:
                    await harness.have_weather()
            await asyncio.sleep(700)  # watches that stall are detected within ten minutes
            assert harness.wrong == []
            pods = (await harness.calm.list(Pod)).items
            assert [pod.metadata.name for pod in pods if not pod.spec.node_name] == []
            assert len(harness.bound) == PODS
            assert set(harness.bound.values()) == {1}
            assert len(harness.actors) > 1, "no replica ever took over"
        finally:
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert [each for each in ended if not isinstance(each, asyncio.CancelledError)] == []

    virtual_loop.run(main, seed=seed)
