"""A live cluster: replacing its scheduler, settling, and objects of other clusters."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Pod, ReplicaSet
from kubesched.api.pod import PodTemplateSpec
from kubesched.cluster.embedded_cluster import ClusterPart, EmbeddedCluster
from kubesched.cluster.live_cluster import LiveCluster
from kubesched.cluster.takeover import Identity
from kubesched.dashboard.configuration_text import read_configuration
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.errors import ConfigError
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.randomness import derive
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.testing import (
    make_meta,
    make_namespace,
    make_node,
    make_owner,
    make_pod,
    make_replica_set,
)

PACKED = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
"""


START_NS = 1_800_000_000_000_000_000


def without_identity(made: Any) -> Any:
    return replace(made, metadata=replace(made.metadata, uid="", resource_version=""))


def empty_cluster(parts: ClusterPart = ClusterPart.ALL) -> LiveCluster:
    """A cluster in virtual time, with the default configuration."""
    cluster = EmbeddedCluster(
        current_clock(),
        derive(0, "store"),
        with_initial_objects=False,
        heartbeats=False,
        parts=parts,
    )
    return LiveCluster(cluster, configuration=default_configuration())


def test_the_next_pods_follow_the_new_configuration() -> None:
    async def main() -> None:
        live = empty_cluster(ClusterPart.NONE)
        api = live.api
        for name in ("a", "b"):
            await api.create(without_identity(make_node(name, cpu="8")))
        log = DecisionLog(live.clock.now_ns)
        live.watch_scheduler(lambda scheduler: scheduler.watch(log))

        async def placed(*names: str) -> list[str]:
            for name in names:
                pod = make_pod(name, images=["x"], requests={"cpu": "1"})
                await api.create(without_identity(pod))
                await asyncio.sleep(1)
            return [(await api.get(Pod, name, "default")).spec.node_name for name in names]

        async with live.running():
            await live.scheduler.synced.wait()
            first = await placed("p1", "p2")
            packed = read_configuration(PACKED)
            await live.replace_scheduler(packed)
            second = await placed("p3", "p4", "p5")
            impossible = replace(packed, profiles=(*packed.profiles, *packed.profiles))
            with pytest.raises(ConfigError):
                await live.replace_scheduler(impossible)
            assert live.configuration is packed
            third = await placed("p6")
        assert sorted(first) == ["a", "b"]
        assert len({*second, *third}) == 1
        assert log.placed == 6

    virtual_loop.run(main, start_ns=START_NS, seed=0)


def test_a_cluster_settles_when_no_pod_changes_any_more() -> None:
    async def main() -> None:
        live = empty_cluster()
        await live.api.create(without_identity(make_node("a", cpu="8")))
        async with live.running():
            await live.api.create(without_identity(make_pod("p", images=["x"])))
            before_ns = live.clock.monotonic_ns()
            assert await live.settle()
            assert (await live.pods())["default/p"].spec.node_name == "a"
            assert live.clock.monotonic_ns() - before_ns < 30 * SECOND
            assert not await live.settle(longest_ns=5 * SECOND)

    virtual_loop.run(main, start_ns=START_NS, seed=0)


@pytest.mark.parametrize("identity", Identity)
def test_objects_of_another_cluster_are_imported_unchanged(identity: Identity) -> None:
    labels = {"app": "web"}
    owner = make_replica_set("web", namespace="shop", selector=labels)
    template = PodTemplateSpec(
        metadata=make_meta("Pod", "", labels=labels), spec=make_pod("p", images=["x"]).spec
    )
    owner = replace(owner, spec=replace(owner.spec, replicas=1, template=template))
    pod = make_pod(
        "web-1",
        namespace="shop",
        labels=labels,
        images=["x"],
        node_name="a",
        owner=make_owner("ReplicaSet", "web", namespace="shop"),
    )

    async def main() -> None:
        live = empty_cluster()
        objects: list[Any] = [pod, make_node("a", cpu="8"), owner]
        if identity is Identity.NEW:
            objects.insert(0, make_namespace("shop"))
        await live.take_over(objects, identity)
        kept = (await live.api.get(Pod, "web-1", "shop")).metadata
        taken = await live.api.get(ReplicaSet, "web", "shop")
        assert [each.uid for each in kept.owner_references] == [taken.metadata.uid]
        assert (taken.metadata.uid == owner.metadata.uid) == (identity is Identity.KEPT)
        async with live.running():
            await live.settle()
            assert (await live.pods())["shop/web-1"].spec.node_name == "a"

    virtual_loop.run(main, start_ns=START_NS, seed=0)
