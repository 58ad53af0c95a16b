"""The number of operations per second of the scheduling queue, by its size.

    python -m benchmarks.queue [--sizes 1000,10000,100000] [--repeat 3]

Prints a JSON line per size: operations per second with that many pods waiting, best of several
runs. `moves` counts pods that an event takes out of the unschedulable ones, `idle_events` counts
events that concern none of them. Costs that grow with the size stand out: an operation at
100,000 pods should cost at most three times what it costs at 1,000.
"""

from __future__ import annotations

import gc
import json
import random
import time
from collections.abc import Callable, Sequence

import click
from msgspec.structs import replace

from kubesched.api import ObjectMeta, Pod, PodSpec
from kubesched.api.pod_facts import pod_key, pod_priority
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import ActionType, ClusterEvent, EventResource, QueuedPodInfo
from kubesched.scheduler.backend.queue import QueueProfile, RegisteredHint, SchedulingQueue

PROFILE = "default-scheduler"
NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
POD_DELETE = ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE)
START_NS = 1_700_000_000 * SECOND
IDLE_EVENTS = 10_000
# Small sizes are repeated until as many operations were measured as at this size.
ENOUGH_OPERATIONS = 20_000


class Pods:
    """A lister over a dict."""

    def __init__(self, pods: Sequence[Pod]) -> None:
        self._pods = {pod_key(pod): pod for pod in pods}

    def get(self, name: str, namespace: str | None = None) -> Pod | None:
        return self._pods.get(f"{namespace}/{name}")


def make_pods(count: int) -> list[Pod]:
    chance = random.Random(count)
    return [
        Pod(
            metadata=ObjectMeta(name=f"pod-{number}", namespace="default", uid=f"uid-{number}"),
            spec=PodSpec(scheduler_name=PROFILE, priority=chance.randrange(10)),
        )
        for number in range(count)
    ]


def by_priority(queued: QueuedPodInfo) -> tuple[int, int]:
    return (-pod_priority(queued.pod), queued.timestamp_ns)


def make_queue(pods: Sequence[Pod]) -> SchedulingQueue:
    hints = (
        RegisteredHint(NODE_ADD, "NodeResourcesFit"),
        RegisteredHint(ClusterEvent(EventResource.POD, ActionType.DELETE), "NodePorts"),
    )
    profile = QueueProfile(PROFILE, by_priority, hints=hints)
    return SchedulingQueue({PROFILE: profile}, lister=Pods(pods), random=random.Random(0))


class Stopwatch:
    """Nanoseconds spent and operations done, by name."""

    def __init__(self) -> None:
        self.spent_ns: dict[str, int] = {}
        self.operations: dict[str, int] = {}

    def measure(self, name: str, count: int, work: Callable[[], object]) -> None:
        started_ns = time.perf_counter_ns()
        work()
        elapsed_ns = time.perf_counter_ns() - started_ns
        self.spent_ns[name] = self.spent_ns.get(name, 0) + elapsed_ns
        self.operations[name] = self.operations.get(name, 0) + count

    def per_second(self) -> dict[str, int]:
        return {
            name: round(self.operations[name] * SECOND / spent_ns)
            for name, spent_ns in self.spent_ns.items()
        }


def run_once(pods: Sequence[Pod], watch: Stopwatch) -> None:
    """Add, pop, reject, requeue by an event, and delete all pods."""
    size = len(pods)
    queue = make_queue(pods)
    updated = [replace(pod, spec=replace(pod.spec, priority=5)) for pod in pods]
    popped: list[QueuedPodInfo] = []

    def add() -> None:
        for number, pod in enumerate(pods):
            queue.add(pod, START_NS + number)

    def update() -> None:
        for old, new in zip(pods, updated, strict=True):
            queue.update(old, new, START_NS)

    def pop() -> None:
        for _ in pods:
            queued = queue.pop(START_NS)
            assert queued is not None
            popped.append(queued)

    def fail() -> None:
        for number, queued in enumerate(popped):
            queued.unschedulable_plugins = {"NodeResourcesFit"}
            queue.add_unschedulable_if_not_present(queued, START_NS + number)

    def idle() -> None:
        for _ in range(IDLE_EVENTS):
            queue.move_all(POD_DELETE, None, None, START_NS)

    def move() -> None:
        moved = queue.move_all(NODE_ADD, None, None, START_NS + SECOND)
        assert moved == size

    def flush() -> None:
        assert queue.flush_backoff(START_NS + 5 * SECOND) == size

    def delete() -> None:
        for pod in updated:
            queue.delete(pod)

    for name, count, work in (
        ("adds", size, add),
        ("updates", size, update),
        ("pops", size, pop),
        ("requeues", size, fail),
        ("idle_events", IDLE_EVENTS, idle),
        ("moves", size, move),
        ("backoffs_ended", size, flush),
        ("deletes", size, delete),
    ):
        watch.measure(name, count, work)


def run_size(size: int, repeat: int) -> dict[str, int]:
    """Return operations per second with this many pods, the best of the repetitions."""
    pods = make_pods(size)
    best: dict[str, int] = {}
    for _ in range(repeat):
        watch = Stopwatch()
        # The cost of the garbage collector depends on all objects, not on the queue.
        gc.collect()
        gc.disable()
        try:
            for _ in range(max(1, ENOUGH_OPERATIONS // size)):
                run_once(pods, watch)
        finally:
            gc.enable()
        for name, rate in watch.per_second().items():
            best[name] = max(best.get(name, 0), rate)
    return best


@click.command()
@click.option("--sizes", default="1000,10000,100000", show_default=True, help="Pods, by comma.")
@click.option("--repeat", default=3, show_default=True, help="Runs to take the best of.")
def main(sizes: str, repeat: int) -> None:
    """Measure the scheduling queue."""
    for size in map(int, sizes.split(",")):
        click.echo(json.dumps({"pods": size, "per_second": run_size(size, repeat)}))


if __name__ == "__main__":
    main()
