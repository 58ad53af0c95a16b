"""A cluster of given node types in virtual time, on which the scheduler places the workload."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from kubesched.api import DaemonSet, Node, Pod
from kubesched.api.base import ApiObject
from kubesched.cluster.embedded_cluster import ClusterPart
from kubesched.explain.clusters.virtual_cluster import VirtualCluster
from kubesched.explain.snapshot import Snapshot
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND
from kubesched.plan.reading.pinned_pods import follows_node
from kubesched.plan.sizing.node_catalog import NodeType
from kubesched.plan.sizing.sizing_problem import SizingWorkload
from kubesched.plan.sizing.workload_expansion import ExpandedWorkload

__all__ = ["place_workload", "stored_workload"]

_QUIET_NS: Final = 3 * SECOND


def stored_workload(
    workload: ExpandedWorkload, types: Sequence[NodeType], base: Snapshot, seed: int
) -> SizingWorkload:
    """Return the workload as a server stores it: with defaults, and with daemon pods per type.

    Raises:
        KubeschedError: the server rejects an object.
    """

    async def store() -> SizingWorkload:
        cluster = _cluster(base, seed)
        nodes = {node_type.name: node_type.make(1) for node_type in types}
        await cluster.copy_objects([*nodes.values(), *workload.daemon_sets, *workload.others])
        async with cluster.running():
            await cluster.settle(quiet_ns=_QUIET_NS)
            daemons = {
                name: [
                    pod
                    for pod in (await cluster.api.list(Pod)).items
                    if pod.spec.node_name == node.metadata.name and follows_node(pod)
                ]
                for name, node in nodes.items()
            }
        waiting = _cluster(base, seed)
        await waiting.copy_objects([*workload.others, *workload.pods])
        kinds = dict.fromkeys(type(each) for each in workload.others)
        others: list[ApiObject] = []
        for kind in kinds:
            if kind not in (Node, DaemonSet):
                others += (await waiting.api.list(kind)).items
        return SizingWorkload((await waiting.api.list(Pod)).items, others, daemons)

    return virtual_loop.run(store, start_ns=virtual_loop.DEFAULT_START_NS, seed=seed)


def place_workload(
    workload: ExpandedWorkload,
    counts: Sequence[tuple[NodeType, int]],
    base: Snapshot,
    seed: int,
) -> Mapping[str, str]:
    """Let the scheduler place the pods; return its messages about the pods without a node.

    Raises:
        KubeschedError: the server rejects an object.
    """

    async def place() -> Mapping[str, str]:
        cluster = _cluster(base, seed)
        nodes = [
            node_type.make(number) for node_type, count in counts for number in range(1, count + 1)
        ]
        await cluster.copy_objects([*nodes, *workload.daemon_sets, *workload.others])
        async with cluster.running():
            await cluster.settle(quiet_ns=_QUIET_NS)
            await cluster.copy_objects(workload.pods)
            await cluster.settle(quiet_ns=_QUIET_NS)
            found = (await cluster.api.list(Pod)).items
        return {
            f"{pod.metadata.namespace}/{pod.metadata.name}": _message(pod)
            for pod in found
            if not pod.spec.node_name and not follows_node(pod)
        }

    return virtual_loop.run(place, start_ns=virtual_loop.DEFAULT_START_NS, seed=seed)


def _cluster(base: Snapshot, seed: int) -> VirtualCluster:
    return VirtualCluster(
        configuration=base.model.configuration,
        plugins=base.out_of_tree_plugins,
        seed=seed,
        parts=ClusterPart.NODES | ClusterPart.CONTROLLERS,
    )


def _message(pod: Pod) -> str:
    for each in pod.status.conditions:
        if each.type == "PodScheduled" and each.message:
            return each.message
    return "it was not scheduled"
