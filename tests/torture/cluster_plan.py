"""What a seed stands for: nodes, pods of all features, what users do, and the weather.

A plan is data, so that a failing seed can be made smaller: fewer nodes, fewer steps, less trouble.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec

from kubesched.api import Node, Pod
from kubesched.testing import make_affinity, make_node, make_pod, make_pod_term, make_spread

ZONES = ("a", "b", "c")
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


class Step(msgspec.Struct, frozen=True):
    """Something that a user or the weather does, and how long it takes until the next."""

    what: str
    name: str = ""
    number: int = 0
    pause_s: float = 1.0


class Plan(msgspec.Struct, frozen=True):
    """A whole run."""

    seed: int
    replicas: int
    nodes: int
    steps: tuple[Step, ...]
    plugin: str = ""  # a plugin that misbehaves now and then: raises, waits, or talks nonsense


def make_plan(seed: int) -> Plan:
    dice = random.Random(f"torture/{seed}")
    steps: list[Step] = []
    pods = 0
    for _ in range(dice.randint(20, 45)):
        pause_s = dice.choice([0.0, 0.1, 1.0, 3.0])
        roll = dice.random()
        if roll < 0.55:
            steps.append(Step("create pod", f"p{pods}", dice.randrange(1 << 30), pause_s))
            pods += 1
        elif roll < 0.63 and pods:
            steps.append(Step("delete pod", f"p{dice.randrange(pods)}", pause_s=pause_s))
        elif roll < 0.68 and pods:
            steps.append(Step("remake pod", f"p{dice.randrange(pods)}", dice.randrange(1 << 30)))
        elif roll < 0.72 and pods:
            steps.append(Step("relabel pod", f"p{dice.randrange(pods)}", pause_s=pause_s))
        elif roll < 0.78:
            steps.append(Step("change node", number=dice.randrange(1 << 30), pause_s=pause_s))
        elif roll < 0.81:
            steps.append(Step("replace node", number=dice.randrange(1 << 30), pause_s=pause_s))
        else:
            steps.append(_weather(dice))
    return Plan(
        seed=seed,
        replicas=dice.choice([1, 1, 2, 3]),
        nodes=dice.randint(2, 6),
        steps=tuple(steps),
        plugin=dice.choice(["", "", "raises", "waits", "nonsense"]),
    )


_WEATHER = (
    "server down",
    "history gone",
    "watches break",
    "watches end",
    "watches stall",
    "requests lost",
    "requests slow",
    "server errors",
    "too many requests",
    "conflicts",
    "truncated watches",
    "replica crashes",
    "replica pauses",
    "duplicates",
)


def _weather(dice: random.Random) -> Step:
    return Step(dice.choice(_WEATHER), number=dice.randrange(1 << 30), pause_s=dice.uniform(1, 25))


def make_cluster_node(plan: Plan, number: int) -> Node:
    dice = random.Random(f"node/{plan.seed}/{number}")
    return make_node(
        f"n{number}",
        cpu=str(dice.choice([2, 4, 8])),
        pods=dice.choice([4, 20, 110]),
        zone=dice.choice(ZONES),
        labels={"disk": dice.choice(["ssd", "hdd"])},
        taints=["dedicated=x:NoSchedule"] if dice.random() < 0.2 else [],
        images={"i": 50 << 20} if dice.random() < 0.5 else {},
    )


def make_cluster_pod(name: str, number: int) -> Pod:
    """A pod with some of the features that plugins look at."""
    dice = random.Random(f"pod/{number}")
    app = dice.choice(["web", "db", "batch"])
    labels = {"app": app}
    affinity: Any = None
    roll = dice.random()
    if roll < 0.12:
        affinity = make_affinity(apart=[make_pod_term(HOSTNAME, labels)])
    elif roll < 0.2:
        affinity = make_affinity(near=[make_pod_term(ZONE, labels)])
    elif roll < 0.3:
        affinity = make_affinity(apart_preferred=[(10, make_pod_term(ZONE, labels))])
    return make_pod(
        name,
        labels=labels,
        images=["i"],
        requests={"cpu": dice.choice(["100m", "500m", "1500m", "3"])},
        priority=dice.choice([0, 0, 0, 10, 100]),
        affinity=affinity,
        spread=[make_spread(ZONE, labels=labels, max_skew=2)] if dice.random() < 0.15 else [],
        node_selector={"disk": "ssd"} if dice.random() < 0.15 else None,
        tolerations=["dedicated=x:NoSchedule"] if dice.random() < 0.3 else [],
        host_ports=[8000 + dice.randrange(3)] if dice.random() < 0.15 else [],
        gates=["example.com/later"] if dice.random() < 0.04 else [],
    )
