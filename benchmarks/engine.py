"""The number of pods placed per second, without a network.

    python -m benchmarks.engine --nodes 5000 --pods 5000 --kind basic [--path loop]

`--path engine` (the default) times schedule_pod and assume for one pod after another, which is
what the reference's figure in the design counts. `--path loop` is `benchmarks.loop`, the whole
scheduler on the embedded store. All nodes are scored. Prints one JSON line for each combination
of kinds, shapes, pods and nodes; `--plot` draws them.
"""

from __future__ import annotations

from typing import Any

import click

from benchmarks.contrib import time_contrib
from benchmarks.devices import time_devices
from benchmarks.engine_options import Case, Run, report, workload_options
from benchmarks.gangs import time_gangs
from benchmarks.loop import time_loop
from benchmarks.measuring import Spent, Stopwatch
from benchmarks.volumes import volume_objects, written_objects
from benchmarks.workloads import (
    CONTRIB_KINDS,
    DEVICES,
    ENGINE_KINDS,
    GANGS,
    VOLUME_KINDS,
    make_node,
    make_pod,
)
from kubesched.api.access import WatchEvent
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.framework import CycleState, PodInfo
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.search.cached_search import CachedSearch

__all__ = ["Engine", "time_engine"]

_WARM_UP = 50


class Engine:
    """The cache and the search of a scheduler with the default profile."""

    def __init__(self) -> None:
        clock = RealClock()
        self._scheduler = scheduler = Scheduler(LocalApi(Store(derive(0, "store")), clock), clock)
        self.cache = scheduler.cache
        self._version = 1
        self._framework = scheduler.profiles["default-scheduler"]
        self._algorithm = CachedSearch(self.cache.snapshot, derive(0, "ties"))

    def place(self, pod_info: PodInfo) -> str:
        """Choose a node for the pod and count it there; raises FitError."""
        self.cache.update_snapshot()
        state = CycleState()
        result = self._algorithm.schedule_pod(self._framework, state, pod_info)
        placed = pod_info.placed_on(result.node_name)
        self.cache.assume_pod(placed)
        if pod_info.pod.spec.volumes:
            self._reserve(state, placed, result.node_name)
        return result.node_name

    def put(self, stored: Any) -> None:
        """Show an object to the plugins, as if it had been watched."""
        event = WatchEvent("MODIFIED", stored, stored.metadata.resource_version)
        self._scheduler.informers.lister(type(stored)).apply(event)
        self._scheduler.services.object_versions.changed(type(stored))

    def _reserve(self, state: CycleState, placed: PodInfo, node_name: str) -> None:
        """Run Reserve, and apply the writes of PreBind as changed objects."""
        status = self._framework.binding.run_reserve(state, placed.pod, node_name)
        assert status.is_success, status
        for written in written_objects(state, self._next_version):
            self.put(written)

    def _next_version(self) -> str:
        self._version += 1
        return str(self._version)


def time_engine(case: Case) -> Spent:
    """Measure placing the pods one after another on an otherwise empty cluster.

    `benchmarks.devices` measures the kind dra, `benchmarks.gangs` the kind gangs, and
    `benchmarks.contrib` the kinds of optional plugins.
    """
    if case.kind == GANGS:
        return time_gangs(case)
    if case.kind == DEVICES:
        return time_devices(case)
    if case.kind in CONTRIB_KINDS:
        return time_contrib(case)
    engine = Engine()
    for number in range(case.nodes):
        engine.cache.add_node(make_node(number))
    if case.kind in VOLUME_KINDS:
        for each in volume_objects(case.kind, case.nodes, case.pods + _WARM_UP):
            engine.put(each)
    waiting = [
        PodInfo(make_pod(number, case.kind, case.shapes)) for number in range(case.pods + _WARM_UP)
    ]
    for pod_info in waiting[:_WARM_UP]:
        engine.place(pod_info)
    watch = Stopwatch()
    for pod_info in waiting[_WARM_UP:]:
        engine.place(pod_info)
    return watch.spent()


@click.command(help=__doc__)
@workload_options
@click.option("--path", type=click.Choice(["engine", "loop"]), default="engine", show_default=True)
def main(run: Run, path: str) -> None:
    alone = sorted({case.kind for case in run.cases} & {*ENGINE_KINDS, *CONTRIB_KINDS})
    if path == "loop" and alone:
        raise click.BadParameter(f"kind {alone[0]} is for the engine alone")
    report(path, time_engine if path == "engine" else time_loop, run)


if __name__ == "__main__":
    main()
