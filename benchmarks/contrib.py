"""The number of pods that the whole scheduler places per second with an optional plugin.

    python -m benchmarks.engine --kind coscheduling --nodes 5000 --pods 5000

Measured like `benchmarks.loop`, from the first created pod to the last bound one, with the custom
resources that the plugin reads. `coscheduling`: pods in groups of 1,000. `capacity`: pods of 50
namespaces that borrow from each other. `load`: the three plugins of Trimaran together.
`numa`: guaranteed pods on nodes with two NUMA nodes each. `network`: applications of three
workloads that depend on each other, in ten regions with ten zones each.
"""

from __future__ import annotations

import asyncio
import json
import random
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from benchmarks.engine_options import Case
from benchmarks.loop import all_bound
from benchmarks.measuring import Spent, Stopwatch
from benchmarks.workloads import make_node, make_pod
from kubesched.api import Namespace, Node, Pod
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.manifest_kinds import serve_everything
from kubesched.cluster.manifests import apply_manifests, load_manifests
from kubesched.contrib.capacity_scheduling import CapacityScheduling
from kubesched.contrib.capacity_scheduling.elastic_quotas import ELASTIC_QUOTA_KIND
from kubesched.contrib.coscheduling import Coscheduling
from kubesched.contrib.coscheduling.group_spec import GROUP_LABEL, POD_GROUP_KIND
from kubesched.contrib.network_aware import NetworkOverhead, TopologicalSort
from kubesched.contrib.network_aware.app_groups import (
    APP_GROUP_KIND,
    APP_GROUP_LABEL,
    WORKLOAD_LABEL,
)
from kubesched.contrib.network_aware.network_costs import NETWORK_TOPOLOGY_KIND, REGION, ZONE
from kubesched.contrib.node_resource_topology import NodeResourceTopologyMatch
from kubesched.contrib.node_resource_topology.zones import NODE_TOPOLOGY_KIND
from kubesched.contrib.trimaran import (
    LoadVariationRiskBalancing,
    LowRiskOverCommitment,
    TargetLoadPacking,
)
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Plugin
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["time_contrib"]

_CRDS: Final = Path(__file__).parents[1] / "deploy" / "crds"
_GANG: Final = 1000
_NAMESPACES: Final = 50


class _Workload(NamedTuple):
    plugins: tuple[type[Plugin], ...]
    crds: tuple[str, ...]
    # Creates what the plugin reads.
    prepare: Callable[[LocalApi, Case], Awaitable[None]]
    # Changes a pod, given its number.
    change: Callable[[Pod, int], Pod] = lambda pod, _: pod
    queue_sort: str = ""
    args: dict[str, Any] = {}


def time_contrib(case: Case) -> Spent:
    """Measure from the first created pod to the last bound one."""
    return asyncio.run(_time_contrib(case, _WORKLOADS[case.kind]))


async def _time_contrib(case: Case, workload: _Workload) -> Spent:
    clock = RealClock()
    store = Store(derive(0, "store"))
    serve_everything(store)
    api = LocalApi(store, clock)
    if workload.crds:
        await apply_manifests(api, load_manifests([_CRDS / name for name in workload.crds]))
    for number in range(case.nodes):
        await api.create(make_node(number))
    await workload.prepare(api, case)
    scheduler = Scheduler(
        api,
        clock,
        profiles=[_profile(workload)],
        out_of_tree_registry={plugin.name: plugin for plugin in workload.plugins},
    )
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    await scheduler.informers.wait_for_sync()
    settle_collector()
    waiting = [workload.change(make_pod(number, "basic"), number) for number in range(case.pods)]
    before = await api.list(Pod)
    watch = Stopwatch()
    for pod in waiting:
        await api.create(pod)
    await all_bound(api, before.resource_version, case.pods)
    spent = watch.spent()
    scheduler.stop()
    await running
    return spent


def _profile(workload: _Workload) -> dict[str, Any]:
    enabled = [{"name": plugin.name} for plugin in workload.plugins]
    plugins: dict[str, Any] = {"multiPoint": {"enabled": enabled}}
    if workload.queue_sort:
        sort = [{"name": workload.queue_sort}]
        plugins["queueSort"] = {"enabled": sort, "disabled": [{"name": "*"}]}
    args = [{"name": name, "args": value} for name, value in workload.args.items()]
    return {"schedulerName": "default-scheduler", "plugins": plugins, "pluginConfig": args}


