"""The dry-run cache: results of one preemptor serve the next until their rows change."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import Node, Pod
from kubesched.api.time import parse_time
from kubesched.framework import PodInfo
from kubesched.scheduler.backend.cache import Cache
from kubesched.scheduler.config.args import DefaultPreemptionArgs
from kubesched.scheduler.plugins.default_preemption.totals import TotalsDryRun
from kubesched.testing import make_node, make_pod
from tests.scheduler.plugins.default_preemption.preemption_fixture import (
    NOW,
    PreemptionHarness,
    nominated_to,
    run,
)
from tests.scheduler.plugins.default_preemption.procedure import Answer, Procedure

STARTS = (None, "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z", "2026-03-01T12:00:00Z")
ARGS = DefaultPreemptionArgs(min_candidate_nodes_percentage=30, min_candidate_nodes_absolute=3)


class ChangingCluster:
    """A full cluster that changes between one preemptor and the next."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.nodes = [self.node(number) for number in range(self.rng.randint(3, 12))]
        self.pods: dict[str, Pod] = {}
        self.count = 0
        self.cache = Cache()
        for node in self.nodes:
            self.cache.add_node(node)
        self.harness = PreemptionHarness(
            self.nodes, args=ARGS, seed=seed, snapshot=self.cache.snapshot
        )
        self.nominated: list[Pod] = []
        for _ in range(6 * len(self.nodes)):
            self.add_pod()
        self.cache.update_snapshot()

    def node(self, number: int) -> Node:
        cpu = self.rng.choice(("2", "4"))
        return make_node(f"node-{number}", cpu=cpu, pods=self.rng.choice((4, 110)))

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}-{self.count}"

    # -- random changes ----------------------------------------------------------------

    def add_pod(self) -> None:
        rng = self.rng
        pod = make_pod(
            self.name("running"),
            node_name=rng.choice(self.nodes).metadata.name,
            requests={"cpu": rng.choice(("500m", "1"))},
            priority=rng.choice((0, 0, 5, 50)),
            start_time=rng.choice(STARTS),
        )
        self.pods[pod.metadata.name] = pod
        self.harness.handle.objects.put(pod)
        self.cache.add_pod(pod)

    def remove_pod(self) -> None:
        if self.pods:
            self.remove(self.rng.choice(list(self.pods)))

    def remove(self, name: str) -> None:
        pod = self.pods.pop(name)
        self.harness.handle.objects.remove(Pod, pod.metadata.name, pod.metadata.namespace)
        self.cache.remove_pod(pod)

    def start(self) -> None:
        if not self.pods:
            return
        old = self.pods[self.rng.choice(list(self.pods))]
        new = replace(old, status=replace(old.status, start_time=self.rng.choice(STARTS)))
        self.pods[old.metadata.name] = new
        self.harness.handle.objects.put(new)
        self.cache.update_pod(old, new)

    def nominate(self) -> None:
        pod = self.waiting(self.rng.choice((0, 10, 100)))
        self.nominated.append(pod)
        self.harness.nominate(pod, self.rng.choice(self.nodes).metadata.name)

    def clear(self) -> None:
        if self.nominated:
            self.harness.handle.nominator.delete_nominated_pod(self.nominated.pop())

    def resize(self) -> None:
        place = self.rng.randrange(len(self.nodes))
        self.nodes[place] = self.node(place)
        self.cache.update_node(self.nodes[place])

    # -- preemptors --------------------------------------------------------------------

    def waiting(self, priority: int) -> Pod:
        pod = make_pod(
            self.name("waiting"),
            requests={"cpu": self.rng.choice(("1500m", "2"))},
            priority=priority,
        )
        self.harness.handle.objects.put(pod)
        return pod

    async def attempt(self) -> bool:
        """Schedule or preempt for a pod, compared with the oracle.

        Return whether it preempts.
        """
        harness, preemptor = self.harness, self.waiting(self.rng.choice((10, 10, 10, 60)))
        if self.rng.random() < 0.1:
            harness.nominate(preemptor, self.rng.choice(self.nodes).metadata.name)
        self.cache.update_snapshot()
        try:
            diagnosis = harness.diagnose(preemptor)
        except AssertionError:
            return False
        snapshot = harness.handle.snapshot
        listed = list(snapshot.nodes.at_rows(snapshot.order))
        chance = random.Random()
        chance.setstate(harness.handle.random.getstate())
        procedure = Procedure(
            harness.framework, harness.state, PodInfo(preemptor), [], 30, 3, parse_time(NOW), chance
        )
        want = procedure.run(diagnosis, listed)
        before = len(await harness.evicted())
        result = harness.preempt(preemptor, diagnosis)
        evicted = (await harness.evicted())[before:]
        message = result.status.message.removeprefix("preemption: ")
        assert Answer(nominated_to(result), sorted(evicted), message) == want._replace(
            victims=sorted(want.victims)
        )
        for name in evicted:
            pod = self.pods.pop(name)
            self.cache.remove_pod(pod)
        if evicted and self.rng.random() < 0.7:
            bound = replace(preemptor, spec=replace(preemptor.spec, node_name=want.node))
            self.pods[preemptor.metadata.name] = bound
            harness.handle.objects.put(bound)
            self.cache.add_pod(bound)
        elif evicted:
            self.nominated.append(preemptor)
            harness.nominate(preemptor, want.node or "")
        return bool(evicted)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32))
def test_consecutive_preemptors_agree_with_the_oracle(seed: int) -> None:
    attempt(seed, 12)


def attempt(seed: int, rounds: int) -> int:
    async def scenario() -> int:
        made = ChangingCluster(seed)
        changes = (
            made.add_pod,
            made.remove_pod,
            made.start,
            made.nominate,
            made.clear,
            made.resize,
        )
        preempted = 0
        for _ in range(rounds):
            for _ in range(made.rng.choice((0, 0, 1, 2))):
                made.rng.choice(changes)()
            preempted += await made.attempt()
        return preempted

    return run(scenario)


def test_the_second_preemptor_evaluates_few_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at: list[int] = []
    dry_run = TotalsDryRun.dry_run

    def counting(self: TotalsDryRun, rows: Any, **options: Any) -> Any:
        looked_at.append(len(rows))
        return dry_run(self, rows, **options)

    monkeypatch.setattr(TotalsDryRun, "dry_run", counting)

    async def scenario() -> None:
        nodes = [make_node(f"node-{number}", cpu="1") for number in range(20)]
        pods = [
            make_pod(f"low-{number}", node_name=f"node-{number}", requests={"cpu": "1"}, priority=0)
            for number in range(20)
        ]
        preemptors = [
            make_pod(f"high-{number}", requests={"cpu": "1"}, priority=10) for number in range(3)
        ]
        harness = PreemptionHarness([*nodes, *pods, *preemptors])
        for preemptor in preemptors:
            node_name = nominated_to(harness.preempt(preemptor))
            assert node_name
            harness.nominate(preemptor, node_name)
        chosen = {harness.handle.nominator.node_of(each.metadata.uid) for each in preemptors}
        assert len(chosen) == len(preemptors)
        await harness.handle.finish_work()

    run(scenario)
    assert looked_at == [20]


def test_random_scenarios_have_pods_preempted_again_and_again() -> None:
    assert sum(attempt(seed, 12) for seed in range(20)) > 60
