"""Action of `kubesched benchmark`: measure the default configuration and the user's, in turn."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from kubesched.api import Node, Pod
from kubesched.cli.configuration_file import plugin_configuration
from kubesched.cli.text_table import text_table
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.manifests import Manifest, apply_manifests, load_manifests
from kubesched.errors import ConfigError
from kubesched.foundation.util.clock import MILLISECOND, SECOND, RealClock
from kubesched.foundation.util.collector import settle_collector
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.config.feature_gates import DEFAULT_FEATURE_GATES
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins
from kubesched.scheduler.runtime.plugin_registry import PluginRegistry
from kubesched.scheduler.scheduler import Scheduler

__all__ = ["run_benchmark"]

Json = dict[str, Any]

_HOSTNAME = "kubernetes.io/hostname"
_FEW = 50
_SIZES = (("4", "16Gi"), ("8", "32Gi"), ("16", "64Gi"))
_REQUESTS = (("100m", "128Mi"), ("250m", "256Mi"), ("500m", "1Gi"))


class _Workload(NamedTuple):
    """What the cluster has before, and the pods whose placement is measured."""

    others: Sequence[Manifest]
    nodes: Sequence[Json]
    pods: Sequence[Json]


class _Case(NamedTuple):
    name: str
    configuration: KubeSchedulerConfiguration
    plugins: PluginRegistry


class _Run(NamedTuple):
    cpu_ns: int
    placed: int


class BenchmarkResult(msgspec.Struct, rename="camel", frozen=True):
    """The median of a configuration's runs, in processor time."""

    name: str
    pods: int
    placed: int
    pods_per_second: float
    milliseconds_per_pod: float


def run_benchmark(
    plugins: Sequence[str],
    config_file: str | None,
    files: Sequence[str],
    nodes: int,
    pods: int,
    repeat: int,
    output: str,
) -> None:
    workload = _workload(files, nodes, pods)
    registry = out_of_tree_plugins(plugins)
    default = default_configuration(DEFAULT_FEATURE_GATES)
    cases = [_Case("default configuration", default, registry)]
    if config_file or plugins:
        path = None if config_file is None else Path(config_file)
        own = plugin_configuration(path, registry, plugins, DEFAULT_FEATURE_GATES)
        names = [*([] if config_file is None else [config_file]), *plugins]
        cases.append(_Case(" ".join(names), own, registry))
    few = workload._replace(nodes=workload.nodes[:_FEW], pods=workload.pods[:_FEW])
    for case in cases:
        asyncio.run(_measure(case, few))  # the first run imports modules and fills caches
    runs: list[list[_Run]] = [[] for _ in cases]
    for number in range(repeat):
        for case, done in zip(cases, runs, strict=True):
            click.echo(f"run {number + 1} of {repeat}: {case.name}", err=True)
            done.append(asyncio.run(_measure(case, workload)))
    results = [_result(case, done, pods) for case, done in zip(cases, runs, strict=True)]
    if output == "json":
        click.echo(msgspec.json.encode({"nodes": nodes, "results": results}).decode())
    else:
        click.echo(_shown(results, nodes))


async def _measure(case: _Case, workload: _Workload) -> _Run:
    """Return the processor time from the first created pod to the last decision."""
    clock = RealClock()
    api = LocalApi(Store(derive(0, "store")), clock)
    await apply_manifests(api, workload.others)
    for node in workload.nodes:
        await api.create_document(Node, None, node)
    scheduler = Scheduler(
        api, clock, configuration=case.configuration, out_of_tree_registry=case.plugins
    )
    running = asyncio.create_task(scheduler.run(), name="scheduler")
    try:
        await scheduler.informers.wait_for_sync()
        settle_collector()
        before = await api.list(Pod)
        start_ns = time.process_time_ns()
        for pod in workload.pods:
            await api.create_document(Pod, pod["metadata"]["namespace"], pod)
        placed = await _decided(api, before.resource_version, len(workload.pods))
        return _Run(time.process_time_ns() - start_ns, placed)
    finally:
        scheduler.stop()
        await running


