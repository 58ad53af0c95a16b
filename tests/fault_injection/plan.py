"""The plan of a run, made from a seed: a cluster, actions of users, and injected faults.

A plan is data, so the plan of a failing seed can be shrunk: fewer features, fewer steps.
"""

from __future__ import annotations

import random

import msgspec

__all__ = ["FAULTS_END", "Plan", "Step", "make_plan", "member_name"]

# The step after which no more faults are injected.
FAULTS_END = "faults end"


class Step(msgspec.Struct, frozen=True):
    """An action of a user or a fault, and the pause until the next step."""

    what: str
    name: str = ""
    number: int = 0
    pause_s: float = 1.0


class Plan(msgspec.Struct, frozen=True):
    """A whole run: the features of the cluster, and its steps."""

    seed: int
    replicas: int
    nodes: int
    steps: tuple[Step, ...]
    plugin: str = ""  # how the faulty plugin misbehaves; empty: there is none
    volumes: bool = False
    devices: bool = False
    extender: bool = False
    workload: bool = False  # a Deployment that is scaled
    profiles: int = 1
    drift: bool = False  # the clocks of replicas run at different rates
    in_file: bool = False  # the store writes a data file, and a restart reads it
    flushes: bool = False  # parked pods are retried after five minutes without an event
    verifies: bool = False  # every cached answer is compared with a full search
    retry_s: int = 2  # how often the lease is renewed
    waits_full_quiet_phase: bool = False  # the final checks come at the end of the quiet phase only
    preempts: bool = False  # pods have priority classes, and preemption evicts pods
    groups: bool = False  # there are pod groups, some of them gangs


def make_plan(seed: int) -> Plan:
    """Make the plan of a seed. The same seed always makes the same plan."""
    # The text is part of what a seed means. Another text would give every seed another plan.
    rng = random.Random(f"torture/{seed}")
    is_quiet = rng.random() < 0.1
    features = {
        "volumes": rng.random() < 0.3,
        "devices": rng.random() < 0.25,
        "extender": rng.random() < 0.15,
        "workload": rng.random() < 0.25,
        "profiles": rng.choice([1, 1, 2]),
        "preempts": rng.random() < 0.6,
        "plugin": "" if is_quiet else rng.choice(["", "", "", *_PLUGIN_FAULTS]),
    }
    # Groups are drawn from a generator of their own, so that they do not change the other draws.
    group_rng = random.Random(f"groups/{seed}")
    # As in the reference, a member may have pods evicted and still wait for its gang.
    features["groups"] = (
        group_rng.random() < 0.3 and not features["extender"] and not features["preempts"]
    )
    steps = _steps(rng, is_quiet=is_quiet, is_scaled=bool(features["workload"]))
    if features["groups"]:
        _add_groups(group_rng, steps)
    steps.append(Step(FAULTS_END, pause_s=rng.choice([0.0, 5.0, 40.0])))
    for _ in range(rng.choice([1, 2, 3, 4])):
        pause_s = rng.choice([0.0, 0.3, 3.0, 14.0])
        steps.append(Step("scenario", number=rng.randrange(1 << 30), pause_s=pause_s))
    # These draws have a generator of their own, too.
    directed_rng = random.Random(f"directed/{seed}")
    number = directed_rng.randrange(1 << 30)
    steps.append(Step("scenario", "directed", number, directed_rng.choice([0.3, 3.0])))
    if not is_quiet and directed_rng.random() < 0.6:
        _add_later_faults(directed_rng, steps)
    later_rng = random.Random(f"later/{seed}")
    number = later_rng.randrange(1 << 30)
    steps.append(Step("scenario", "later", number, later_rng.choice([0.3, 3.0])))
    return Plan(
        seed=seed,
        replicas=1 if is_quiet else rng.choice([1, 1, 2, 2, 3]),
        nodes=rng.randint(2, 6),
        steps=tuple(steps),
        drift=rng.random() < 0.3,
        in_file=not is_quiet and rng.random() < 0.1,
        flushes=rng.random() < 0.1,
        # A plugin that answers at random may give another answer to the comparing search.
        verifies=rng.random() < 0.3 and features["plugin"] in ("", "waits", "slow", "declines"),
        retry_s=rng.choice([2, 5, 10]),
        waits_full_quiet_phase=rng.random() < 0.1,
        **features,  # type: ignore[arg-type]
    )


