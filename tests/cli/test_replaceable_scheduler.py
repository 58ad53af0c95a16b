"""A scheduler that is exchanged for another while the cluster runs."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.cli.replaceable_scheduler import ReplaceableScheduler
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.dashboard.configuration_text import read_configuration
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.errors import ConfigError
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.scheduler.config.defaults import default_configuration
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_node, make_pod

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


def fresh(made: Any) -> Any:
    return replace(made, metadata=replace(made.metadata, uid="", resource_version=""))


def test_the_next_pods_follow_the_new_configuration() -> None:
    async def main() -> None:
        clock = current_clock()
        api = LocalApi(Store(random.Random(0), now_ns=clock.now_ns()), clock)
        can_build = True

        def build(configuration: Any) -> Scheduler:
            if not can_build:
                raise ConfigError("no scheduler")
            return Scheduler(api, clock, configuration=configuration)

        for name in ("a", "b"):
            await api.create(fresh(make_node(name, cpu="8")))
        scheduler = ReplaceableScheduler(default_configuration(), build)
        log = DecisionLog(clock.now_ns)
        scheduler.watch(lambda found: found.watch(log))

        async def placed(*names: str) -> list[str]:
            for name in names:
                await api.create(fresh(make_pod(name, images=["x"], requests={"cpu": "1"})))
                await asyncio.sleep(1)
            return [(await api.get(Pod, name, "default")).spec.node_name for name in names]

        async with running(scheduler):
            await scheduler.current.synced.wait()
            first = await placed("p1", "p2")
            await scheduler.replace(read_configuration(PACKED))
            second = await placed("p3", "p4", "p5")
            can_build = False
            with pytest.raises(ConfigError, match="no scheduler"):
                await scheduler.replace(default_configuration())
            third = await placed("p6")
        assert sorted(first) == ["a", "b"]
        assert len({*second, *third}) == 1
        assert log.placed == 6

    virtual_loop.run(main, start_ns=1_800_000_000_000_000_000, seed=0)
