"""How many pods per second are placed, without a network.

    python -m benchmarks.engine --nodes 5000 --pods 5000 --kind basic [--path loop]

`--path engine` (the default) times schedule_pod and assume for one pod after another, which is
what the reference's figure in the design counts. `--path loop` times the whole scheduler on the
embedded store: from created pods to bound ones, watch events, queue and binding included.
Prints one JSON line.
"""

from __future__ import annotations

import asyncio
import json
import time

import click

from benchmarks.workloads import KINDS, make_node, make_pod
from kubesched.api import Pod
from kubesched.apiserver.local import LocalApi
from kubesched.apiserver.store import Store
from kubesched.framework import CycleState, PodInfo
from kubesched.scheduler.algorithm import SchedulingAlgorithm
from kubesched.scheduler.scheduler import Scheduler
from kubesched.util.clock import RealClock
from kubesched.util.randomness import derive

_WARM_UP = 50


def time_engine(nodes: int, pods: int, kind: str) -> float:
    """Seconds to place the pods, one after another, on an otherwise empty cluster."""
    clock = RealClock()
    scheduler = Scheduler(LocalApi(Store(derive(0, "store")), clock), clock)
    cache = scheduler.cache
    for number in range(nodes):
        cache.add_node(make_node(number))
    framework = scheduler.profiles["default-scheduler"]
    algorithm = SchedulingAlgorithm(cache.snapshot, derive(0, "ties"))
    waiting = [PodInfo(make_pod(number, kind)) for number in range(pods + _WARM_UP)]

    def place(pod_info: PodInfo) -> None:
        cache.update_snapshot()
        result = algorithm.schedule_pod(framework, CycleState(), pod_info)
        cache.assume_pod(pod_info.placed_on(result.node_name))

    for pod_info in waiting[:_WARM_UP]:
        place(pod_info)
    start = time.perf_counter()
    for pod_info in waiting[_WARM_UP:]:
        place(pod_info)
    return time.perf_counter() - start


async def time_loop(nodes: int, pods: int, kind: str) -> float:
    """Seconds from the first created pod to the last bound one, all in process."""
    clock = RealClock()
    api = LocalApi(Store(derive(0, "store")), clock)
    for number in range(nodes):
        await api.create(make_node(number))
    scheduler = Scheduler(api, clock)
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    await scheduler.informers.wait_for_sync()
    created = await api.list(Pod)
    start = time.perf_counter()
    for number in range(pods):
        await api.create(make_pod(number, kind))
    bound = 0
    async for event in api.watch(Pod, resource_version=created.resource_version):
        if event.type == "MODIFIED" and event.object and event.object.spec.node_name:
            bound += 1
            if bound == pods:
                break
    elapsed = time.perf_counter() - start
    scheduler.stop()
    await running
    return elapsed


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=5000, show_default=True)
@click.option("--kind", type=click.Choice(KINDS), default="basic", show_default=True)
@click.option("--path", type=click.Choice(["engine", "loop"]), default="engine", show_default=True)
def main(nodes: int, pods: int, kind: str, path: str) -> None:
    if path == "engine":
        seconds = time_engine(nodes, pods, kind)
    else:
        seconds = asyncio.run(time_loop(nodes, pods, kind))
    line = {
        "benchmark": path,
        "kind": kind,
        "nodes": nodes,
        "pods": pods,
        "seconds": round(seconds, 3),
        "pods_per_s": round(pods / seconds, 1),
    }
    click.echo(json.dumps(line))


if __name__ == "__main__":
    main()
