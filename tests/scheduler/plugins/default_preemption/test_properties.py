"""On random clusters, the plugin has the same results as the oracle."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kubesched.api import Node, Pod, PodCondition, PodDisruptionBudget
from kubesched.api.time import parse_time
from kubesched.framework import PodInfo
from kubesched.scheduler.config.args import DefaultPreemptionArgs
from kubesched.testing import (
    make_affinity,
    make_node,
    make_pdb,
    make_pod,
    make_pod_term,
    make_spread,
)
from kubesched.testing.objects.builders import HOSTNAME, ZONE
from tests.scheduler.plugins.default_preemption.preemption_fixture import (
    NOW,
    PreemptionHarness,
    nominated_to,
    run,
)
from tests.scheduler.plugins.default_preemption.procedure import Answer, Procedure

GPU = "example.com/gpu"
APPS = ("web", "db", "cache")
STARTS = (
    None,
    "2026-01-01T00:00:00Z",
    "2026-01-02T00:00:00Z",
    "2026-01-02T00:00:00Z",
    "2026-03-01T12:00:00Z",
    "2027-01-01T00:00:00Z",  # a clock that is ahead
)
GOING = PodCondition(type="DisruptionTarget", status="True", reason="PreemptionByScheduler")


class Scenario:
    """A nearly full cluster, and a pod that may have to preempt."""

    def __init__(self, seed: int) -> None:
        rng = self.rng = random.Random(seed)
        self.with_details = rng.random() < 0.4  # ports, spread, affinity: evaluated node by node
        # Future start times and budgets change the code path, so some scenarios have none.
        self.starts = STARTS if rng.random() < 0.15 else STARTS[:-1]
        self.nodes = [self.node(number) for number in range(rng.randint(1, 9))]
        self.pods = [
            self.pod(f"running-{number}", rng.choice(self.nodes).metadata.name)
            for number in range(rng.randint(2, 6) * len(self.nodes))
        ]
        self.budgets = [self.budget(number) for number in range(rng.choice((0, 1, 3)))]
        self.nominees = [
            self.waiting(f"nominee-{number}", rng.choice((0, 10, 50, 100)))
            for number in range(rng.choice((0, 0, 1, 3)))
        ]
        self.preemptor = self.waiting("preemptor", rng.choice((None, 10, 50, 50, 100)))
        if rng.random() < 0.05:
            spec = replace(self.preemptor.spec, preemption_policy="Never")
            self.preemptor = replace(self.preemptor, spec=spec)
        if rng.random() < 0.2:
            status = replace(self.preemptor.status, nominated_node_name=self.any_node())
            self.preemptor = replace(self.preemptor, status=status)
        self.args = DefaultPreemptionArgs(
            min_candidate_nodes_percentage=rng.choice((10, 30, 100)),
            min_candidate_nodes_absolute=rng.choice((1, 2, 100)),
        )

    def any_node(self) -> str:
        return self.rng.choice([node.metadata.name for node in self.nodes] + ["gone"])

    def node(self, number: int) -> Node:
        rng = self.rng
        labels = {HOSTNAME: f"node-{number}"}
        if rng.random() < 0.9:
            labels[ZONE] = rng.choice("ab")
        return make_node(
            f"node-{number}",
            labels=labels,
            cpu=rng.choice(("2", "4")),
            memory="8Gi",
            pods=rng.choice((3, 5, 110)),
            extended={GPU: 2} if rng.random() < 0.3 else None,
            taints=["dedicated=x:NoSchedule"] if rng.random() < 0.1 else (),
            unschedulable=rng.random() < 0.05,
        )

    def requests(self) -> dict[str, Any]:
        rng = self.rng
        wanted: dict[str, Any] = {"cpu": rng.choice(("0", "500m", "1", "1500m", "2"))}
        if rng.random() < 0.5:
            wanted["memory"] = rng.choice(("1Gi", "3Gi", "6Gi"))
        if rng.random() < 0.2:
            wanted[GPU] = rng.choice((1, 2))
        return wanted

    def details(self) -> dict[str, Any]:
        rng = self.rng
        if not self.with_details:
            return {}
        wishes: dict[str, Any] = {}
        if rng.random() < 0.25:
            wishes["host_ports"] = [rng.choice((80, 443))]
        if rng.random() < 0.25:
            wishes["spread"] = [
                make_spread(rng.choice((ZONE, HOSTNAME)), max_skew=1, labels={"app": "web"})
            ]
        if rng.random() < 0.3:
            term = make_pod_term(rng.choice((ZONE, HOSTNAME)), {"app": rng.choice(APPS)})
            side = rng.choice(("apart", "apart", "near"))
            wishes["affinity"] = make_affinity(**{side: [term]})
        return wishes

    def pod(self, name: str, node_name: str) -> Pod:
        rng = self.rng
        is_going = rng.random() < 0.1
        return make_pod(
            name,
            namespace=rng.choice(("default", "default", "other")),
            labels=rng.choice(({}, *({"app": app} for app in APPS))),
            node_name=node_name,
            requests=self.requests(),
            priority=rng.choice((None, -10, 0, 10, 10, 50)),
            start_time=rng.choice(self.starts),
            deletion_timestamp="2026-05-31T00:00:00Z" if is_going else None,
            conditions=[GOING] if is_going and rng.random() < 0.5 else (),
            **self.details(),
        )

    def waiting(self, name: str, priority: int | None) -> Pod:
        return make_pod(
            name,
            labels={"app": self.rng.choice(APPS)},
            requests=self.requests(),
            priority=priority,
            **self.details(),
        )

    def budget(self, number: int) -> PodDisruptionBudget:
        rng = self.rng
        disrupted = [pod.metadata.name for pod in self.pods if rng.random() < 0.1]
        return make_pdb(
            f"budget-{number}",
            namespace=rng.choice(("default", "other")),
            selector=rng.choice((None, {}, *({"app": app} for app in APPS))),
            disruptions_allowed=rng.choice((0, 0, 1, 2)),
            disrupted_pods=dict.fromkeys(disrupted, "2026-05-31T00:00:00Z"),
        )

    def objects(self) -> list[Any]:
        return [*self.nodes, *self.pods, *self.budgets, *self.nominees, self.preemptor]


def compare(seed: int) -> str | None:
    """Run both; return the chosen node, or None if the pod fits without preemption."""

    async def scenario() -> str | None:
        made = Scenario(seed)
        harness = PreemptionHarness(made.objects(), args=made.args, seed=seed)
        for nominee in made.nominees:
            harness.nominate(nominee, made.any_node())
        try:
            diagnosis = harness.diagnose(made.preemptor)
        except AssertionError:
            return None
        snapshot = harness.handle.snapshot
        view = snapshot.nodes
        listed = list(view.at_rows(snapshot.order))
        procedure = Procedure(
            harness.framework,
            harness.state,
            PodInfo(made.preemptor),
            made.budgets,
            made.args.min_candidate_nodes_percentage,
            made.args.min_candidate_nodes_absolute,
            parse_time(NOW),
            random.Random(seed),
        )
        want = procedure.run(diagnosis, listed)
        result = harness.preempt(made.preemptor, diagnosis)
        going = {pod.metadata.name for pod in made.pods if pod.metadata.deletion_timestamp}
        want = want._replace(victims=sorted(set(want.victims) - going))
        got = Answer(
            nominated_to(result),
            sorted(await harness.evicted()),
            result.status.message.removeprefix("preemption: "),
        )
        assert got == want
        return got.node

    return run(scenario)


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_the_plugin_agrees_with_the_oracle(seed: int) -> None:
    compare(seed)


def test_random_scenarios_differ() -> None:
    outcomes = [compare(seed) for seed in range(150)]
    preempting = [node for node in outcomes if node]
    clearing = [node for node in outcomes if node == ""]
    assert len(preempting) > 40
    assert len(clearing) > 10
