"""Debug output of the scheduler's cache and queue (docs/reference/02 §1.4).

On SIGUSR2 the cache is compared with the informers, and cache and queue are written to the log. The
functions change nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from kubesched.api import Node, Pod
from kubesched.api.resource_amounts import Resources
from kubesched.foundation.util.logging import get_logger
from kubesched.framework import NodeInfo
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["Mismatch", "compare", "describe_node", "describe_pods", "log_state"]

log = get_logger(__name__)


class Mismatch(NamedTuple):
    """Names or uids that only the informers or only the cache have."""

    missed: list[str]  # in the informer, not in the cache
    redundant: list[str]


def log_state(scheduler: Scheduler) -> None:
    """Log the differences between cache and informers, then the cache and the queue."""
    nodes, pods = compare(scheduler)
    if nodes.missed or nodes.redundant:
        log.info("Cache mismatch", missedNodes=nodes.missed, redundantNodes=nodes.redundant)
    if pods.missed or pods.redundant:
        log.info("Cache mismatch", missedPods=pods.missed, redundantPods=pods.redundant)
    described = (describe_node(scheduler, info) for info in scheduler.cache.nodes.values())
    log.info("Dump of cached NodeInfo", nodes="\n\n".join(described))
    pending, summary = scheduler.queue.pending_pods()
    log.info("Dump of scheduling queue", summary=summary, pods=describe_pods(pending))


def compare(scheduler: Scheduler) -> tuple[Mismatch, Mismatch]:
    """Compare nodes by name, and pods by uid; waiting pods count as cached."""
    informers, cache = scheduler.informers, scheduler.cache
    listed_nodes = [node.metadata.name for node in informers.lister(Node).list()]
    cached_nodes = [info.name for info in cache.nodes.values() if info.node is not None]
    listed_pods = [pod.metadata.uid for pod in informers.lister(Pod).list()]
    cached_pods = [pod.pod.metadata.uid for info in cache.nodes.values() for pod in info.pods]
    waiting = [*scheduler.queue.pending_pods()[0], *scheduler.queue.in_flight_pods]
    cached = [*cached_pods, *(pod.metadata.uid for pod in waiting)]
    return _mismatch(listed_nodes, cached_nodes), _mismatch(listed_pods, cached)


def describe_node(scheduler: Scheduler, info: NodeInfo) -> str:
    lines = [
        f"Node name: {info.name}",
        f"Deleted: {str(info.node is None).lower()}",
        f"Requested Resources: {_amounts(info.requested, 0)}",
        f"Allocatable Resources: {_amounts(info.allocatable, info.allowed_pod_number)}",
        f"Scheduled Pods(number: {len(info.pods)}):",
        describe_pods(pod.pod for pod in info.pods),
    ]
    nominated = [pod.pod for pod in scheduler.queue.nominator.nominated_pods(info.name)]
    if nominated:
        lines += [f"Nominated Pods(number: {len(nominated)}):", describe_pods(nominated)]
    return "\n".join(line for line in lines if line)


def describe_pods(pods: Iterable[Pod]) -> str:
    return "\n".join(
        f"name: {pod.metadata.name}, namespace: {pod.metadata.namespace}, "
        f"uid: {pod.metadata.uid}, phase: {pod.status.phase}, "
        f"nominated node: {pod.status.nominated_node_name}"
        for pod in pods
    )


def _mismatch(listed: Collection[str], cached: Collection[str]) -> Mismatch:
    in_informer, in_cache = set(listed), set(cached)
    return Mismatch(sorted(in_informer - in_cache), sorted(in_cache - in_informer))


def _amounts(resources: Resources, pods: int) -> str:
    scalars = " ".join(f"{name}:{amount}" for name, amount in sorted(resources.scalar.items()))
    return (
        f"{{MilliCPU:{resources.milli_cpu} Memory:{resources.memory} "
        f"EphemeralStorage:{resources.ephemeral_storage} AllowedPodNumber:{pods} "
        f"ScalarResources:map[{scalars}]}}"
    )
