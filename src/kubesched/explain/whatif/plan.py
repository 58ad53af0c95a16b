"""Plans of changes to a cluster, applied like requests of a user of kubectl."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from kubesched.api import Deployment, Node, Pod, ReplicaSet, StatefulSet, Taint
from kubesched.api.base import ApiObject
from kubesched.api.resource_amounts import Resources
from kubesched.explain.clusters.cluster_model import ExplainError
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.plugins.helpers.node_copies import node_like
from kubesched.scheduler.plugins.helpers.wording import nearest

if TYPE_CHECKING:
    from kubesched.explain.clusters.virtual_cluster import VirtualCluster

__all__ = ["MOST_NEW_NODES", "MOST_REPLICAS", "Plan", "carry_out"]

_SCALABLE = {
    "deploy": Deployment,
    "deployment": Deployment,
    "sts": StatefulSet,
    "statefulset": StatefulSet,
    "rs": ReplicaSet,
    "replicaset": ReplicaSet,
}
_EVICTION_TRIES = 30
_EVICTION_PAUSE_NS = 10 * SECOND


# A plan runs in memory. Beyond these limits it would take minutes and gigabytes.
MOST_NEW_NODES: Final = 10_000
MOST_REPLICAS: Final = 100_000


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Changes, applied in this order: objects, nodes, workloads, drains."""

    drain: tuple[str, ...] = ()
    add: int = 0
    like: str = ""
    remove: tuple[str, ...] = ()
    taint: tuple[tuple[str, Taint], ...] = ()  # node, taint
    label: tuple[tuple[str, str, str], ...] = ()  # node, key, value
    scale: tuple[tuple[str, int], ...] = ()  # [namespace/]kind/name, replicas
    objects: tuple[ApiObject, ...] = ()
    configuration: KubeSchedulerConfiguration | None = None


async def carry_out(cluster: VirtualCluster, plan: Plan) -> dict[str, str]:
    """Make the changes; return the pods whose eviction a budget refused, with its message.

    Raises:
        ExplainError: the plan names an object that does not exist, or a number is too large.
    """
    _check_numbers(plan)
    api = cluster.api
    for each in plan.objects:
        await _put(cluster, each)
    nodes = {node.metadata.name: node for node in await cluster.nodes()}
    for name in (*plan.drain, *plan.remove, *([plan.like] if plan.add and plan.like else [])):
        if name not in nodes:
            raise ExplainError(f"no node named {name!r}")
    if plan.add:
        model = nodes[plan.like] if plan.like else max(nodes.values(), key=_size)
        for number in range(1, plan.add + 1):
            await api.create(node_like(model, f"{model.metadata.name}-new-{number}"))
    await _edit_nodes(cluster, plan, nodes)
    for target, replicas in plan.scale:
        await _scale(cluster, target, replicas)
    for name in plan.remove:
        await _remove(cluster, name)
    blocked: dict[str, str] = {}
    for name in plan.drain:
        blocked |= await _drain(cluster, name)
    return blocked


def _check_numbers(plan: Plan) -> None:
    if not 0 <= plan.add <= MOST_NEW_NODES:
        raise ExplainError(f"add: {plan.add} nodes, of which {MOST_NEW_NODES} are allowed")
    for target, replicas in plan.scale:
        if not 0 <= replicas <= MOST_REPLICAS:
            raise ExplainError(
                f"scale: {replicas} replicas of {target}, of which {MOST_REPLICAS} are allowed"
            )


async def _edit_nodes(cluster: VirtualCluster, plan: Plan, nodes: dict[str, Node]) -> None:
    """Add the plan's taints and labels."""
    for name, taint in plan.taint:
        for node in _named(nodes, name):
            taints = (*node.spec.taints, taint)
            nodes[node.metadata.name] = await cluster.api.update(
                replace(node, spec=replace(node.spec, taints=taints))
            )
    for name, key, value in plan.label:
        for node in _named(nodes, name):
            labels = {**node.metadata.labels, key: value}
            nodes[node.metadata.name] = await cluster.api.update(
                replace(node, metadata=replace(node.metadata, labels=labels))
            )


