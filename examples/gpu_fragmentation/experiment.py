"""One run: the unmodified scheduler fills a cluster with pods that never end."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from examples.gpu_fragmentation.arrivals import arrivals
from examples.gpu_fragmentation.devices import GPU_COUNT, GPU_INDEX, GPU_MILLI, GPU_MODEL
from examples.gpu_fragmentation.fragmentation import TypicalPod, TypicalPods, typical_pods
from examples.gpu_fragmentation.measures import Curves, Placed, curves
from examples.gpu_fragmentation.policies import POLICIES
from examples.gpu_fragmentation.trace import (
    DEVICE_MILLI,
    GpuNode,
    GpuPod,
    read_nodes,
    read_pods,
)
from kubesched.api import (
    Container,
    Node,
    NodeStatus,
    ObjectMeta,
    Pod,
    PodSpec,
    ResourceRequirements,
)
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.types import BY_NAME
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["Outcome", "Trace", "profile_of", "run"]

ARRIVING = 1.3  # requests at the end of a run, relative to the cluster's GPU
_MAX_PODS = 1001
_SETTLED_NS = 30 * SECOND  # long enough to place them all, and too short for a retry


class Trace(NamedTuple):
    """A cluster, and the pods that it has to expect."""

    nodes: list[GpuNode]
    pods: list[GpuPod]
    typical: list[TypicalPod]

    @classmethod
    def read(cls, folder: Path, workload: str) -> Trace:
        pods = read_pods(folder, workload)
        nodes = sorted(read_nodes(folder), key=lambda node: node.name)
        return cls(nodes, pods, typical_pods(pods))


class Outcome(NamedTuple):
    """What became of the pods, in the order of their arrival."""

    pods: list[GpuPod]
    placed: list[Placed | None]
    curves: Curves


def run(trace: Trace, policy: str, seed: int, *, tie_break: str = BY_NAME) -> Outcome:
    """Place the pods of the trace with a policy, in the order of the seed."""
    nodes = trace.nodes
    target = ARRIVING * sum(node.devices for node in nodes) * DEVICE_MILLI
    arriving = arrivals(trace.pods, len(nodes), target, seed)
    # Names begin with the rank, because names decide between equal nodes.
    names = [f"{rank:04}-{node.name}" for rank, node in zip(arriving.ranks, nodes, strict=True)]

    async def main() -> list[Placed | None]:
        clock = current_clock()
        api = LocalApi(Store(derive(seed, "store"), now_ns=clock.now_ns()), clock)
        for name, node in zip(names, nodes, strict=True):
            await api.create(_node(name, node))
        scheduler = Scheduler(
            api,
            clock,
            profiles=[profile_of(policy, trace.typical, tie_break)],
            out_of_tree_registry={plugin.name: plugin for plugin in POLICIES.values()},
            seed=seed,
        )
        async with running(scheduler):
            await scheduler.informers.wait_for_sync()
            for number, pod in enumerate(arriving.pods):
                await api.create(_pod(f"{number:05}-{pod.name}", pod))
            await clock.sleep(_SETTLED_NS)
        places = {name: place for place, name in enumerate(names)}
        found = sorted((await api.list(Pod)).items, key=lambda pod: pod.metadata.name)
        return [_placed(pod, places) for pod in found]

    placed = virtual_loop.run(main, seed=seed)
    measured = curves(nodes, arriving.pods, placed, TypicalPods(trace.typical))
    return Outcome(arriving.pods, placed, measured)


def profile_of(
    policy: str, typical: Sequence[TypicalPod], tie_break: str = BY_NAME
) -> dict[str, Any]:
    """A profile whose only score is the policy's, in the form of the configuration file."""
    plugin = POLICIES[policy]
    args = {"typicalPods": [msgspec.to_builtins(pod) for pod in typical]}
    return {
        "schedulerName": "default-scheduler",
        "tieBreak": tie_break,
        "plugins": {
            "multiPoint": {"enabled": [{"name": plugin.name}]},
            "preScore": {"disabled": [{"name": "*"}]}
            | ({"enabled": [{"name": plugin.name}]} if policy == "Random" else {}),
            "score": {"disabled": [{"name": "*"}], "enabled": [{"name": plugin.name}]},
        },
        "pluginConfig": [{"name": plugin.name, "args": args}] if plugin.args_type else [],
    }


def _node(name: str, node: GpuNode) -> Node:
    amounts = {
        "cpu": f"{node.cpu_milli}m",
        "memory": f"{node.memory_mib}Mi",
        "pods": str(_MAX_PODS),
        GPU_MILLI: str(node.devices * DEVICE_MILLI),
        GPU_COUNT: str(node.devices),
    }
    return Node(
        metadata=ObjectMeta(name=name, labels={GPU_MODEL: node.model}),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def _pod(name: str, pod: GpuPod) -> Pod:
    requests = {"cpu": f"{pod.cpu_milli}m", "memory": f"{pod.memory_mib}Mi"}
    annotations = {}
    if pod.count:
        annotations = {GPU_COUNT: str(pod.count), GPU_MILLI: str(pod.milli)}
    if pod.models:
        annotations[GPU_MODEL] = pod.models
    container = Container(
        name="main",
        image="example.com/work",
        resources=ResourceRequirements(requests=requests, limits=requests),
    )
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default", annotations=annotations),
        spec=PodSpec(containers=[container]),
    )


def _placed(pod: Pod, places: dict[str, int]) -> Placed | None:
    if not pod.spec.node_name:
        return None
    index = pod.metadata.annotations.get(GPU_INDEX)
    devices = tuple(map(int, index.split("-"))) if index else ()
    return Placed(places[pod.spec.node_name], devices)
