"""Preemption while the API server fails, on virtual time.

Pods of all priorities are created and deleted on a cluster that is too small for them. At no time
is a node overcommitted, or a pod evicted without a preemptor of higher priority. After the faults
end, every pending pod has a reason. A failure repeats from its seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from msgspec.structs import replace

from kubesched.api import Node, ObjectMeta, Pod, PriorityClass
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, Clock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.framework import PodInfo
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.scheduler.test_faults import RandomFaults

NODES, PODS = 3, 40
TROUBLE_S, CALM_S = 120, 900
CLASSES = {"low": 0, "mid": 50, "high": 100}


class CheckedFaults(RandomFaults):
    """Checks every request of the scheduler before a fault is injected."""

    def __init__(self, rng: random.Random, store: Store) -> None:
        super().__init__(rng)
        self._store = store
        self.evicted: list[str] = []

    def __call__(self, verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
        if (verb, kind) == ("delete", "Pod"):
            self._check_eviction(namespace, name)
        fault = super().__call__(verb, kind, namespace, name)
        if fault is not None and fault.answer_lost and verb == "bind":
            # A binding without a watch event lets any scheduler use the room twice.
            return Fault(error=fault.error)
        return fault

    def _check_eviction(self, namespace: str | None, name: str) -> None:
        pods = self._store.catalog.by_type(Pod)
        try:
            victim = self._store.get(pods, namespace, name).typed
        except ApiError:
            return
        self.evicted.append(name)
        waiting = [
            record.typed.spec.priority
            for record in self._store.list(pods).records
            if not record.typed.spec.node_name
        ]
        assert max(waiting, default=-1) > victim.spec.priority, f"no waiting pod outranks {name}"


async def create(api: LocalApi, new: Pod | Node | PriorityClass) -> None:
    metadata = replace(new.metadata, resource_version="", uid="")
    await api.create(replace(new, metadata=metadata))


async def churn(api: LocalApi, clock: Clock, rng: random.Random) -> None:
    for number in range(PODS):
        pod = make_pod(
            f"p{number}",
            images=["registry.example/app:v1"],
            requests={"cpu": rng.choice(("500m", "1", "2", "3"))},
            termination_grace_period_seconds=rng.choice((0, 0, 5, 30)),
        )
        spec = replace(pod.spec, priority_class_name=rng.choice(list(CLASSES)))
        await create(api, replace(pod, spec=spec))
        if number > 5 and rng.random() < 0.3:
            with contextlib.suppress(ApiError):  # it may be deleted
                await api.delete(Pod, f"p{rng.randrange(number)}", "default")
        if rng.random() < 0.05:
            await create(api, make_node(f"extra-{number}", cpu="2"))
        await clock.sleep(rng.randrange(2 * TROUBLE_S // PODS) * SECOND)


def cpu(pod: Pod) -> int:
    return PodInfo(pod).requested.milli_cpu


async def by_node(api: LocalApi) -> tuple[dict[str, int], dict[str, list[Pod]], list[Pod]]:
    nodes = {
        node.metadata.name: int(str(node.status.allocatable["cpu"])) * 1000
        for node in (await api.list(Node)).items
    }
    placed: dict[str, list[Pod]] = {name: [] for name in nodes}
    waiting = []
    for pod in (await api.list(Pod)).items:
        if pod.spec.node_name:
            placed[pod.spec.node_name].append(pod)
        else:
            waiting.append(pod)
    return nodes, placed, waiting


async def watch_nodes(api: LocalApi, clock: Clock) -> None:
    while True:
        nodes, placed, _ = await by_node(api)
        for name, pods in placed.items():
            assert sum(map(cpu, pods)) <= nodes[name], f"{name} is overcommitted"
        await clock.sleep(SECOND)


async def scenario(seed: int) -> int:
    clock, rng = current_clock(), derive(seed, "test")
    store = Store(derive(seed, "store"), now_ns=clock.now_ns())
    api, watchman = LocalApi(store, clock), CheckedFaults(derive(seed, "faults"), store)
    for name, value in CLASSES.items():
        await create(api, PriorityClass(metadata=ObjectMeta(name=name), value=value))
    for number in range(NODES):
        await create(api, make_node(f"n{number}", cpu="4"))
    scheduler = Scheduler(LocalApi(store, clock, faults=watchman), clock, seed=seed)
    kubelet = FakeKubelet(api, clock, stop_delay_ns=3600 * SECOND)
    async with running(kubelet, scheduler), asyncio.TaskGroup() as tasks:
        observing = tasks.create_task(watch_nodes(api, clock))
        await churn(api, clock, rng)
        watchman.is_on = False
        await clock.sleep(CALM_S * SECOND)
        observing.cancel()
        scheduler.cache.check_invariants()
        scheduler.queue.check_invariants()
        await check_that_waiting_has_a_reason(api)
    return len(watchman.evicted)


async def check_that_waiting_has_a_reason(api: LocalApi) -> None:
    nodes, placed, waiting = await by_node(api)
    for pod in waiting:
        assert pod.metadata.deletion_timestamp is None, "a pod that waits is deleted at once"
        for name, pods in placed.items():
            priority = pod.spec.priority or 0
            above = [other for other in pods if (other.spec.priority or 0) >= priority]
            left = nodes[name] - sum(map(cpu, above))
            assert left < cpu(pod), f"{pod.metadata.name} could have {name}"


@pytest.mark.parametrize("seed", range(12))
def test_preemption_survives_an_api_server_in_trouble(seed: int) -> None:
    virtual_loop.run(lambda: scenario(seed))


def test_the_scenarios_have_evictions() -> None:
    assert sum(virtual_loop.run(lambda seed=seed: scenario(seed)) for seed in (100, 101)) > 5
