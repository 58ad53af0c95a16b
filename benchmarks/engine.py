"""How many pods per second are placed, without a network.

    python -m benchmarks.engine --nodes 5000 --pods 5000 --kind basic [--path loop]

`--path engine` (the default) times schedule_pod and assume for one pod after another, which is
what the reference's figure in the design counts. `--path loop` is `benchmarks.loop`, the whole
scheduler on the embedded store. All nodes are scored. Prints one JSON line for each combination
of kinds, shapes, pods and nodes; `--plot` draws them.
"""

from __future__ import annotations

import click

from benchmarks.devices import time_devices
from benchmarks.engine_options import Case, Run, report, workload_options
from benchmarks.loop import time_loop
from benchmarks.measuring import Spent, Stopwatch
from benchmarks.workloads import DEVICES, make_node, make_pod
from kubesched.apiserver.local_api import LocalApi
from kubesched.apiserver.store.object_store import Store
from kubesched.framework import CycleState, PodInfo
from kubesched.scheduler.cached_search import CachedSearch
from kubesched.scheduler.scheduler import Scheduler
from kubesched.util.clock import RealClock
from kubesched.util.randomness import derive

__all__ = ["Engine", "time_engine"]

_WARM_UP = 50


class Engine:
    """Cache and algorithm of a scheduler with the default profile, and nothing around them."""

    def __init__(self) -> None:
        clock = RealClock()
        scheduler = Scheduler(LocalApi(Store(derive(0, "store")), clock), clock)
        self.cache = scheduler.cache
        self._framework = scheduler.profiles["default-scheduler"]
        self._algorithm = CachedSearch(self.cache.snapshot, derive(0, "ties"))

    def place(self, pod_info: PodInfo) -> str:
        """Choose a node for the pod and count it there; raises FitError."""
        self.cache.update_snapshot()
        result = self._algorithm.schedule_pod(self._framework, CycleState(), pod_info)
        self.cache.assume_pod(pod_info.placed_on(result.node_name))
        return result.node_name


def time_engine(case: Case) -> Spent:
    """What placing the pods takes, one after another, on an otherwise empty cluster.

    Kind dra is another story: see `benchmarks.devices`.
    """
    if case.kind == DEVICES:
        return time_devices(case)
    engine = Engine()
    for number in range(case.nodes):
        engine.cache.add_node(make_node(number))
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
    if path == "loop" and any(case.kind == DEVICES for case in run.cases):
        raise click.BadParameter(f"kind {DEVICES} is for the engine alone")
    report(path, time_engine if path == "engine" else time_loop, run)


if __name__ == "__main__":
    main()
