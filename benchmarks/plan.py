"""Consolidation of large clusters: nodes now, in the plan and in the bound; seconds, moves.

    python -m benchmarks.plan openb --traces FOLDER [--share 80]
    python -m benchmarks.plan week
    python -m benchmarks.plan large
    python -m benchmarks.plan small

`openb` fills the nodes of the Alibaba GPU trace with its pods to a share of the GPUs, with the
scheduler's own decisions. `week` is a cluster of 1,000 nodes after a simulated week, `large` one of
5,000 nodes with 40,000 pods, `small` one of 100 nodes. Prints a JSON line for the plan, and one for
each other rule on the same cluster: what the HighNodeUtilization rule of descheduler and the
consolidation rule of Karpenter would do, simulated on the packing problem of the plan.

Seconds are processor time, so other load of the machine does not matter.
"""

from __future__ import annotations

import random
import resource
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import click
import msgspec
import numpy as np
from msgspec.structs import replace

from kubesched.api import Node, Pod, PodDisruptionBudget, ReplicaSet
from kubesched.api.codec import from_builtins
from kubesched.explain import Snapshot
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.foundation.util.clock import ManualClock, RealClock
from kubesched.foundation.util.virtual_loop import DEFAULT_START_NS
from kubesched.plan import PlanningPolicy, consolidate
from kubesched.plan.packing.greedy_drain import size_order
from kubesched.plan.packing.packing_problem import PackingProblem
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.reading.cluster_problem import read_problem
from kubesched.sim import parse_scenario
from kubesched.sim.simulation import simulate
from kubesched.sim.traces import GPU_MILLI, openb_nodes, read_trace

_ROUNDS: Final = 5
_UNDERUSED: Final = 0.5  # a node below this share of each resource is underused


class _ProcessClock(RealClock):
    """Measures limits in processor time."""

    monotonic_ns = staticmethod(time.process_time_ns)


def openb(folder: Path, share: int) -> list[Any]:
    """The nodes of the trace, filled until a share of the GPUs is requested."""
    nodes = []
    for document in openb_nodes(folder / "openb_node_list_gpu_node.csv.gz"):
        node = from_builtins(document, Node)
        ready = from_builtins(
            {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}, Node
        )
        status = replace(node.status, conditions=ready.status.conditions)
        nodes.append(replace(node, status=status))
    model = ClusterModel(nodes, ManualClock(DEFAULT_START_NS))
    total = sum(int(str(node.status.allocatable.get(GPU_MILLI, 0))) for node in nodes)
    taken, number = 0, 0
    owners: dict[bytes, list[Pod]] = {}
    trace = [each.pod for each in read_trace(folder / "openb_pod_list_default.csv.gz")]
    misses = 0
    while taken < total * share / 100 and misses < len(trace):
        pod = trace[number % len(trace)]
        number += 1
        key = msgspec.json.encode(pod.spec)
        replicas = owners.setdefault(key, [])
        own = f"w{list(owners).index(key)}" if not replicas else replicas[0].metadata.labels["app"]
        metadata = replace(
            pod.metadata, name=f"{own}-{len(replicas)}", uid=f"pod-{number}", labels={"app": own}
        )
        waiting = replace(pod, metadata=metadata)
        found = model.search(waiting).result
        if found is None:
            misses += 1
            continue
        misses = 0
        placed = _running(waiting, found.node_name)
        model.objects.put(placed)
        replicas.append(placed)
        requests = pod.spec.containers[0].resources.requests
        taken += int(str(requests.get(GPU_MILLI, 0)))
    return [*nodes, *_owned(owners.values())]


def _running(pod: Pod, node: str) -> Pod:
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    status = from_builtins({"status": ready}, Pod).status
    return replace(pod, spec=replace(pod.spec, node_name=node), status=status)


def _owned(groups: Any) -> Iterator[Any]:
    """Yield a ReplicaSet for each group of pods, and the pods."""
    for pods in groups:
        if not pods:
            continue
        name, labels = pods[0].metadata.labels["app"], pods[0].metadata.labels
        metadata = {"name": name, "namespace": "default", "uid": f"rs-{name}"}
        owner = from_builtins(
            {
                "metadata": metadata,
                "spec": {
                    "replicas": len(pods),
                    "selector": {"matchLabels": labels},
                    "template": {
                        "metadata": {"labels": labels},
                        "spec": msgspec.to_builtins(replace(pods[0].spec, node_name="")),
                    },
                },
            },
            ReplicaSet,
        )
        yield owner
        reference = {**metadata, "apiVersion": "apps/v1", "kind": "ReplicaSet", "controller": True}
        owned = from_builtins({"metadata": {"ownerReferences": [reference]}}, Pod)
        for pod in pods:
            references = owned.metadata.owner_references
            yield replace(pod, metadata=replace(pod.metadata, owner_references=references))


