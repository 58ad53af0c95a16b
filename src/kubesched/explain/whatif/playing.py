"""Simulates a plan on a copy of a cluster, in virtual time.

The copy settles without changes first. Then the changes are made, and it settles again. The result
is the difference between the two states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from kubesched.api.base import ApiObject
from kubesched.api.latest_time import latest_time_ns
from kubesched.explain.whatif.difference import ClusterState, WhatIf, difference
from kubesched.explain.whatif.plan import Plan, carry_out
from kubesched.foundation.util import virtual_loop
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = ["play"]


def play(
    objects: Iterable[ApiObject],
    plan: Plan,
    *,
    configuration: KubeSchedulerConfiguration | None = None,
    plugins: Mapping[str, Any] | None = None,
    seed: int = 0,
    now_ns: int = 0,
) -> WhatIf:
    """Simulate the plan on a copy of the cluster. The same input gives the same result.

    The copy starts at `now_ns`, but not before the latest time in the objects.

    Raises:
        ExplainError: the plan names an object that does not exist.
    """
    whole = list(objects)
    start_ns = max(latest_time_ns(whole), now_ns) or virtual_loop.DEFAULT_START_NS
    return virtual_loop.run(
        lambda: _play(whole, plan, configuration, plugins, seed), start_ns=start_ns, seed=seed
    )


async def _play(
    objects: list[ApiObject],
    plan: Plan,
    configuration: KubeSchedulerConfiguration | None,
    plugins: Mapping[str, Any] | None,
    seed: int,
) -> WhatIf:
    # Imported here: the embedded cluster takes long to import, and a running scheduler rarely needs
    # it.
    from kubesched.explain.clusters.virtual_cluster import VirtualCluster

    baseline = VirtualCluster(configuration=configuration, plugins=plugins, seed=seed)
    await baseline.copy_objects(objects)
    async with baseline.running():
        await baseline.settle()
        before = ClusterState(await baseline.pods(), await baseline.nodes())
        kept = await baseline.objects_like(objects)
    other = plan.configuration or configuration
    cluster = VirtualCluster(configuration=other, plugins=plugins, seed=seed, phase="changed")
    await cluster.copy_objects(kept)
    async with cluster.running():
        await cluster.settle()
        refused = await carry_out(cluster, plan)
        settled = await cluster.settle()
        after = ClusterState(await cluster.pods(), await cluster.nodes())
        preempted = await cluster.preempted()
    answer = difference(before, after, refused, preempted, settled=settled)
    return replace(answer, drain_order=plan.drain)
