"""Arbitrary stored objects: controllers, kubelets and scheduler go on running."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod
from tests.fuzz.effort import effort
from tests.fuzz.service import KINDS
from tests.hostile_values import documents
from tests.scheduler.hostile_object_harness import fresh

POD_SPEC = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": {**POD_SPEC, "restartPolicy": "Never"}}
OWNED = {"selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
# The fields that a kind requires to be stored; generated fields are merged into them.
SEEDS: dict[str, dict[str, Any]] = {
    "Pod": {"spec": POD_SPEC},
    "Node": {},
    "Deployment": {
        "spec": {
            **OWNED,
            "template": {"metadata": TEMPLATE["metadata"], "spec": POD_SPEC},
            "replicas": 2,
        }
    },
    "Job": {"spec": {"template": TEMPLATE}},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}},
    "PodDisruptionBudget": {"spec": {"selector": {}}},
    "PersistentVolumeClaim": {
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    },
    "Lease": {},
    "Event": {"involvedObject": {"namespace": "default"}},
    "Namespace": {},
}
COUNTS = frozenset({"replicas", "parallelism", "completions"})
MOST_PODS = 100


@effort(25)
@given(data=st.data())
def test_the_cluster_continues(data: st.DataObject) -> None:
    async def main() -> None:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, random.Random(0))
        scheduler = Scheduler(cluster.api, clock, seed=1)
        async with cluster, running(*cluster.parts, scheduler):
            for number in range(2):
                await cluster.api.create(fresh(make_node(f"n{number}", cpu="8")))
            for number in range(data.draw(st.integers(1, 5))):
                kind = data.draw(st.sampled_from(sorted(SEEDS)))
                _store(cluster, kind, f"odd{number}", few(data.draw(documents(KINDS[kind].type))))
                await asyncio.sleep(data.draw(st.sampled_from([0, 1, 100])))
            await asyncio.sleep(4000)
            await cluster.api.create(fresh(make_pod("innocent", images=["i"])))
            await asyncio.sleep(60)
            pod = await cluster.api.get(Pod, "innocent", "default")
            assert pod.spec.node_name

    virtual_loop.run(main, seed=0)


def few(drawn: Any) -> Any:
    """Reduce the numbers in an object to a moderate number of pods.

    Creating as many pods as a large number asks for takes hours.
    `tests/cluster/controllers/test_bounds.py` tests unlimited numbers.
    """
    if isinstance(drawn, dict):
        return {
            key: min(value, MOST_PODS) if key in COUNTS and isinstance(value, int) else few(value)
            for key, value in drawn.items()
        }
    return [few(each) for each in drawn] if isinstance(drawn, list) else drawn


def _store(cluster: EmbeddedCluster, kind: str, name: str, drawn: dict[str, Any]) -> None:
    """Create the object with as many of the generated fields as the server accepts."""
    resource = KINDS[kind]
    store, now_ns = cluster.store, cluster.store._now_ns
    namespace = "default" if resource.namespaced else None
    metadata = {**(drawn.get("metadata") or {}), "name": name}
    for unwanted in ("namespace", "resourceVersion", "uid", "deletionTimestamp"):
        metadata.pop(unwanted, None)
    seed = SEEDS[kind]
    tries: list[dict[str, Any]] = [
        {**seed, "metadata": {"name": name}},
        {**seed, "metadata": metadata},
        {**drawn, "spec": {**seed.get("spec", {}), **(drawn.get("spec") or {})}},
    ]
    for body in reversed(tries):
        with contextlib.suppress(ApiError):
            store.create(
                resource,
                namespace,
                {**body, "metadata": {**body.get("metadata", {}), "name": name}},
                now_ns,
            )
            break
    for part in ("status", "spec", "metadata"):
        if isinstance(drawn.get(part), dict):
            subresource = "status" if part == "status" else ""
            patch = metadata if part == "metadata" else drawn[part]
            with contextlib.suppress(ApiError):
                store.patch(
                    resource,
                    namespace,
                    name,
                    {part: patch},
                    now_ns,
                    patch_type="merge",
                    subresource=subresource,
                )