def week(nodes: int = 1000) -> list[Any]:
    """A cluster of three kinds of nodes after a week of Deployments, Jobs and failures."""
    zones = ["a", "b", "c"]
    scale = nodes / 1000
    apart = {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {
                    "labelSelector": {"matchLabels": {"part": "store"}},
                    "topologyKey": "kubernetes.io/hostname",
                }
            ]
        }
    }
    spread = {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"part": "web"}},
    }
    groups = [("small", 0.5, 8, "32Gi"), ("large", 0.3, 32, "128Gi"), ("memory", 0.2, 16, "128Gi")]
    document = {
        "name": "week",
        "duration": "7d",
        "step": "1h",
        "cluster": {
            "nodes": [
                {
                    "name": name,
                    "count": round(nodes * share),
                    "cpu": cpu,
                    "memory": memory,
                    "zones": zones,
                }
                for name, share, cpu, memory in groups
            ]
        },
        "workloads": [
            {
                "name": "services",
                "kind": "Deployment",
                "arrivals": {"poisson": f"{6 * scale}/h"},
                "replicas": {"choice": [1, 2, 3, 6, 12]},
                "cpu": {"choice": ["250m", "500m", "1", "2"], "weights": [3, 4, 3, 1]},
                "memory": {"choice": ["512Mi", "2Gi", "4Gi"]},
            },
            {
                "name": "web",
                "kind": "Deployment",
                "arrivals": {"every": "12h"},
                "replicas": max(1, round(24 * scale)),
                "cpu": "1",
                "memory": "2Gi",
                "labels": {"part": "web"},
                "topologySpreadConstraints": [spread],
            },
            {
                "name": "store",
                "kind": "StatefulSet",
                "arrivals": {"every": "2d"},
                "replicas": max(1, round(12 * scale)),
                "cpu": "2",
                "memory": "8Gi",
                "labels": {"part": "store"},
                "affinity": apart,
            },
            {
                "name": "batch",
                "kind": "Job",
                "arrivals": {"diurnal": {"mean": f"{120 * scale}/h", "peak": "14h", "swing": 0.6}},
                "cpu": {"choice": ["500m", "1", "4"]},
                "memory": {"choice": ["1Gi", "4Gi", "8Gi"]},
                "duration": {"lognormal": {"median": "5h", "sigma": 1}},
            },
        ],
        "events": [{"fail": {"group": "small"}, "rate": "4/d", "for": "1h"}],
    }
    scenario = parse_scenario(document, Path())
    _, simulation = simulate(scenario, scenario.configurations[0], 0)
    found: list[Any] = []
    for collection in ("nodes", "pods", "replicasets", "deployments", "statefulsets", "jobs"):
        resource_of = simulation.store.catalog.by_url(_GROUPS.get(collection, ""), "v1", collection)
        found += [record.typed for record in simulation.store.list(resource_of, None).records]
    owners = [each for each in found if isinstance(each, ReplicaSet)]
    return found + [_budget(owner) for owner in owners[::2]]


_GROUPS: Final = {
    "replicasets": "apps",
    "deployments": "apps",
    "statefulsets": "apps",
    "jobs": "batch",
}


def _budget(owner: ReplicaSet) -> PodDisruptionBudget:
    metadata = {"name": owner.metadata.name, "namespace": owner.metadata.namespace}
    spec = {
        "selector": msgspec.to_builtins(owner.spec.selector),
        "maxUnavailable": "25%",
    }
    uid = f"pdb-{owner.metadata.name}"
    return from_builtins({"metadata": {**metadata, "uid": uid}, "spec": spec}, PodDisruptionBudget)


def filled(nodes: int, pods_per_node: float, seed: int = 1) -> list[Any]:
    """A cluster of four kinds of nodes, filled at random to 55 % of its cpu."""
    from tests.plan.clusters import mixed_cluster

    sizes = (100, 250, 500, 500, 1000, 1000, 2000, 3000) if pods_per_node > 6 else None
    return mixed_cluster(seed, nodes) if sizes is None else mixed_cluster(seed, nodes, 0.55, sizes)


