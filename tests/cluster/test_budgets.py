"""The cost of one object in controllers, kubelets and the collector, in function calls.

The tests cover every list and map of every kind that a component of the embedded cluster reads, and
the objects derived from it: pods of templates, claims of volumes. The cost may be linear in the
size of an object, but not quadratic.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.cluster.apiserver.rules.schema.definitions import definition_of
from kubesched.cluster.controllers.controller_registry import FOLLOWED
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.testing import make_node
from tests.cluster.apiserver.largest_objects import fillable_fields
from tests.counted_calls import Growth, counted
from tests.fuzz.service import KINDS
from tests.scheduler.hostile_object_harness import fresh

Json = dict[str, Any]

SIZE = 25
CALLS_PER_ITEM = 5_000
"""In the whole life of an object, events and watches included; a volume is two more objects."""

SKETCH = {"containers": [{"name": "c", "image": "i"}]}
REQUEST = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def ephemeral(count: int, storage_class: str) -> list[Json]:
    template = {"spec": {**REQUEST, "storageClassName": storage_class}}
    return [
        {"name": f"v{number}", "ephemeral": {"volumeClaimTemplate": template}}
        for number in range(count)
    ]


def pod(**spec: Any) -> Json:
    return {"kind": "Pod", "spec": {**SKETCH, "nodeName": "n0", **spec}}


def owner(kind: str, template: Json, metadata: Json | None = None, **spec: Any) -> Json:
    labels = {"a": "b"}
    made = {"metadata": {"labels": labels, **(metadata or {})}, "spec": {**SKETCH, **template}}
    chosen = {"selector": {"matchLabels": labels}} if kind != "Job" else {}
    return {"kind": kind, "spec": {**chosen, "template": made, **spec}}


def volumes(count: int) -> list[Json]:
    return [{"name": f"v{number}", "emptyDir": {}} for number in range(count)]


def containers(count: int) -> list[Json]:
    return [{"name": f"c{number}", "image": "i"} for number in range(count)]


def pairs(count: int) -> Json:
    return {f"example.com/k{number}": "v" for number in range(count)}


def variables(count: int) -> list[Json]:
    return [{"name": "c", "image": "i", "env": [{"name": f"E{n}"} for n in range(count)]}]


def claim_templates(count: int) -> Json:
    templates = [{"metadata": {"name": f"t{number}"}, "spec": REQUEST} for number in range(count)]
    kept = {"whenDeleted": "Delete", "whenScaled": "Delete"}
    return {"volumeClaimTemplates": templates, "persistentVolumeClaimRetentionPolicy": kept}


def taints(count: int) -> list[Json]:
    return [{"key": f"k{number}", "effect": "NoExecute"} for number in range(count)]


def tolerations(count: int) -> list[Json]:
    return [{"key": f"k{number}", "operator": "Exists"} for number in range(count)]


def owners(count: int) -> list[Json]:
    return [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": f"o{number}", "uid": f"{number}"}
        for number in range(count)
    ]


SpecSteps = Callable[[int], list[Json]]
MADE_OF_IT: dict[str, SpecSteps] = {
    "volumes that live with a pod": lambda n: [pod(volumes=ephemeral(n, "immediate"))],
    "volumes that wait for a pod": lambda n: [pod(volumes=ephemeral(n, "standard"))],
    "claims that are not there": lambda n: [
        pod(
            volumes=[
                {"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"c{i}"}} for i in range(n)
            ]
        )
    ],
    "claims of devices": lambda n: [
        {
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": "t"},
            "spec": {
                "spec": {
                    "devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}
                }
            },
        },
        pod(resourceClaims=[{"name": f"r{i}", "resourceClaimTemplateName": "t"} for i in range(n)]),
    ],
    "containers": lambda n: [pod(containers=containers(n))],
    "containers at the start": lambda n: [pod(initContainers=containers(n))],
    "taints that a pod tolerates": lambda n: [
        {"kind": "Node", "metadata": {"name": "tainted"}, "spec": {"taints": taints(n)}},
        pod(nodeName="tainted", tolerations=tolerations(n)),
    ],
    "volumes of a Deployment": lambda n: [owner("Deployment", {"volumes": volumes(n)})],
    "labels of a Deployment": lambda n: [
        owner("Deployment", {}, {"labels": {"a": "b", **pairs(n)}})
    ],
    "containers of a DaemonSet": lambda n: [owner("DaemonSet", {"containers": containers(n)})],
    "variables of a Job with indexes": lambda n: [
        owner(
            "Job",
            {"containers": variables(n), "restartPolicy": "Never"},
            completionMode="Indexed",
            completions=2,
            parallelism=2,
        )
    ],
    "claims of a StatefulSet": lambda n: [
        owner("StatefulSet", {}, replicas=2, serviceName="s", **claim_templates(n))
    ],
    "devices of a node": lambda n: [
        {
            "kind": "Node",
            "metadata": {
                "name": "devices",
                "annotations": {
                    "kubesched.io/devices": f'[{{"driver": "d.x.io", "count": {8 * n}}}]'
                },
            },
        }
    ],
    "owners": lambda n: [{"kind": "ConfigMap", "metadata": {"ownerReferences": owners(n)}}],
}


async def life(cluster: EmbeddedCluster, documents: list[Json], status: Any = None) -> None:
    """Create, change and delete objects, and wait after each step until the cluster is idle."""
    api, now_ns = cluster.store, cluster.store._now_ns
    places = []
    for document in documents:
        resource = KINDS[document["kind"]]
        namespace = "default" if resource.namespaced else None
        metadata = {"name": "x", **document.get("metadata", {})}
        api.create(resource, namespace, {**document, "metadata": metadata}, now_ns)
        places.append((resource, namespace, metadata["name"]))
    if status is not None:
        patch = {"status": status}
        with contextlib.suppress(ApiError):
            api.patch(*places[-1], patch, now_ns, patch_type="merge", subresource="status")
    await asyncio.sleep(20)
    for place in places:
        patch = {"metadata": {"annotations": {"changed": "yes"}}}
        api.patch(*place, patch, now_ns, patch_type="merge")
    await asyncio.sleep(5)
    for place in reversed(places):
        api.delete(*place, now_ns, grace_period_seconds=0)
    await asyncio.sleep(60)
    for place in places:
        with contextlib.suppress(
            ApiError
        ):  # it is deleted, or waits for a controller that does not run here
            api.patch(*place, {"metadata": {"finalizers": None}}, now_ns, patch_type="merge")
    await asyncio.sleep(1)


async def growth_of(steps: Callable[[int], Awaitable[None]]) -> Growth:
    await steps(4 * SIZE)  # objects that are created once and reused
    small, middle, large = [await counted(steps(times * SIZE)) for times in (1, 2, 4)]
    return Growth((middle - small) / SIZE, (large - middle) / (2 * SIZE))


def in_a_cluster(test: Callable[[EmbeddedCluster], Awaitable[None]]) -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(current_clock(), random.Random(0), heartbeats=False)
        async with cluster, running(*cluster.parts):
            await cluster.api.create(fresh(make_node("n0", cpu="8")))
            await asyncio.sleep(1)
            await test(cluster)

    virtual_loop.run(main, seed=0)


@pytest.mark.parametrize("steps", MADE_OF_IT.values(), ids=MADE_OF_IT)
def test_work_per_object_is_linear_in_its_items(steps: SpecSteps) -> None:
    async def test(cluster: EmbeddedCluster) -> None:
        growth = await growth_of(lambda count: life(cluster, steps(count)))
        assert growth.is_linear, growth
        assert growth.among_many <= CALLS_PER_ITEM, growth

    in_a_cluster(test)


REAL = {"Pod": {"nodeName": "n0"}, "CronJob": {"schedule": "0 0 1 1 *"}}
"""A pod with an owner, and a schedule that makes the costs deterministic."""
SEEN = {each.kind: each for each in Store(random.Random(0)).catalog.all() if each.type in FOLLOWED}


@pytest.mark.parametrize("resource", SEEN.values(), ids=SEEN)
def test_every_list_of_every_kind_costs_no_more_than_its_items(resource: Resource) -> None:
    if definition_of(resource.group, resource.version, resource.kind) is None:
        return

    async def test(cluster: EmbeddedCluster) -> None:
        for place in fillable_fields(resource):

            async def steps(count: int, place: Any = place) -> None:
                made = place.filled(count, "x")
                made["spec"] = {**made.get("spec", {}), **REAL.get(resource.kind, {})}
                with contextlib.suppress(ApiError):  # `tests/cluster/apiserver/test_budgets.py`
                    await life(cluster, [made], made.get("status"))

            growth = await growth_of(steps)
            assert growth.is_linear, (str(place), growth)
            assert growth.among_many <= CALLS_PER_ITEM, (str(place), growth)

    in_a_cluster(test)
