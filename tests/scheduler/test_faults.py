"""Random failures of the API server, on virtual time: no pod is lost, none is bound twice.

Each seed is a separate run with refused and slow requests, lost responses and broken watches; a
failure repeats from its seed.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.api import Status as ApiStatus
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.local_api import Fault, LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.nodes.kubelet import FakeKubelet
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import MILLISECOND, Clock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod

NODES, PODS = 4, 30
TROUBLE_S, CALM_S = 60, 400


class RandomFaults:
    """While `is_on`, a share of the requests fails in some way."""

    def __init__(self, rng: random.Random) -> None:
        self._random = rng
        self.is_on = True

    def __call__(self, verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
        if not self.is_on or self._random.random() > 0.25:
            return None
        code, reason = self._random.choice(
            [(503, "ServiceUnavailable"), (500, "InternalError"), (429, "TooManyRequests"), (0, "")]
        )
        if verb == "watch":
            code, reason = self._random.choice([(410, "Expired"), (code, reason)])
        error = ApiError(ApiStatus(code=code, reason=reason, message=f"injected {code}"))
        match self._random.randrange(3):
            case 0:
                return Fault(delay_ns=self._random.randrange(2000) * MILLISECOND)
            case 1 if verb in ("bind", "patch", "create"):
                return Fault(error=error, answer_lost=True)
            case _:
                return Fault(error=error)


async def create(api: LocalApi, new: Node | Pod) -> Any:
    metadata = replace(new.metadata, resource_version="", uid="")
    return await api.create(replace(new, metadata=metadata))


async def watch_bindings(api: LocalApi, bound: Counter[str]) -> None:
    """Count how often each pod (by uid) was bound."""
    seen: dict[str, str] = {}
    async for event in api.watch(Pod, resource_version="0"):
        pod = event.object
        if pod is None or not pod.spec.node_name:
            continue
        uid = pod.metadata.uid
        if seen.get(uid) != pod.spec.node_name:
            bound[uid] += 1
        seen[uid] = pod.spec.node_name


async def churn(api: LocalApi, clock: Clock, rng: random.Random) -> None:
    """Create and delete pods and nodes while faults are injected."""
    for number in range(PODS):
        cpu = rng.choice(["100m", "500m", "1"])
        image = ["registry.example/app:v1"]
        await create(api, make_pod(f"p{number}", requests={"cpu": cpu}, images=image))
        await asyncio.sleep(rng.random() * 2)
        if rng.random() < 0.15:
            victim = f"p{rng.randrange(number + 1)}"
            try:
                await api.delete(Pod, victim, "default", grace_period_seconds=0)
            except ApiError as error:
                if error.code != 404:
                    raise
        if rng.random() < 0.1:
            await create(api, make_node(f"late-{number}", cpu="2"))


async def run_seed(seed: int) -> None:
    rng = derive(seed, "faults")
    clock = current_clock()
    store = Store(derive(seed, "store"), now_ns=clock.now_ns())
    calm = LocalApi(store, clock)
    faults = RandomFaults(rng)
    troubled = LocalApi(store, clock, faults=faults)
    for number in range(NODES):
        await create(calm, make_node(f"n{number}", cpu="8"))
    scheduler = Scheduler(troubled, clock, seed=seed)
    bound: Counter[str] = Counter()
    watcher = asyncio.create_task(watch_bindings(calm, bound))
    async with running(FakeKubelet(calm, clock), scheduler):
        await asyncio.wait_for(churn(calm, clock, rng), 1000)
        await asyncio.sleep(TROUBLE_S)
        faults.is_on = False
        await asyncio.sleep(CALM_S)
        pods = (await calm.list(Pod)).items
        assert [pod.metadata.name for pod in pods if not pod.spec.node_name] == []
        assert [uid for uid, times in bound.items() if times > 1] == []
        scheduler.cache.check_invariants()
        scheduler.queue.check_invariants()
        assert scheduler.cache.assumed_count == 0
        assert scheduler.cache.pod_count == len(pods)
        assert scheduler.queue.pending_pods()[0] == []
    watcher.cancel()


@pytest.mark.parametrize("seed", range(12))
def test_every_pod_is_bound_once_whatever_the_server_does(seed: int) -> None:
    virtual_loop.run(lambda: run_seed(seed), seed=seed)
