"""The number of pods placed per second by preemption, in one process without a network.

    python -m benchmarks.preemption --nodes 5000 [--pods 1000] [--victims 4] [--grace 30]

Every node is full of low-priority pods (as in the reference's PreemptionBasic: four of 900m on
4 CPUs, of which three must go); then pods of high priority arrive. Counted is the time from the
first created to the last bound one, with the whole scheduler on the embedded store: both
attempts, evictions, watch events, queue and binding. The garbage collector is set up as in a
process of the scheduler. `--grace` lets victims take so many seconds of virtual time to end, so
that nominations pile up; only processor time means something then.

Prints one JSON line. `preemption_ms` is what one attempt took that chose victims.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import click

from benchmarks.measuring import Spent, Stopwatch, percentile, rates, write_line
from benchmarks.workloads import make_node
from kubesched.api import ObjectMeta, Pod, PriorityClass
from kubesched.api.codec import from_builtins
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, Clock, current_clock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.framework import QueuedPodInfo
from kubesched.scheduler.scheduler import Scheduler

_CPU_OF_NODE = 4000
_MEMORY = "500Mi"
_HIGH = PriorityClass(metadata=ObjectMeta(name="high"), value=10)


def make_resident(node: int, number: int, per_node: int, grace_s: int) -> Pod:
    """Make one of the pods that fill a node."""
    spec = {
        "nodeName": f"node-{node:06d}",
        "priority": 0,
        "terminationGracePeriodSeconds": grace_s,
    }
    return _pod(f"low-{node:06d}-{number:03d}", _share(per_node), spec)


def make_preemptor(number: int, per_node: int) -> Pod:
    """Make a pod that fits a node when all but one of its pods are evicted."""
    share = _share(per_node)
    cpu = max(share, _CPU_OF_NODE - share - 100)
    return _pod(f"high-{number:06d}", cpu, {"priorityClassName": _HIGH.metadata.name})


def _share(per_node: int) -> int:
    return _CPU_OF_NODE * 9 // (10 * per_node)


def _pod(name: str, cpu: int, spec: dict[str, Any]) -> Pod:
    requests = {"cpu": f"{cpu}m", "memory": _MEMORY}
    container = {"name": "c", "image": "registry.example/pause:3"}
    document = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "schedulerName": "default-scheduler",
            "containers": [{**container, "resources": {"requests": requests}}],
            **spec,
        },
    }
    return from_builtins(document, Pod)


class Attempts:
    """Times the attempts that end in a preemption."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.preempting_ms: list[float] = []
        self._counter = scheduler.services.metrics.preemption_victims
        self._schedule_one: Callable[[QueuedPodInfo], bool] = scheduler.schedule_one
        scheduler.schedule_one = self._timed  # type: ignore[method-assign]

    def _timed(self, queued: QueuedPodInfo) -> bool:
        before = self._counter.count
        started_ns = time.perf_counter_ns()
        is_placed = self._schedule_one(queued)
        if self._counter.count != before:
            self.preempting_ms.append((time.perf_counter_ns() - started_ns) / 1e6)
        return is_placed


async def preempt(
    nodes: int, pods: int, per_node: int, grace_s: int, clock: Clock
) -> tuple[Spent, Attempts]:
    api = LocalApi(Store(derive(0, "store"), now_ns=clock.now_ns()), clock)
    await api.create(_HIGH)
    for node in range(nodes):
        await api.create(make_node(node))
        for number in range(per_node):
            await api.create(make_resident(node, number, per_node, grace_s))
    scheduler = Scheduler(api, clock)
    attempts = Attempts(scheduler)
    kubelet = FakeKubelet(api, clock, stop_delay_ns=grace_s * SECOND)
    async with running(scheduler, *([kubelet] if grace_s else [])):
        await scheduler.informers.wait_for_sync()
        await clock.sleep(SECOND)
        settle_collector()
        version = (await api.list(Pod)).resource_version
        preemptors = [make_preemptor(number, per_node) for number in range(pods)]
        watch = Stopwatch()
        for pod in preemptors:
            await api.create(pod)
        await _all_bound(api, version, {pod.metadata.name for pod in preemptors})
        return watch.spent(), attempts


async def _all_bound(api: LocalApi, resource_version: str, names: set[str]) -> None:
    async for event in api.watch(Pod, resource_version=resource_version):
        if event.object is not None and event.object.spec.node_name:
            names.discard(event.object.metadata.name)
            if not names:
                return


@click.command(help=__doc__)
@click.option("--nodes", default=5000, show_default=True)
@click.option("--pods", default=1000, show_default=True, help="Pods that preempt others.")
@click.option("--victims", "per_node", default=4, show_default=True, help="Pods on every node.")
@click.option("--grace", "grace_s", default=0, show_default=True, help="Seconds a victim takes.")
def main(nodes: int, pods: int, per_node: int, grace_s: int) -> None:
    async def measure() -> tuple[Spent, Attempts]:
        return await preempt(nodes, pods, per_node, grace_s, current_clock())

    spent, attempts = virtual_loop.run(measure) if grace_s else asyncio.run(measure())
    times = attempts.preempting_ms
    write_line(
        {
            "benchmark": "preemption",
            "nodes": nodes,
            "pods": pods,
            "pods_per_node": per_node,
            "grace_s": grace_s,
            **rates(pods, spent),
            "preemptions": len(times),
            "preemption_ms": {
                "p50": round(percentile(times, 50), 3),
                "p99": round(percentile(times, 99), 3),
                "max": round(max(times, default=0.0), 3),
            },
        }
    )


if __name__ == "__main__":
    main()
