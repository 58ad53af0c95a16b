"""Random histories of gangs that preempt, with failing requests, and what must hold for them.

    python -m tests.fault_injection.gang_scenarios --from 0 --seeds 100

The last line is the number of seeds that hold. The command exits with 1 if one does not.

Pods request only CPU, so that whether a gang fits is a sum over nodes, and needs no plugin.
"""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, NamedTuple

import click
from msgspec.structs import replace

from kubesched.api import Node, ObjectMeta, Pod, PodGroup, PriorityClass, Status
from kubesched.api.access import ApiError
from kubesched.api.scheduling import PodGroupSchedulingConstraints, TopologyConstraint
from kubesched.cluster.apiserver.local_api import Fault
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.components import running
from kubesched.framework.pod_groups import group_name_of
from kubesched.testing import make_node, make_pod
from tests.scheduler.pod_groups.group_harness import GANGS, GroupHarness, basic, gang, member
from tests.scheduler.test_scheduler import Faults

__all__ = ["run_gang_scenario"]

RACK = "example.com/rack"
PRIORITIES = (10, 20, 30, 40)
ONE_RACK = PodGroupSchedulingConstraints(topology=(TopologyConstraint(key=RACK),))
GATES = {**GANGS, "TopologyAwareWorkloadScheduling": True, "WorkloadAwarePreemption": True}
_UNAVAILABLE = ApiError(Status(message="no", reason="ServiceUnavailable", code=503))
# After the last step: the longest wait at Permit, and some backoffs.
_QUIET_S = 420


class _Placed(NamedTuple):
    """A pod on a node, as the oracle has it."""

    cpu: int
    node: str
    priority: int  # of the unit with which it would be evicted


class _ObservedFaults(Faults):
    """Faults that call `observe` with the verb, kind and name of every request."""

    def __init__(self, observe: Callable[[str, str, str], None]) -> None:
        super().__init__()
        self._observe = observe

    def __call__(self, verb: str, kind: str, namespace: str | None, name: str) -> Fault | None:
        self._observe(verb, kind, name)
        fault = super().__call__(verb, kind, namespace, name)
        if fault is not None:
            self._observe(f"failed {verb}", kind, name)
        return fault