def _add_groups(rng: random.Random, steps: list[Step]) -> None:
    """Insert steps that create pod groups, and steps that delete some of their members."""
    for group in range(rng.choice([1, 2, 3])):
        place, number = rng.randrange(len(steps)), rng.randrange(1 << 30)
        steps.insert(place, Step("create group", f"g{group}", number, rng.choice([0.0, 1.0])))
        if rng.random() < 0.4:
            lost = Step("delete pod", member_name(group, 0), rng.randrange(1 << 30))
            steps.insert(rng.randrange(place + 1, len(steps) + 1), lost)


def _add_later_faults(rng: random.Random, steps: list[Step]) -> None:
    """Insert faults that were added when the plans of all seeds were in use."""
    last = next(place for place, step in enumerate(steps) if step.what == FAULTS_END)
    for _ in range(rng.choice([1, 1, 2])):
        fault = Step(rng.choice(_LATER_FAULTS), "", rng.randrange(1 << 30), rng.uniform(1, 25))
        steps.insert(rng.randrange(last), fault)


def member_name(group: int, member: int) -> str:
    return f"p{5000 + 10 * group + member}"


_PLUGIN_FAULTS = ("raises", "waits", "nonsense", "forgets", "slow", "declines")
_FAULTS = (
    "server down",
    "history gone",
    "watches break",
    "watches end",
    "watches stall",
    "watches skip",
    "watches replay",
    "watches cut",
    "watches garbled",
    "requests lost",
    "requests slow",
    "requests hang",
    "requests repeated",
    "requests reordered",
    "server errors",
    "too many requests",
    "conflicts",
    "wrong content",
    "replica crashes",
    "replica crashes",
    "replica pauses",
    "replica pauses at a write",
    "replica ends",
    "replica ends at a write",
    "clock jumps",
)
_LATER_FAULTS = ("replica suspends", "clock leaps", "lease deleted", "server lags")


def _steps(rng: random.Random, *, is_quiet: bool, is_scaled: bool) -> list[Step]:
    steps: list[Step] = []
    pods = 0
    for _ in range(rng.randint(20, 50)):
        pause_s = rng.choice([0.0, 0.0, 0.1, 1.0, 3.0])
        number = rng.randrange(1 << 30)
        roll = rng.random()
        known = f"p{rng.randrange(pods)}" if pods else ""
        if roll < 0.48:
            steps.append(Step("create pod", f"p{pods}", number, pause_s))
            pods += 1
        elif roll < 0.55 and pods:
            steps.append(Step("delete pod", known, number, pause_s))
        elif roll < 0.60 and pods:
            steps.append(Step("remake pod", known, number, pause_s))
        elif roll < 0.63 and pods:
            steps.append(Step("change pod", known, number, pause_s))
        elif roll < 0.65 and pods:
            steps.append(Step("bind pod", f"p{pods - 1}", number, pause_s))
        elif roll < 0.75:
            steps.append(Step("change node", number=number, pause_s=pause_s))
        elif roll < 0.79:
            steps.append(Step("replace node", number=number, pause_s=pause_s))
        elif roll < 0.83 and is_scaled:
            steps.append(Step("scale", number=rng.randrange(7), pause_s=pause_s))
        elif not is_quiet:
            what = rng.choice(_FAULTS)
            steps.append(Step(what, number=number, pause_s=rng.uniform(1, 25)))
    return steps
