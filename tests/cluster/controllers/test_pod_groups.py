"""PodGroups in an embedded cluster are protected while they have pods."""

from __future__ import annotations

import asyncio

from kubesched.api import ApiError, Pod, PodGroup
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.foundation.util.virtual_loop import run


async def _is_there(cluster: EmbeddedCluster) -> bool:
    try:
        await cluster.api.get(PodGroup, "g", "default")
    except ApiError:
        return False
    return True


def test_a_group_is_deleted_after_its_last_unfinished_pod() -> None:
    async def scenario() -> None:
        features = frozenset({"GenericWorkload"})
        cluster = EmbeddedCluster(
            current_clock(), derive(0, "store"), heartbeats=False, features=features
        )
        api = cluster.api
        async with running(*cluster.parts):
            spec = {"schedulingPolicy": {"basic": {}}}
            await api.create_document(
                PodGroup, "default", {"metadata": {"name": "g"}, "spec": spec}
            )
            for name, of in (("p", "g"), ("other", "h")):
                pod = {
                    "containers": [{"name": "c", "image": "i"}],
                    "schedulingGroup": {"podGroupName": of},
                }
                await api.create_document(Pod, "default", {"metadata": {"name": name}, "spec": pod})
            await asyncio.sleep(1)
            await api.delete(PodGroup, "g", "default")
            await asyncio.sleep(5)
            assert await _is_there(cluster)
            await api.delete(Pod, "p", "default")
            await asyncio.sleep(5)
            assert not await _is_there(cluster)

    run(scenario)


def test_a_cluster_without_the_feature_has_no_groups() -> None:
    async def scenario() -> None:
        cluster = EmbeddedCluster(current_clock(), derive(0, "store"), heartbeats=False)
        async with running(*cluster.parts):
            await asyncio.sleep(1)
            assert not await _is_there(cluster)

    run(scenario)