class GangScenario:
    """One random history; `violations` lists what went wrong."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(f"gangs/{seed}")
        self.violations: list[str] = []
        self._lost: dict[str, int] = {}  # by group: members that lost their node
        self._numbers = iter(range(10_000))
        self._harness = GroupHarness(GATES, seed=seed, faults=_ObservedFaults(self._observe))

    async def run(self) -> None:
        harness = self._harness
        for value in PRIORITIES:
            await harness.api.create(
                PriorityClass(metadata=ObjectMeta(name=f"of-{value}"), value=value)
            )
        async with running(harness.scheduler):
            for _ in range(self._rng.randint(2, 4)):
                await self._add_node()
            for _ in range(self._rng.randint(6, 14)):
                await self._step()
                await harness.settle(self._rng.choice([0.0, 0.0, 0.3, 5.0]))
            harness.faults.next.clear()
            await harness.settle(_QUIET_S)
            self.violations += [each async for each in self._unrest()]

    async def _step(self) -> None:
        rng = self._rng
        what = rng.choice(["gang", "gang", "gang", "pod", "pod", "node", "delete", "fault"])
        if what == "gang":
            await self._add_gang()
        elif what == "pod":
            await self._harness.add(self._of(make_pod, f"single-{next(self._numbers)}", ""))
        elif what == "node":
            await self._add_node()
        elif what == "delete":
            await self._delete_pod()
        else:
            verb = rng.choice(["bind", "patch", "delete"])
            failing = [Fault(error=_UNAVAILABLE)] * rng.choice([1, 2])
            self._harness.faults.next.setdefault(verb, []).extend(failing)

    async def _add_node(self) -> None:
        name, rack = f"n{next(self._numbers)}", self._rng.choice("ab")
        await self._harness.add(
            make_node(name, cpu=str(self._rng.randint(1, 4)), labels={RACK: rack})
        )

    async def _add_gang(self) -> None:
        rng, name = self._rng, f"g{next(self._numbers)}"
        size, priority = rng.randint(1, 4), rng.choice(PRIORITIES)
        fields: dict[str, Any] = {"priority_class_name": f"of-{priority}"}
        if rng.random() < 0.3:
            fields["scheduling_constraints"] = ONE_RACK
        if rng.random() < 0.4:
            fields["disruption_mode"] = "PodGroup"
        group = basic(name, **fields)
        if rng.random() < 0.8:
            group = gang(rng.randint(1, size), name, **fields)
        cpu = rng.choice([1, 1, 2])
        pods = [self._of(member, f"{name}-{n}", name, cpu, priority) for n in range(size)]
        objects = [group, *pods]
        rng.shuffle(objects)
        await self._harness.add(*objects)

    def _of(
        self, make: Callable[..., Pod], name: str, group: str, cpu: int = 1, priority: int = 0
    ) -> Pod:
        priority = priority or self._rng.choice(PRIORITIES)
        pod = (
            make(name, str(cpu), group)
            if group
            else make(name, images=["example.com/app:v1"], requests={"cpu": str(cpu)})
        )
        spec = replace(
            pod.spec, priority_class_name=f"of-{priority}", termination_grace_period_seconds=0
        )
        return replace(pod, spec=spec)

    async def _delete_pod(self) -> None:
        pods = (await self._harness.api.list(Pod)).items
        if pods:
            name = self._rng.choice(sorted(pod.metadata.name for pod in pods))
            self._note_loss(name)
            await self._harness.api.delete(Pod, name, "default", grace_period_seconds=0)

    def _observe(self, verb: str, kind: str, name: str) -> None:
        if verb == "bind":
            self._check_binding(name)
        # The loss of a member does not affect others once its gang has enough members.
        if verb == "failed bind" or (verb == "delete" and kind == "Pod"):
            self._note_loss(name)

    def _note_loss(self, name: str) -> None:
        group = name.rpartition("-")[0]
        self._lost[group] = self._lost.get(group, 0) + 1

    def _check_binding(self, name: str) -> None:
        """A member may only be bound when its gang has enough members with a node."""
        harness = self._harness
        pod = harness.scheduler.informers.lister(Pod).get(name, "default")
        if pod is None or not group_name_of(pod):
            return
        group = harness.scheduler.informers.lister(PodGroup).get(group_name_of(pod), "default")
        policy = None if group is None else group.spec.scheduling_policy.gang
        if policy is None:
            return
        groups = harness.scheduler.services.pod_groups
        assert groups is not None
        placed = groups.members("default", group_name_of(pod)).scheduled_count
        if placed + self._lost.get(group_name_of(pod), 0) < policy.min_count:
            self.violations.append(
                f"{name} is bound with {placed} members placed, and {policy.min_count} are required"
            )

    # The oracle

    async def _unrest(self) -> AsyncIterator[str]:
        """Report violations once the cluster is idle."""
        harness = self._harness
        api = harness.api
        nodes = (await api.list(Node)).items
        pods = (await api.list(Pod)).items
        groups = {each.metadata.name: each for each in (await api.list(PodGroup)).items}
        if harness.scheduler.cache.assumed_count or list(harness.scheduler.services.waiting_pods):
            yield "pods hold nodes and are not bound"
        placed = [_as_placed(pod, groups) for pod in pods if pod.spec.node_name]
        for name, group in sorted(groups.items()):
            members = [pod for pod in pods if group_name_of(pod) == name]
            bound = [pod for pod in members if pod.spec.node_name]
            pending = [pod for pod in members if not pod.spec.node_name]
            policy = group.spec.scheduling_policy.gang
            least = 1 if policy is None else policy.min_count
            if not pending or len(members) < least:
                continue
            needed = max(1, least - len(bound))
            cpu = _cpu(pending[0])
            if _fits(nodes, placed, cpu, needed, group, bound):
                yield f"{name} waits, and {needed} of its pods fit"
                continue
            if group.spec.scheduling_constraints is None:
                left = [each for each in placed if each.priority >= (group.spec.priority or 0)]
                if _fits(nodes, left, cpu, needed, group, bound):
                    yield f"{name} waits, and {needed} of its pods fit in place of lower ones"


def _fits(
    nodes: Any, placed: list[_Placed], cpu: int, needed: int, group: PodGroup, bound: list[Pod]
) -> bool:
    """Whether this many pods of this size fit besides the placed ones, in one rack if required."""
    room: dict[str, int] = {}
    rack_of = {node.metadata.name: node.metadata.labels[RACK] for node in nodes}
    for node in nodes:
        name = node.metadata.name
        used = sum(each.cpu for each in placed if each.node == name)
        room[name] = max(0, int(node.status.allocatable["cpu"]) - used) // cpu
    if group.spec.scheduling_constraints is None:
        return sum(room.values()) >= needed
    racks = {rack_of[pod.spec.node_name] for pod in bound} or set(rack_of.values())
    return any(
        sum(count for name, count in room.items() if rack_of[name] == rack) >= needed
        for rack in racks
    )


def _as_placed(pod: Pod, groups: dict[str, PodGroup]) -> _Placed:
    priority = pod.spec.priority or 0
    group = groups.get(group_name_of(pod))
    if group is not None and group.spec.disruption_mode == "PodGroup":
        priority = group.spec.priority or 0
    return _Placed(_cpu(pod), pod.spec.node_name, priority)


def _cpu(pod: Pod) -> int:
    return int(pod.spec.containers[0].resources.requests["cpu"])


def run_gang_scenario(seed: int) -> list[str]:
    """Run the history of a seed; return the violations."""

    async def main() -> list[str]:
        scenario = GangScenario(seed)
        await scenario.run()
        return scenario.violations

    return virtual_loop.run(main)


@click.command(help=__doc__)
@click.option("--from", "first", default=0, show_default=True)
@click.option("--seeds", default=100, show_default=True)
def main(first: int, seeds: int) -> None:
    failed = 0
    for seed in range(first, first + seeds):
        found = run_gang_scenario(seed)
        failed += bool(found)
        for each in found:
            print(f"seed {seed}: {each}", flush=True)
    print(f"{seeds - failed} of {seeds} seeds hold")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
