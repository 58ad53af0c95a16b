"""A cluster with a scheduler for pod groups, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from kubesched.api import (
    BasicSchedulingPolicy,
    EventsEvent,
    GangSchedulingPolicy,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    PodSchedulingGroup,
)
from kubesched.cluster.apiserver.local_api import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.foundation.metrics.scheduler_metrics import SchedulerMetrics
from kubesched.foundation.util.clock import current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.randomness import derive
from kubesched.framework import Plugin
from kubesched.scheduler.config.feature_gates import FeatureGates
from kubesched.scheduler.options import SchedulerOptions
from kubesched.scheduler.scheduler import Scheduler
from kubesched.testing import make_pod
from tests.scheduler.test_scheduler import Faults

BASIC = {"GenericWorkload": True}
GANGS = {**BASIC, "GangScheduling": True}
HELD = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def gang(count: int, name: str = "g", **fields: Any) -> PodGroup:
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=count))
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(scheduling_policy=policy, **fields),
    )


def basic(name: str = "g", **fields: Any) -> PodGroup:
    policy = PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
    return PodGroup(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodGroupSpec(scheduling_policy=policy, **fields),
    )


def member(name: str, cpu: str = "1", group: str = "g", **wishes: Any) -> Pod:
    pod = make_pod(name, images=["example.com/app:v1"], requests={"cpu": cpu}, **wishes)
    return replace(
        pod, spec=replace(pod.spec, scheduling_group=PodSchedulingGroup(pod_group_name=group))
    )


class GroupHarness:
    """A store, a scheduler on it, and access to their state for a test."""

    def __init__(
        self,
        gates: Mapping[str, bool],
        *plugins: type[Plugin],
        seed: int = 0,
        store: Store | None = None,
        faults: Faults | None = None,
        **options: Any,
    ) -> None:
        self.clock = current_clock()
        self.faults = faults or Faults()
        self.store = store or Store(derive(seed, "store"), now_ns=self.clock.now_ns())
        self.api = LocalApi(self.store, self.clock)
        self.metrics = SchedulerMetrics(CollectorRegistry(), pod_groups=True)
        given: SchedulerOptions = {"feature_gates": FeatureGates(gates), "seed": seed, **options}
        if plugins:
            enabled = [{"name": plugin.name} for plugin in plugins]
            given["profiles"] = [{"plugins": {"multiPoint": {"enabled": enabled}}}]
            given["out_of_tree_registry"] = {plugin.name: plugin for plugin in plugins}
        self.scheduler = Scheduler(
            LocalApi(self.store, self.clock, faults=self.faults),
            self.clock,
            metrics=self.metrics,
            **given,
        )

    async def add(self, *objects: Any) -> None:
        for each in objects:
            metadata = replace(each.metadata, resource_version="", uid="")
            await self.api.create(replace(each, metadata=metadata))

    async def settle(self, seconds: float = 0.5) -> None:
        await asyncio.sleep(seconds)
        self.scheduler.cache.check_invariants()
        self.scheduler.queue.check_invariants()

    async def pod(self, name: str, namespace: str = "default") -> Pod:
        return await self.api.get(Pod, name, namespace)

    async def nodes(self, *names: str) -> list[str]:
        """Return the nodes of the pods; empty for waiting pods."""
        return [(await self.pod(name)).spec.node_name for name in names]

    async def bound(self) -> set[str]:
        """Names of the pods that have a node."""
        return {pod.metadata.name for pod in (await self.api.list(Pod)).items if pod.spec.node_name}

    async def condition(self, name: str) -> tuple[str, str, str] | None:
        for each in (await self.pod(name)).status.conditions:
            if each.type == "PodScheduled":
                return each.status, each.reason, each.message
        return None

    async def group_condition(self, name: str = "g") -> tuple[str, str, str] | None:
        for each in (await self.api.get(PodGroup, name, "default")).status.conditions:
            if each.type == "PodGroupScheduled":
                return each.status, each.reason, each.message
        return None

    async def notes(self, name: str) -> list[str]:
        listed = await self.api.list(EventsEvent, "default")
        return [event.note for event in listed.items if event.regarding.name == name]

    def attempts(self, result: str) -> float:
        """How many group cycles had this result."""
        family = self.metrics.podgroup_schedule_attempts_total
        assert family is not None
        return family.labels(result, "default-scheduler").value


@contextlib.asynccontextmanager
async def group_harness(
    gates: Mapping[str, bool] = GANGS, *plugins: type[Plugin], **options: Any
) -> AsyncIterator[GroupHarness]:
    made = GroupHarness(gates, *plugins, **options)
    async with running(made.scheduler):
        yield made
