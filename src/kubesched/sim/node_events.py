"""Creation, failure, drain and removal of nodes, as a scenario describes them."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from kubesched.api import ApiError, Node, Pod
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.apiserver.store.pod_eviction import admit_eviction
from kubesched.foundation.util.clock import SECOND, Clock
from kubesched.foundation.util.randomness import derive
from kubesched.sim.observer import NodeState
from kubesched.sim.scenario import GROUP_LABEL, Scenario, ScenarioEvent, Target
from kubesched.sim.templates import ZONE_LABEL, named_node

__all__ = ["NodeEvents"]

_STOPPED = "kubesched.io/stopped"
_DAY_NS = 86_400 * SECOND
_RETRY_NS = 5 * SECOND
_NOT_FOUND, _CONFLICT, _TOO_MANY, _SEVERAL_BUDGETS = 404, 409, 429, 500


class NodeEvents:
    """Creates the nodes of all groups, and carries out the events of the scenario."""

    def __init__(self, api: LocalApi, clock: Clock, scenario: Scenario, seed: int) -> None:
        self._api, self._clock = api, clock
        self._scenario, self._seed = scenario, seed
        self._groups = {group.name: group for group in scenario.groups}
        self._created: dict[str, int] = dict.fromkeys(self._groups, 0)
        self._tasks: asyncio.TaskGroup | None = None

    async def create_groups(self) -> None:
        for group in self._scenario.groups:
            await self.add(group.name, group.count)

    async def add(self, group: str, count: int = 1) -> None:
        """Add nodes to a group; the names of removed nodes are not reused."""
        for _ in range(count):
            await self._api.create(named_node(self._groups[group], self._created[group]))
            self._created[group] += 1

    def next_nodes(self, name: str) -> list[Node]:
        """Return the nodes that `add` would create next, one for each zone."""
        group = self._groups[name]
        return [
            named_node(group, self._created[name] + each) for each in range(len(group.zones) or 1)
        ]

    async def remove(self, name: str) -> None:
        try:
            await self._api.delete(Node, name)
        except ApiError as error:
            if error.code != _NOT_FOUND:
                raise

    def allocatable(self, group: str) -> dict[str, int]:
        """Return the allocatable amounts of a node of the group."""
        return NodeState(self._groups[group].template, 0).allocatable

    async def run(self) -> None:
        """Carry out all events; the tasks of events are cancelled with this one."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            for number, event in enumerate(self._scenario.node_events):
                tasks.create_task(self._follow(event, number), name=f"sim.{event.kind}")

    async def _follow(self, event: ScenarioEvent, number: int) -> None:
        rng = derive(self._seed, "happening", number)
        start_ns = self._scenario.start_ns
        for time_ns in event.arrivals.times(rng, start_ns % _DAY_NS):
            wait_ns = start_ns + time_ns - self._clock.now_ns()
            if wait_ns > 0:
                await self._clock.sleep(wait_ns)
            lasts_ns = None if event.lasts is None else event.lasts.draw(rng)
            if event.kind == "add":
                await self.add(event.target.group, event.count)
                continue
            names = await self._chosen(event.target, rng, event.arrivals.kind == "poisson")
            for name in names:
                await self._begin(event.kind, name)
            if lasts_ns is not None:
                # In a task of its own: a repair may take longer than the time to the next failure.
                self._spawn(self._end_later(event.kind, names, lasts_ns))

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        assert self._tasks is not None, "events are carried out by `run`"
        self._tasks.create_task(work, name="sim.node_event")

    async def _chosen(self, target: Target, rng: random.Random, one: bool) -> list[str]:
        """Choose the nodes of an event; without a count one node if `one`, otherwise all."""
        nodes = (await self._api.list(Node)).items
        names = sorted(
            node.metadata.name
            for node in nodes
            if (not target.group or node.metadata.labels.get(GROUP_LABEL) == target.group)
            and (not target.zone or node.metadata.labels.get(ZONE_LABEL) == target.zone)
            and (not target.names or node.metadata.name in target.names)
            and _STOPPED not in node.metadata.annotations
        )
        count = target.count if target.count is not None else (1 if one else len(names))
        return sorted(rng.sample(names, min(count, len(names)))) if count < len(names) else names

    async def _begin(self, kind: str, name: str) -> None:
        if kind == "remove":
            await self.remove(name)
        elif kind == "fail":
            await self._change(name, {"metadata": {"annotations": {_STOPPED: "true"}}})
        else:
            await self._change(name, {"spec": {"unschedulable": True}})
            self._spawn(self._evict_all(name))

    async def _end_later(self, kind: str, names: list[str], lasts_ns: int) -> None:
        await self._clock.sleep(lasts_ns)
        for name in names:
            if kind == "fail":
                await self._change(name, {"metadata": {"annotations": {_STOPPED: None}}})
            elif kind == "drain":
                await self._change(name, {"spec": {"unschedulable": None}})

    async def _change(self, name: str, patch: dict[str, Any]) -> None:
        try:
            await self._api.patch(Node, name, None, patch)
        except ApiError as error:
            if error.code != _NOT_FOUND:
                raise

    async def _evict_all(self, node: str) -> None:
        """Evict the pods of a node as `kubectl drain` does: budgets are respected."""
        while True:
            pods = await self._api.list(Pod, field_selector=f"spec.nodeName={node}")
            remaining = [pod for pod in pods.items if _is_evicted(pod)]
            if not remaining:
                return
            refused = False
            for pod in remaining:
                refused |= not await self._evict(pod)
            if not refused:
                return
            await self._clock.sleep(_RETRY_NS)

    async def _evict(self, pod: Pod) -> bool:
        namespace, name = pod.metadata.namespace, pod.metadata.name
        try:
            admit_eviction(self._api.store, namespace, name, self._clock.now_ns())
            await self._api.delete(Pod, name, namespace, uid=pod.metadata.uid)
        except ApiError as error:
            if error.code in (_TOO_MANY, _SEVERAL_BUDGETS):
                return False
            if error.code not in (_NOT_FOUND, _CONFLICT):
                raise
        return True


def _is_evicted(pod: Pod) -> bool:
    owners = pod.metadata.owner_references
    return (
        pod.metadata.deletion_timestamp is None
        and pod.status.phase not in ("Succeeded", "Failed")
        and not any(owner.kind == "DaemonSet" for owner in owners)
    )
