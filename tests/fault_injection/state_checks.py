"""Checks of a scheduler's state in memory against a recount of the server's objects.

Each check is a generator of texts about differences. It yields none if the state is correct.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubesched.api import Node, Pod
from kubesched.cluster.apiserver import Store
from kubesched.foundation.client.event_recorder import EventBroadcaster
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.late_informers import LateInformers
from kubesched.framework import NodeInfo, PodInfo
from kubesched.framework.engine import NodeTable
from kubesched.framework.pod_groups import group_name_of
from kubesched.scheduler.backend.grouping_cache import GroupingCache
from kubesched.scheduler.backend.queue_flusher import QueueFlusher
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["stale_copies", "state_differences", "state_leaks", "task_differences"]

Named = Mapping[Any, Any]


def state_differences(scheduler: Scheduler, store: Store) -> Iterator[str]:
    """Return where copies, cache, table, index or queue differ from the server."""
    yield from _broken_invariants(scheduler)
    yield from stale_copies(scheduler, store)
    pods = _served(store, Pod)
    live = {key: pod for key, pod in pods.items() if not _is_over(pod)}
    nodes = _served(store, Node)
    yield from _cache_differences(scheduler, live, nodes)
    yield from _table_differences(scheduler, live)
    yield from _index_differences(scheduler)
    yield from _queue_differences(scheduler, live)
    yield from _group_differences(scheduler, live)


def state_leaks(scheduler: Scheduler, store: Store) -> Iterator[str]:
    """Return what an idle scheduler still holds, or still has in flight."""
    services = scheduler.services
    if scheduler.cache.assumed_count:
        yield f"{scheduler.cache.assumed_count} pods are still assumed"
    for what, held in (
        ("wait on permit", list(services.waiting_pods)),
        ("are in PreBind", list(services.pods_in_pre_bind)),
        ("are in flight", scheduler.queue.in_flight_pods),
        ("work in the background", list(scheduler._tasks._tasks)),
    ):
        if held:
            yield f"{len(held)} {what}"
    if scheduler._extender_tasks is not None and scheduler._extender_tasks.busy:
        yield f"extenders are busy: {scheduler._extender_tasks.busy}"
    yield from _lost_nominations(scheduler, store)
    yield from _plugin_leaks(scheduler)


def task_differences(scheduler: Scheduler, names: Iterable[str]) -> Iterator[str]:
    """Return tasks that an idle process must not have, or has more than once."""
    # A sent request continues without its sender.
    running = Counter(name for name in names if name != "network")
    informers = len(list(scheduler.informers.components()))
    if running.pop(SharedInformer.__name__, 0) != informers:
        yield f"the number of informer tasks is not {informers}"
    for name, count in running.items():
        if count > 1 or not name.startswith(_OWN_TASKS):
            yield f"{count} tasks are left when idle: {name}"


_OWN_TASKS = (
    *(EventBroadcaster.__name__, QueueFlusher.__name__, LateInformers.__name__),
    *("event ", "placing"),
    *("leading", "lease watch", "over", "asked to end", "waiting"),  # of the election
)


def _served(store: Store, kind: type[Any]) -> dict[str, Any]:
    resource = store.catalog.by_type(kind)
    return {key: record.typed for key, record in store.collection(resource).objects.items()}


def _is_over(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def _versions(objects: Named) -> dict[Any, str]:
    return {key: each.metadata.resource_version for key, each in objects.items()}


def _differ(what: str, ours: Named, theirs: Named) -> Iterator[str]:
    if ours != theirs:
        keys = sorted(
            key for key in ours.keys() | theirs.keys() if ours.get(key) != theirs.get(key)
        )
        shown = ", ".join(f"{key}: {ours.get(key)} not {theirs.get(key)}" for key in keys[:3])
        yield f"{what}: {shown}"


def _broken_invariants(scheduler: Scheduler) -> Iterator[str]:
    for part in (scheduler.cache, scheduler.queue):
        try:
            part.check_invariants()
        except Exception as error:
            yield f"invariants: {error}"


def stale_copies(scheduler: Scheduler, store: Store) -> Iterator[str]:
    """Return kinds of which an informer does not have every object."""
    for informer in scheduler.informers.components():
        copies = {
            "/".join(filter(None, (each.metadata.namespace, each.metadata.name))): each
            for each in informer.store.list()
        }
        served = _served(store, informer.kind)
        if informer.kind is Pod:
            served = {key: pod for key, pod in served.items() if not _is_over(pod)}
        name = informer.kind.__name__
        yield from _differ(f"the copy of {name}s is stale", _versions(copies), _versions(served))


def _cache_differences(
    scheduler: Scheduler, live: dict[str, Pod], nodes: dict[str, Node]
) -> Iterator[str]:
    cached = {
        info.uid: (name, info.pod.metadata.resource_version)
        for name, node in scheduler.cache.nodes.items()
        for info in node.pods
    }
    placed = {
        pod.metadata.uid: (pod.spec.node_name, pod.metadata.resource_version)
        for pod in live.values()
        if pod.spec.node_name
    }
    yield from _differ("pods in the cache", cached, placed)
    known = {name: each.node for name, each in scheduler.cache.nodes.items() if each.node}
    yield from _differ("nodes in the cache", _versions(known), _versions(nodes))
    images = Counter(name for node in nodes.values() for name in _images(node))
    known_images = scheduler.cache._images._images
    counted = {name: image.state.node_count for name, image in known_images.items()}
    yield from _differ("nodes with an image", counted, images)
    for name, info in scheduler.cache.nodes.items():
        fresh = NodeInfo(name, info.node)
        for pod in live.values():
            if pod.spec.node_name == name:
                fresh.add_pod(PodInfo(pod))
        yield from _differ(f"totals of {name}", _totals(info), _totals(fresh))


def _images(node: Node) -> set[str]:
    return {name for image in node.status.images for name in image.names}


def _totals(info: NodeInfo) -> dict[str, Any]:
    return {
        "requested": _amounts(info.requested),
        "nonzero": (info.nonzero_cpu, info.nonzero_memory),
        "ports": set(info.used_ports),
        "affinity": {each.uid for each in info.pods_with_affinity},
        "anti-affinity": {each.uid for each in info.pods_with_required_anti_affinity},
        "claims": dict(info.pvc_ref_counts),
        "allocatable": _amounts(info.allocatable),
        "pods allowed": info.allowed_pod_number,
    }


def _amounts(amounts: Any) -> dict[str, int]:
    built_in = {
        "cpu": amounts.milli_cpu,
        "memory": amounts.memory,
        "ephemeral-storage": amounts.ephemeral_storage,
    }
    return {name: int(each) for name, each in {**built_in, **amounts.scalar}.items() if each}


def _table_differences(scheduler: Scheduler, live: dict[str, Pod]) -> Iterator[str]:
    """Compare the rows of the node table, ports and images included, with the cached nodes."""
    table = scheduler.cache.update_snapshot().table
    infos = {name: info for name, info in scheduler.cache.nodes.items() if info.node is not None}
    if set(table.row_of) != set(infos):
        yield f"rows of {sorted(table.row_of)} for nodes {sorted(infos)}"
        return
    for name, info in infos.items():
        row = table.row_of[name]
        if scheduler.cache.snapshot.infos[row] is not info:
            yield f"row of {name} shows another node"
        yield from _differ(f"row of {name}", _row_facts(table, row), _facts(table, info))
    for row, name in enumerate(table.names):
        if not name:
            kept = {fact: value for fact, value in _row_facts(table, row).items() if value}
            yield from _differ(f"free row {row}", kept, {"nonzero": (0, 0)})


def _row_facts(table: NodeTable, row: int) -> dict[str, Any]:
    names = table.resources.values

    def amounts(matrix: Any) -> dict[str, int]:
        return {names[place]: int(each) for place, each in enumerate(matrix[:, row]) if each}

    labels = {
        key: column.values.values[column.ids[row]]
        for key, column in table._label_columns.items()
        if column.ids[row] >= 0
    }
    return {
        "allocatable": amounts(table.allocatable),
        "requested": {
            **amounts(table.requested),
            **_without_zeros(table._columnless_requests.get(row, {})),
        },
        "nonzero": tuple(int(each) for each in table.nonzero_requested[:, row]),
        "pods": int(table.pod_count[row]),
        "pods allowed": int(table.allowed_pods[row]),
        "unschedulable": bool(table.unschedulable[row]),
        "taints": tuple(
            (taint.key, taint.value, taint.effect)
            for taint in table.taint_sets.values[table.taint_set[row]]
        ),
        "labels": labels,
        "images": _row_images(table, row),
        "ports": _row_ports(table, row),
    }


def _without_zeros(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


def _row_images(table: NodeTable, row: int) -> dict[str, int]:
    """Return sizes by name. The number of nodes with an image is from the last write of the row."""
    holders = table.images.holders("i:latest")
    if holders is None or row not in (rows := holders.rows.tolist()):
        return {}
    return {"i:latest": int(holders.size_bytes[rows.index(row)])}


def _row_ports(table: NodeTable, row: int) -> set[int]:
    return {
        port
        for port in (8000, 8001, 8002)
        for rows in table.ports.holders("TCP", port).values()
        if row in rows.rows.tolist()
    }


def _facts(table: NodeTable, info: NodeInfo) -> dict[str, Any]:
    node = info.node
    assert node is not None
    totals = _totals(info)
    return {
        "allocatable": totals["allocatable"],
        "requested": totals["requested"],
        "nonzero": totals["nonzero"],
        "pods": len(info.pods),
        "pods allowed": info.allowed_pod_number,
        "unschedulable": node.spec.unschedulable,
        "taints": tuple((taint.key, taint.value, taint.effect) for taint in node.spec.taints),
        "labels": {
            key: value for key, value in node.metadata.labels.items() if key in table._label_columns
        },
        "images": {name: image.size_bytes for image in node.status.images for name in image.names},
        "ports": {port for port in (8000, 8001, 8002) if _holds(info, port)},
    }


def _holds(info: NodeInfo, port: int) -> bool:
    return any(
        each.host_port == port
        for pod in info.pods
        for container in pod.pod.spec.containers
        for each in container.ports
    )


def _index_differences(scheduler: Scheduler) -> Iterator[str]:
    """Compare the pod index, which counts pods for affinity and spread, with the cached pods."""
    snapshot = scheduler.cache.update_snapshot()
    counted: Counter[Any] = Counter()
    for group in snapshot.pod_index._groups.values():
        for row, count in group.rows.items():
            labels = tuple(sorted(group.labels.items()))
            counted[snapshot.table.names[row], labels, group.is_terminating] += count
    there: Counter[Any] = Counter(
        (name, tuple(sorted(info.pod.metadata.labels.items())), _is_leaving(info.pod))
        for name, node in scheduler.cache.nodes.items()
        if node.node is not None
        for info in node.pods
    )
    yield from _differ("pods by labels", counted, there)
    claims: Counter[str] = Counter()
    for name, node in scheduler.cache.nodes.items():
        if name in snapshot.table.row_of:
            claims.update(node.pvc_ref_counts)
    yield from _differ("claims in use", snapshot._pvc_users, claims)


def _is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _queue_differences(scheduler: Scheduler, live: dict[str, Pod]) -> Iterator[str]:
    queued = {
        pod.metadata.uid: (pod.metadata.name, pod.metadata.resource_version)
        for pod in scheduler.queue.pending_pods()[0]
    }
    waiting = {
        pod.metadata.uid: (pod.metadata.name, pod.metadata.resource_version)
        for pod in live.values()
        if not pod.spec.node_name and pod.spec.scheduler_name in scheduler.profiles
    }
    yield from _differ("pods in the queue", queued, waiting)


def _group_differences(scheduler: Scheduler, live: dict[str, Pod]) -> Iterator[str]:
    """Compare the members of groups, waiting or on nodes."""
    if not isinstance(scheduler.cache, GroupingCache):
        return
    members: dict[Any, Any] = {}
    for pod in live.values():
        if (name := group_name_of(pod)) and (
            pod.spec.node_name or pod.spec.scheduler_name in scheduler.profiles
        ):
            waiting, placed = members.setdefault(("default", name), (set(), set()))
            (placed if pod.spec.node_name else waiting).add(pod.metadata.uid)
    states = scheduler.cache.groups._states
    known = {key: (set(each._unscheduled), set(each._assigned)) for key, each in states.items()}
    yield from _differ("members of groups", known, members)


def _lost_nominations(scheduler: Scheduler, store: Store) -> Iterator[str]:
    waiting = {pod.metadata.uid for pod in _served(store, Pod).values() if not pod.spec.node_name}
    for uid, node in scheduler.queue.nominator._node_of.items():
        if uid not in waiting:
            yield f"a nomination to {node or 'nowhere'} outlived its pod"


def _plugin_leaks(scheduler: Scheduler) -> Iterator[str]:
    for framework in scheduler.profiles.values():
        plugins: dict[str, Any] = dict(framework.plugins.by_name)
        if (binding := plugins.get("VolumeBinding")) is not None:
            for cache in (binding._volumes, binding._claims):
                if len(cache):
                    yield f"{len(cache)} volumes or claims are still assumed"
        if (preemption := plugins.get("DefaultPreemption")) is not None:
            evictions = preemption._evictions
            if evictions._preempting or evictions._last_victims:
                yield "an eviction is still under way"
    devices: Any = scheduler.services.shared.find("DynamicResources")
    if devices is not None:
        yield from _device_leaks(devices, scheduler)


def _device_leaks(devices: Any, scheduler: Scheduler) -> Iterator[str]:
    if len(devices.in_flight) or devices.pending_writes or devices.unsettled:
        yield "claims are still in flight"
    held: dict[tuple[str, str], set[str]] = {}
    for claim in scheduler.services.claims.list():
        if claim.status.allocation is not None:
            for result in claim.status.allocation.devices.results:
                held.setdefault((result.driver, result.pool), set()).add(result.device)
    allocated = devices.inventory.allocated
    known = {pool: set(allocated.usage(pool).dedicated) for pool in allocated.pools()}
    yield from _differ("devices in use", known, held)
