"""Gangs: pods that are placed together, on one topology domain or anywhere.

    python -m benchmarks.gangs --nodes 5000 --pods 5000 --size 64 [--racks 100] [--victims 10000]

Times the group cycles of gangs that wait complete in the queue: collecting the members, the trial,
and assuming them with Reserve and Permit. Bindings are not sent. With `--racks` every gang must be
placed within one rack. With `--victims` the nodes are full of less important pods, and each gang
preempts; the victims stay. Prints one JSON line with the longest cycle.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any

import click
from msgspec.structs import replace

from benchmarks.engine_options import Case
from benchmarks.measuring import Spent, Stopwatch, rates, write_line
from benchmarks.workloads import make_node, make_pod
from kubesched.api import (
    GangSchedulingPolicy,
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodSchedulingGroup,
)
from kubesched.api.access import WatchEvent
from kubesched.api.scheduling import PodGroupSchedulingConstraints, TopologyConstraint
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.backend.pod_group_states import PodGroupStates
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["GangEngine", "time_gangs"]

SIZE = 64
RACK = "example.com/rack"
GATES = {"GenericWorkload": True, "GangScheduling": True}


class GangEngine:
    """A scheduler for groups whose parts are called directly."""

    def __init__(self, nodes: int, *, racks: int = 0, preempts: bool = False) -> None:
        gates = dict(GATES, TopologyAwareWorkloadScheduling=racks > 0)
        gates["WorkloadAwarePreemption"] = preempts
        clock = RealClock()
        self._api = LocalApi(Store(derive(0, "store")), clock)
        self._scheduler = Scheduler(self._api, clock, feature_gates=FeatureGates(gates))
        parts: Any = self._scheduler
        parts._start_binding = _drop
        self._groups: PodGroupStates = parts.cache.groups
        self._clock = clock
        self._racks = racks
        for number in range(nodes):
            node = make_node(number)
            if racks:
                node = _in_rack(node, f"rack-{number % racks}")
            self._scheduler.cache.add_node(node)
        self._scheduler.cache.update_snapshot()

    async def add_gang(self, name: str, pods: list[Pod]) -> None:
        """Add a PodGroup with its pods to the queue."""
        constraints = None
        if self._racks:
            constraints = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=RACK),))
        spec = PodGroupSpec(
            scheduling_policy=PodGroupSchedulingPolicy(
                gang=GangSchedulingPolicy(min_count=len(pods))
            ),
            scheduling_constraints=constraints,
        )
        metadata = ObjectMeta(name=name, namespace="default")
        self._put(await self._api.create(PodGroup(metadata=metadata, spec=spec)))
        group = PodSchedulingGroup(pod_group_name=name)
        members = [replace(pod, spec=replace(pod.spec, scheduling_group=group)) for pod in pods]
        for pod in members:
            self._put(pod)
            self._groups.add(pod)
        for pod in members:
            self._scheduler.queue.add(pod, self._clock.now_ns())

    def fill(self, count: int, nodes: int) -> None:
        """Fill the nodes with running pods."""
        for number in range(count):
            pod = make_pod(10_000_000 + number, "basic")
            spec = replace(pod.spec, node_name=f"node-{number % nodes:06d}", priority=-1)
            self._scheduler.cache.add_pod(replace(pod, spec=spec))
        self._scheduler.cache.update_snapshot()

    def run(self) -> list[float]:
        """Run group cycles until the queue is empty; return the seconds of each."""
        scheduler, spent = self._scheduler, []
        while (queued := scheduler.queue.pop(self._clock.now_ns())) is not None:
            started = time.process_time()
            scheduler.schedule_one(queued)
            spent.append(time.process_time() - started)
        return spent

    @property
    def placed(self) -> int:
        """The number of members that got a node."""
        return self._scheduler.cache.assumed_count

    def _put(self, stored: Any) -> None:
        lister = self._scheduler.informers.lister(type(stored))
        lister.apply(WatchEvent("ADDED", stored, ""))


def _drop(work: Coroutine[Any, Any, None], name: str) -> None:  # noqa: ARG001
    work.close()


def _in_rack(node: Node, rack: str) -> Node:
    labels = {**node.metadata.labels, RACK: rack}
    return replace(node, metadata=replace(node.metadata, labels=labels))


def time_gangs(case: Case) -> Spent:
    """Measure the group cycles of gangs of 64 pods."""
    return asyncio.run(_time_gangs(case))


async def _time_gangs(case: Case) -> Spent:
    engine = GangEngine(case.nodes)
    await add_gangs(engine, case.pods, SIZE)
    watch = Stopwatch()
    engine.run()
    spent = watch.spent()
    assert engine.placed == case.pods
    return spent


async def add_gangs(engine: GangEngine, pods: int, size: int) -> None:
    """Add gangs of this size until the number of pods is reached."""
    waiting = [make_pod(number, "basic") for number in range(pods)]
    for first in range(0, pods, size):
        await engine.add_gang(f"gang-{first}", waiting[first : first + size])


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=5000, show_default=True, help="In all gangs together.")
@click.option("--size", default=SIZE, show_default=True, help="Pods in a gang.")
@click.option("--racks", default=0, show_default=True, help="Topology domains; 0: anywhere.")
@click.option("--victims", default=0, show_default=True, help="Less important pods that run.")
def main(nodes: int, pods: int, size: int, racks: int, victims: int) -> None:
    asyncio.run(_measure(nodes, pods, size, racks, victims))


async def _measure(nodes: int, pods: int, size: int, racks: int, victims: int) -> None:
    engine = GangEngine(nodes, racks=racks, preempts=victims > 0)
    engine.fill(victims, nodes)
    await add_gangs(engine, pods, size)
    watch = Stopwatch()
    cycles = engine.run()
    spent = watch.spent()
    line = {"benchmark": "gangs", "nodes": nodes, "pods": pods, "size": size, "racks": racks}
    line |= {"victims": victims, "placed": engine.placed} | rates(pods, spent)
    write_line(line | {"longest_cycle_ms": round(1000 * max(cycles), 1)})


if __name__ == "__main__":
    main()
