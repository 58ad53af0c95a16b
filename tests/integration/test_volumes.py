"""A scheduler process that is killed in PreBind, on an API server behind a socket."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from kubesched.api import Node, PersistentVolume, PersistentVolumeClaim
from kubesched.cluster.controllers import Controllers
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.components import running
from kubesched.testing import (
    make_node_selector,
    make_pod,
    make_pv,
    make_pvc,
    make_storage_class,
)
from tests.integration.scheduler_cluster import Cluster, run_steps

PODS, PER_NODE = 8, 12


async def make_volumes(cluster: Cluster) -> None:
    create: Any = cluster.create
    await create(make_storage_class("local", provisioner="kubernetes.io/no-provisioner"))
    for node in (await cluster.api.list(Node)).items:
        name = node.metadata.name
        await cluster.api.update(
            replace(node, metadata=replace(node.metadata, labels={"host": name}))
        )
        for place in range(PER_NODE):
            selector = make_node_selector(("host", "In", name))
            await create(make_pv(f"{name}-{place}", storage_class="local", node_selector=selector))


async def until_written(cluster: Cluster) -> None:
    """Wait until the scheduler has chosen a volume."""
    while True:
        volumes = (await cluster.api.list(PersistentVolume)).items
        if any(each.spec.claim_ref is not None for each in volumes):
            return
        await asyncio.sleep(0.02)


async def steps(cluster: Cluster) -> None:
    create: Any = cluster.create
    async with running(Controllers(cluster.api, RealClock())):
        await make_volumes(cluster)
        async with cluster.scheduler("--leader-elect=false") as first:
            for number in range(PODS):
                claims = [f"{kind}-{number}" for kind in ("data", "log")]
                for name in claims:
                    await create(make_pvc(name, storage_class="local"))
                await create(make_pod(f"p{number}", pvcs=claims, images=["i"]))
            await until_written(cluster)
            # Somewhere in PreBind: nothing is bound within the first second of a wait.
            first.kill()
            await first.wait()
        async with cluster.scheduler("--leader-elect=false"):
            pods = await cluster.until_bound(PODS)
    homes = {pod.metadata.name: pod.spec.node_name for pod in pods}
    claims_made = (await cluster.api.list(PersistentVolumeClaim)).items
    users = Counter(claim.spec.volume_name for claim in claims_made)
    assert len(users) == 2 * PODS, "every claim has a volume of its own"
    assert "" not in users
    volumes = {
        each.metadata.name: each for each in (await cluster.api.list(PersistentVolume)).items
    }
    for claim in claims_made:
        home = homes[f"p{claim.metadata.name.partition('-')[2]}"]
        assert claim.spec.volume_name.startswith(f"{home}-")
        reference = volumes[claim.spec.volume_name].spec.claim_ref
        assert reference is not None
        assert reference.uid == claim.metadata.uid


def test_state_of_a_scheduler_killed_in_pre_bind_is_cleaned_up(tmp_path: Path) -> None:
    run_steps(tmp_path, steps, nodes=3)