def plan(name: str, objects: list[Any], seconds: float) -> dict[str, Any]:
    """Plan, and return the figures."""
    began = time.process_time()
    answer = consolidate(
        Snapshot(objects),
        seconds=seconds,
        clock=_ProcessClock(),
        report=lambda text: click.echo(text, err=True),
    )
    pods = [each for each in objects if isinstance(each, Pod) and each.spec.node_name]
    return {
        "cluster": name,
        "rule": "plan",
        "pods": len(pods),
        "nodes": answer.nodes,
        "planned": answer.planned_nodes,
        "bound": answer.lower_bound,
        "gap": round(answer.gap, 3),
        "evictions": len(answer.moves),
        "waves": len(answer.waves),
        "verified": answer.verified,
        "search_s": seconds,
        "all_s": round(time.process_time() - began, 1),
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def high_node_utilization(problem: PackingProblem) -> tuple[int, int]:
    """Return the nodes in use and the evictions of the rule of descheduler, in a few rounds.

    Each round evicts pods from underused nodes, the emptiest first, while the other nodes have room
    for them in total. The scheduler places them by `MostAllocated`, which the rule asks for: on the
    fullest node that accepts them. Nodes without pods are removed after each round, as an
    autoscaler does.
    """
    state = PackingState(problem)
    removed = ~problem.kept & (state.pods_on == 0)
    evictions = 0
    for _ in range(_ROUNDS):
        share = _share(state)
        underused = np.flatnonzero((share < _UNDERUSED) & ~removed & (state.pods_on > 0))
        others = ~removed.copy()
        others[underused] = False
        budget = state.room[others].sum(axis=0)
        for node in underused[np.argsort(share[underused], kind="stable")].tolist():
            for number in size_order(problem, np.flatnonzero(state.placement[:, node])):
                for _ in range(int(state.placement[number, node])):
                    if (problem.demand[number] > budget).any():
                        continue
                    state.add(number, node, -1)
                    accepted = state.accepting(number) & ~removed
                    target = _fullest(state, accepted)
                    state.add(number, node if target is None else target)
                    budget = budget - problem.demand[number]
                    evictions += 1
        removed |= ~problem.kept & (state.pods_on == 0)
    return int((~removed).sum()), evictions


def karpenter(problem: PackingProblem) -> tuple[int, int]:
    """Return the nodes in use and the evictions of the consolidation rule of Karpenter.

    Empty nodes are removed. Then it looks for the most of the first 100 candidates, those with the
    fewest pods, whose pods fit on the other nodes together, and removes them; if there are fewer
    than two, it looks for one node. Pods go to the first node that accepts them.
    """
    state = PackingState(problem)
    removed = ~problem.kept & (state.pods_on == 0)
    evictions = 0
    while True:
        candidates = np.flatnonzero(~removed & ~problem.kept)
        order = candidates[np.argsort(state.pods_on[candidates], kind="stable")]
        low, high = 1, min(100, len(order))
        best: list[int] = []
        while low <= high:
            middle = (low + high) // 2
            chosen = order[:middle].tolist()
            if _empty(PackingState(problem, state.placement), chosen, removed):
                best, low = chosen, middle + 1
            else:
                high = middle - 1
        if not best:
            best = next(
                (
                    [node]
                    for node in order.tolist()
                    if _empty(PackingState(problem, state.placement), [node], removed)
                ),
                [],
            )
        if not best:
            return int((~removed).sum()), evictions
        evictions += int(state.pods_on[best].sum())
        _empty(state, best, removed)
        removed[best] = True


def _empty(state: PackingState, nodes: list[int], removed: Any) -> bool:
    closed = removed.copy()
    closed[nodes] = True
    problem = state.problem
    for node in nodes:
        for number in size_order(problem, np.flatnonzero(state.placement[:, node])):
            for _ in range(int(state.placement[number, node])):
                state.add(number, node, -1)
                accepted = np.flatnonzero(state.accepting(number) & ~closed)
                if not len(accepted):
                    return False
                state.add(number, int(accepted[0]))
    return True


def _share(state: PackingState) -> Any:
    room = np.maximum(state.problem.room, 1)
    return (1 - state.room / room)[:, :2].max(axis=1)


def _fullest(state: PackingState, accepted: Any) -> int | None:
    nodes = np.flatnonzero(accepted)
    if not len(nodes):
        return None
    return int(nodes[int(_share(state)[nodes].argmax())])


@click.command()
@click.argument("cluster", type=click.Choice(["openb", "week", "large", "small"]))
@click.option("--traces", type=click.Path(exists=True, path_type=Path), help="The openb folder.")
@click.option("--share", default=80, show_default=True, help="Percent of the GPUs, for openb.")
@click.option("--seconds", default=0.0, help="Of the search; default: 60, or 300 for large.")
@click.option("--rules/--no-rules", default=True, help="Also simulate the other rules.")
def main(cluster: str, traces: Path | None, share: int, seconds: float, rules: bool) -> None:
    """Measure the consolidation of a cluster."""
    random.seed(0)
    name = f"{cluster} {share} %" if cluster == "openb" else cluster
    if cluster == "openb":
        if traces is None:
            raise click.UsageError("openb needs --traces, the folder of the CSV files")
        objects = openb(traces, share)
    elif cluster == "week":
        objects = week()
    elif cluster == "large":
        objects = filled(5000, 8)
    else:
        objects = filled(100, 5)
    seconds = seconds or (300 if cluster == "large" else 60)
    click.echo(msgspec.json.encode(plan(name, objects, seconds)).decode())
    if not rules:
        return
    problem = read_problem(Snapshot(objects).model, PlanningPolicy()).problem
    for rule in (high_node_utilization, karpenter):
        began = time.process_time()
        nodes, evictions = rule(problem)
        line = {
            "cluster": name,
            "rule": rule.__name__,
            "nodes": len(problem.nodes),
            "planned": nodes,
            "evictions": evictions,
            "all_s": round(time.process_time() - began, 1),
        }
        click.echo(msgspec.json.encode(line).decode())


if __name__ == "__main__":
    main()