async def _prepare_groups(api: LocalApi, case: Case) -> None:
    for number in range(-(-case.pods // _GANG)):
        least = min(_GANG, case.pods - number * _GANG)
        document = {"metadata": {"name": f"g{number}"}, "spec": {"minMember": least}}
        await api.create_document(POD_GROUP_KIND.type, "default", document)


def _in_group(pod: Pod, number: int) -> Pod:
    labels = {**pod.metadata.labels, GROUP_LABEL: f"g{number // _GANG}"}
    return replace(pod, metadata=replace(pod.metadata, labels=labels))


async def _prepare_quotas(api: LocalApi, case: Case) -> None:
    for number in range(_NAMESPACES):
        name = f"team-{number}"
        await api.create_document(Namespace, None, {"metadata": {"name": name}})
        spec = {"min": {"cpu": str(case.pods * number // 1000)}, "max": {"cpu": str(case.pods)}}
        document = {"metadata": {"name": "quota"}, "spec": spec}
        await api.create_document(ELASTIC_QUOTA_KIND.type, name, document)


def _of_team(pod: Pod, number: int) -> Pod:
    return replace(pod, metadata=replace(pod.metadata, namespace=f"team-{number % _NAMESPACES}"))


async def _prepare_load(_: LocalApi, case: Case) -> None:
    """Write a random load of every node to the file that the plugins read."""
    rng = random.Random(0)
    nodes = {}
    for number in range(case.nodes):
        metrics = [
            {"type": kind, "operator": operator, "value": rng.uniform(0, most)}
            for kind in ("CPU", "Memory")
            for operator, most in (("AVG", 60), ("STD", 10))
        ]
        nodes[make_node(number).metadata.name] = {"metrics": metrics}
    report = {"timestamp": RealClock().now_ns() // 10**9, "data": {"NodeMetricsMap": nodes}}
    _LOADS.write_text(json.dumps(report))


async def _prepare_zones(api: LocalApi, case: Case) -> None:
    amounts = {"cpu": "2", "memory": "16Gi"}
    resources = [
        {"name": name, "capacity": amount, "allocatable": amount, "available": amount}
        for name, amount in amounts.items()
    ]
    zones = [{"name": f"node-{each}", "type": "Node", "resources": resources} for each in (0, 1)]
    policy = {"name": "topologyManagerPolicy", "value": "single-numa-node"}
    for number in range(case.nodes):
        metadata = {"name": make_node(number).metadata.name}
        document = {"metadata": metadata, "attributes": [policy], "zones": zones}
        await api.create_document(NODE_TOPOLOGY_KIND.type, None, document)


def _guaranteed(pod: Pod, _: int) -> Pod:
    (container,) = pod.spec.containers
    resources = replace(container.resources, limits=container.resources.requests)
    container = replace(container, resources=resources)
    return replace(pod, spec=replace(pod.spec, containers=(container,)))


async def _prepare_network(api: LocalApi, _: Case) -> None:
    rng = random.Random(0)
    regions, zones = ([f"{kind}-{number}" for number in range(10)] for kind in ("region", "zone"))
    topologies = [
        {
            "topologyKey": f"topology.kubernetes.io/{key}",
            "originList": [
                {
                    "origin": start,
                    "costList": [
                        {"destination": end, "networkCost": rng.randint(2, 80)} for end in names
                    ],
                }
                for start in names
            ],
        }
        for key, names in (("region", regions), ("zone", zones))
    ]
    spec = {"configmapName": "", "weights": [{"name": "UserDefined", "topologyList": topologies}]}
    document = {"metadata": {"name": "nt-default"}, "spec": spec}
    await api.create_document(NETWORK_TOPOLOGY_KIND.type, "default", document)
    named = [
        {"kind": "Deployment", "name": each, "selector": each} for each in _WORKLOADS_OF_AN_APP
    ]
    workloads = [
        {
            "workload": each,
            "dependencies": [
                {"workload": other, "maxNetworkCost": 40} for other in named[number + 1 :]
            ],
        }
        for number, each in enumerate(named)
    ]
    spec = {"numMembers": 3, "topologySortingAlgorithm": "ReverseKahn", "workloads": workloads}
    for number in range(_APPS):
        document = {"metadata": {"name": f"app-{number}"}, "spec": spec}
        await api.create_document(APP_GROUP_KIND.type, "default", document)
    for number, node in enumerate((await api.list(Node)).items):
        labels = {REGION: regions[number % 10], ZONE: zones[number // 10 % 10]}
        patch = {"metadata": {"labels": labels}}
        await api.patch(Node, node.metadata.name, None, patch, patch_type="merge")


def _of_app(pod: Pod, number: int) -> Pod:
    workload = _WORKLOADS_OF_AN_APP[number % len(_WORKLOADS_OF_AN_APP)]
    own = {APP_GROUP_LABEL: f"app-{number % _APPS}", WORKLOAD_LABEL: workload}
    return replace(pod, metadata=replace(pod.metadata, labels={**pod.metadata.labels, **own}))


_APPS: Final = 50
_WORKLOADS_OF_AN_APP: Final = ("web", "cart", "database")
_LOADS: Final = Path(tempfile.gettempdir()) / "kubesched-benchmark-load.json"
_FILE: Final = {"metricProvider": {"type": "File", "address": str(_LOADS)}}
_TRIMARAN: Final = (TargetLoadPacking, LoadVariationRiskBalancing, LowRiskOverCommitment)
_WORKLOADS: Final = {
    "coscheduling": _Workload(
        (Coscheduling,), ("podgroups.yaml",), _prepare_groups, _in_group, "Coscheduling"
    ),
    "capacity": _Workload(
        (CapacityScheduling,), ("elasticquotas.yaml",), _prepare_quotas, _of_team
    ),
    "numa": _Workload(
        (NodeResourceTopologyMatch,),
        ("noderesourcetopologies.yaml",),
        _prepare_zones,
        _guaranteed,
        args={"NodeResourceTopologyMatch": {"cacheResyncPeriodSeconds": 5}},
    ),
    "network": _Workload(
        (NetworkOverhead, TopologicalSort),
        ("appgroups.yaml", "networktopologies.yaml"),
        _prepare_network,
        _of_app,
        "TopologicalSort",
    ),
    "load": _Workload(
        _TRIMARAN, (), _prepare_load, args={plugin.name: _FILE for plugin in _TRIMARAN}
    ),
}