async def _remove(cluster: VirtualCluster, name: str) -> None:
    """Delete a node and the pods on it."""
    await cluster.api.delete(Node, name)
    for pod in (await cluster.pods()).values():
        if pod.spec.node_name == name:
            await cluster.api.delete(
                Pod, pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0
            )


def _named(nodes: Mapping[str, Node], pattern: str) -> list[Node]:
    """Return the node with a name, or all nodes with a label `key=value`."""
    key, equals, value = pattern.partition("=")
    found = [
        node
        for name, node in nodes.items()
        if name == pattern or (equals and node.metadata.labels.get(key) == value)
    ]
    if not found:
        raise ExplainError(f"no node is named or labelled {pattern!r}")
    return found


async def _put(cluster: VirtualCluster, wanted: Any) -> None:
    metadata = wanted.metadata
    kind: Any = type(wanted)
    resource = cluster.api.store.catalog.by_type(kind)
    namespace = metadata.namespace if resource.namespaced else None
    record = cluster.api.store.find_record(resource, namespace, metadata.name)
    if record is None:
        # A dump contains fields that the server sets; a new object must not have them.
        unborn = replace(metadata, resource_version="", uid="", creation_timestamp=None)
        await cluster.api.create(replace(wanted, metadata=unborn))
        return
    current: Any = await cluster.api.get(kind, metadata.name, namespace)
    version = replace(
        metadata, resource_version=current.metadata.resource_version, uid=current.metadata.uid
    )
    await cluster.api.update(replace(wanted, metadata=version))


async def _scale(cluster: VirtualCluster, target: str, replicas: int) -> None:
    """Scale `kind/name` or `namespace/kind/name`."""
    *home, kind_name, name = target.split("/") if target.count("/") in (1, 2) else ("", "")
    kind: Any = _SCALABLE.get(kind_name)
    if kind is None:
        raise ExplainError(f"{target!r} cannot be scaled: expected [NAMESPACE/]deploy/NAME")
    namespace = home[0] if home else "default"
    resource = cluster.api.store.catalog.by_type(kind)
    if cluster.api.store.find_record(resource, namespace, name) is None:
        error = ExplainError(f"no {kind.__name__} {namespace}/{name}")
        found = (await cluster.api.list(kind)).items
        known = [f"{each.metadata.namespace}/{each.metadata.name}" for each in found]
        elsewhere = [each for each in known if each.endswith(f"/{name}")]
        if near := elsewhere[0] if elsewhere else nearest(f"{namespace}/{name}", known):
            error.add_note(f"did you mean {near}? It is written [NAMESPACE/]KIND/NAME=REPLICAS")
        raise error
    change = {"spec": {"replicas": replicas}}
    await cluster.api.patch(kind, name, namespace, change, patch_type="merge")


async def _drain(cluster: VirtualCluster, name: str) -> dict[str, str]:
    """Cordon the node and evict its pods; retry while budgets refuse."""
    node = await cluster.api.get(Node, name)
    await cluster.api.update(replace(node, spec=replace(node.spec, unschedulable=True)))
    clock = current_clock()
    refused: dict[str, str] = {}
    for _ in range(_EVICTION_TRIES):
        refused = {}
        for key, pod in (await cluster.pods()).items():
            if pod.spec.node_name != name or _is_skipped(pod):
                continue
            if reason := await cluster.evict(pod):
                refused[key] = reason
        if not refused:
            break
        await clock.sleep(_EVICTION_PAUSE_NS)
    await cluster.settle()
    return refused


def _is_skipped(pod: Pod) -> bool:
    """Whether a drain skips the pod: it belongs to a DaemonSet, or is terminating."""
    owners = pod.metadata.owner_references
    return pod.metadata.deletion_timestamp is not None or any(
        owner.kind == "DaemonSet" for owner in owners
    )


def _size(node: Node) -> tuple[int, str]:
    return Resources.from_resource_list(node.status.allocatable).milli_cpu, node.metadata.name