async def _decided(api: LocalApi, resource_version: str, pods: int) -> int:
    """Wait until each pod has a node, or was rejected; return how many have a node."""
    placed: set[str] = set()
    rejected: set[str] = set()
    async for event in api.watch(Pod, resource_version=resource_version):
        pod = event.object
        if pod is None:
            continue
        uid = pod.metadata.uid
        if pod.spec.node_name:
            placed.add(uid)
            rejected.discard(uid)
        elif any(each.type == "PodScheduled" for each in pod.status.conditions):
            rejected.add(uid)
        if len(placed) + len(rejected) >= pods:
            break
    return len(placed)


def _result(case: _Case, runs: Sequence[_Run], pods: int) -> BenchmarkResult:
    cpu_ns = max(1, statistics.median(run.cpu_ns for run in runs))
    return BenchmarkResult(
        case.name,
        pods,
        min(run.placed for run in runs),
        round(pods * SECOND / cpu_ns, 1),
        round(cpu_ns / MILLISECOND / pods, 4),
    )


def _shown(results: Sequence[BenchmarkResult], nodes: int) -> str:
    rows: list[tuple[str, ...]] = [("CONFIGURATION", "PLACED", "PODS/S", "MS/POD", "COST")]
    first = results[0].milliseconds_per_pod
    for each in results:
        more = 100 * (each.milliseconds_per_pod - first) / first if first else 0.0
        cost = "" if each is results[0] else f"{more:+.0f} %"
        rows.append(
            (
                each.name,
                f"{each.placed}/{each.pods}",
                f"{each.pods_per_second:,.0f}",
                f"{each.milliseconds_per_pod:.3f}",
                cost,
            )
        )
    return f"{nodes} nodes, processor time, median of the runs\n{text_table(rows)}"


def _workload(files: Sequence[str], nodes: int, pods: int) -> _Workload:
    manifests = load_manifests(files) if files else []
    given: dict[type[Any], list[Json]] = {Node: [], Pod: []}
    others = []
    for each in manifests:
        found = given.get(type(each.object))
        if found is None:
            others.append(each)
        else:
            found.append(each.document)
    if files and not given[Node] and not given[Pod]:
        raise ConfigError(f"no nodes and no pods in {', '.join(files)}")
    return _Workload(
        others,
        _copies(given[Node] or [_node(number) for number in range(9)], nodes, _copied_node),
        _copies(given[Pod] or [_pod(number) for number in range(3)], pods, _copied_pod),
    )


def _copies(
    documents: Sequence[Json], count: int, copied: Callable[[Json, Json], Json]
) -> list[Json]:
    """Return as many objects with names of their own, in the order of the documents."""
    return [
        copied(each, _metadata(each["metadata"], number))
        for number, each in enumerate(islice(cycle(documents), count))
    ]


def _metadata(metadata: Json, number: int) -> Json:
    kept: Json = {key: metadata[key] for key in ("labels", "annotations") if key in metadata}
    prefix = metadata.get("name") or metadata.get("generateName", "copy")
    return {**kept, "name": f"{prefix}-{number}"}


def _copied_node(node: Json, metadata: Json) -> Json:
    if _HOSTNAME in metadata.get("labels", {}):
        metadata["labels"] = {**metadata["labels"], _HOSTNAME: metadata["name"]}
    return {**node, "metadata": metadata}


def _copied_pod(pod: Json, metadata: Json) -> Json:
    """Return a copy of a pod without its node."""
    namespace = pod["metadata"].get("namespace") or "default"
    spec = {key: value for key, value in pod["spec"].items() if key != "nodeName"}
    return {"metadata": {**metadata, "namespace": namespace}, "spec": spec}


def _node(number: int) -> Json:
    cpu, memory = _SIZES[number % len(_SIZES)]
    labels = {
        _HOSTNAME: "",
        "topology.kubernetes.io/zone": f"zone-{'abc'[number // len(_SIZES) % 3]}",
    }
    amounts = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "metadata": {"name": "node", "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def _pod(number: int) -> Json:
    cpu, memory = _REQUESTS[number]
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {
        "metadata": {"name": f"app-{number}", "labels": {"app": f"app-{number}"}},
        "spec": {"containers": [{"name": "c", "image": "app", "resources": resources}]},
    }
