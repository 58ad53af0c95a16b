"""The number of pods that the whole scheduler places per second, in one process, no network.

    python -m benchmarks.loop --nodes 5000 --pods 5000 --kind basic [--repeat 3] [--plot FILE]

From the first created pod to the last bound one: the embedded store, watch events, queue,
scheduling and binding. The store's own share (defaulting, validation, watch) is included. The
garbage collector is set up as `kubesched up` and `run` do it.
Prints one JSON line per combination; see `benchmarks.engine` for the options.
"""

from __future__ import annotations

import asyncio

import click

from benchmarks.engine_options import Case, Run, report, workload_options
from benchmarks.measuring import Spent, Stopwatch
from benchmarks.workloads import make_node, make_pod
from kubesched.api import Pod
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["all_bound", "time_loop"]


def time_loop(case: Case) -> Spent:
    """Measure from the first created pod to the last bound one."""
    return asyncio.run(_time_loop(case))


async def _time_loop(case: Case) -> Spent:
    clock = RealClock()
    api = LocalApi(Store(derive(0, "store")), clock)
    for number in range(case.nodes):
        await api.create(make_node(number))
    scheduler = Scheduler(api, clock)
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    await scheduler.informers.wait_for_sync()
    settle_collector()
    waiting = [make_pod(number, case.kind, case.shapes) for number in range(case.pods)]
    before = await api.list(Pod)
    watch = Stopwatch()
    for pod in waiting:
        await api.create(pod)
    await all_bound(api, before.resource_version, case.pods)
    spent = watch.spent()
    scheduler.stop()
    await running
    return spent


async def all_bound(api: LocalApi, resource_version: str, pods: int) -> None:
    """Wait until this many pods have been bound since a resource version."""
    bound = 0
    async for event in api.watch(Pod, resource_version=resource_version):
        if event.type == "MODIFIED" and event.object and event.object.spec.node_name:
            bound += 1
            if bound == pods:
                return


@click.command(help=__doc__)
@workload_options
def main(run: Run) -> None:
    report("loop", time_loop, run)


if __name__ == "__main__":
    main()
