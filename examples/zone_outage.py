"""Simulates the outage of a zone: 90 nodes, 1,000 pods, in virtual time.

Thirty nodes of one zone stop. After 50 s they count as unreachable, and five minutes later their
pods are evicted: those of Deployments run on other nodes, Jobs retry, StatefulSets wait for their
nodes, which return in the end. The same seed gives the same output, byte for byte.

    python examples/zone_outage.py
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from typing import Any

from kubesched.api import Deployment, Job, Node, Pod, StatefulSet
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.cluster.nodes.pod_behavior import STOPPED
from kubesched.foundation.util.clock import SECOND, Clock, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run
from kubesched.scheduler.scheduler import Scheduler

ZONE = "topology.kubernetes.io/zone"
ZONES = ("a", "b", "c")


def template(name: str, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": "100m", "memory": "100Mi"}
    containers = [{"name": "c", "image": "pause", "resources": {"requests": requests}}]
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers, **spec}}


async def create_workload(api: LocalApi) -> None:
    resources = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    for number in range(90):
        name, zone = f"node-{number:02}", ZONES[number % 3]
        labels = {ZONE: zone, "kubernetes.io/hostname": name}
        status = {"capacity": resources, "allocatable": resources}
        node = {"metadata": {"name": name, "labels": labels}, "status": status}
        await api.create_document(Node, None, node)
    for number in range(16):
        name = f"web-{number}"
        selector = {"matchLabels": {"app": name}}
        spec = {"replicas": 50, "selector": selector, "template": template(name)}
        await api.create_document(Deployment, "default", {"metadata": {"name": name}, "spec": spec})
    for number in range(10):
        name = f"db-{number}"
        selector = {"matchLabels": {"app": name}}
        spec = {"replicas": 10, "selector": selector, "template": template(name)}
        spec |= {"serviceName": name, "podManagementPolicy": "Parallel"}
        await api.create_document(
            StatefulSet, "default", {"metadata": {"name": name}, "spec": spec}
        )
    for number in range(10):
        name = f"job-{number}"
        pod = template(name, restartPolicy="Never")
        pod["metadata"]["annotations"] = {"kubesched.io/run-duration": "8m"}
        spec = {"completions": 10, "parallelism": 10, "backoffLimit": 100, "template": pod}
        await api.create_document(Job, "default", {"metadata": {"name": name}, "spec": spec})


async def mark_zone(api: LocalApi, zone: str, stopped: str | None) -> None:
    for node in (await api.list(Node, label_selector=f"{ZONE}={zone}")).items:
        patch = {"metadata": {"annotations": {STOPPED: stopped}}}
        await api.patch(Node, node.metadata.name, None, patch, patch_type="merge")


async def count_pods(api: LocalApi) -> dict[str, dict[str, int]]:
    """Pods by the kind of their owner and by where they run, or why not."""
    zones = {
        node.metadata.name: node.metadata.labels[ZONE] for node in (await api.list(Node)).items
    }
    counts: dict[str, Counter[str]] = {}
    for pod in (await api.list(Pod)).items:
        owner = pod.metadata.owner_references[0].kind
        where = f"zone {zones[pod.spec.node_name]}" if pod.spec.node_name else "no node"
        state = pod.status.phase
        if pod.metadata.deletion_timestamp is not None:
            state = "Terminating"
        counts.setdefault(owner, Counter())[f"{state} in {where}"] += 1
    return {owner: dict(sorted(found.items())) for owner, found in sorted(counts.items())}


async def outage(seed: int = 0) -> dict[str, Any]:
    """Simulate the outage; return the observations at each step, and a digest of every object."""
    clock: Clock = current_clock()
    cluster = EmbeddedCluster(clock, derive(seed, "store"), heartbeats=False)
    scheduler = Scheduler(cluster.api, clock, seed=seed)
    seen: dict[str, Any] = {}
    async with cluster, running(*cluster.parts, scheduler):
        await create_workload(cluster.api)
        await clock.sleep(30 * SECOND)
        seen["before"] = await count_pods(cluster.api)
        await mark_zone(cluster.api, "a", "true")
        await clock.sleep(60 * SECOND)
        seen["a minute later"] = await count_pods(cluster.api)
        await clock.sleep(300 * SECOND)
        seen["after the toleration time"] = await count_pods(cluster.api)
        await mark_zone(cluster.api, "a", None)
        await clock.sleep(1200 * SECOND)
        seen["long after its return"] = await count_pods(cluster.api)
        store = cluster.store
        digest = hashlib.sha256()
        for resource in sorted(store.catalog.all(), key=lambda each: each.group_resource):
            for record in sorted(store.collection(resource).objects.items()):
                digest.update(json.dumps([record[0], record[1].data], sort_keys=True).encode())
        seen["digest"] = digest.hexdigest()
    return seen


def main() -> None:
    began = time.perf_counter()
    seen = run(outage)
    took = time.perf_counter() - began
    print(json.dumps(seen, indent=2))
    print(f"half an hour in {took:.1f} s")


if __name__ == "__main__":
    main()
