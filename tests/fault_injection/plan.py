"""What a seed stands for: a cluster, what users do to it, and the weather.

A plan is data, so that a failing seed can be made smaller: fewer features, fewer steps.
"""

from __future__ import annotations

import random

import msgspec

__all__ = ["FAULTS_END", "Plan", "Step", "make_plan", "member_name"]

FAULTS_END = "the storm is over"
"""The step after which requests, watches and machines do as they should."""


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
    volumes: bool = False
    devices: bool = False
    extender: bool = False
    workload: bool = False  # a Deployment that is scaled
    profiles: int = 1
    drift: bool = False  # clocks run differently fast
    in_file: bool = False  # the store is kept in a file, and read back when it restarts
    flushes: bool = False  # pods are tried again after five minutes even if nothing happened
    verifies: bool = False  # every answer from the cache is compared with a full search
    retry_s: int = 2  # how often the lease is renewed
    waits_full_quiet_phase: bool = False  # the calm is waited for to its end
    preempts: bool = False  # pods have classes of priority, and more important ones evict others
    groups: bool = False  # pods that are placed together or not at all


def make_plan(seed: int) -> Plan:
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
    # From dice of their own: plans without groups are what they were before there were any.
    group_rng = random.Random(f"groups/{seed}")
    # A member may have others evicted and wait for its gang all the same, as in the reference.
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
    return Plan(
        seed=seed,
        replicas=1 if is_quiet else rng.choice([1, 1, 2, 2, 3]),
        nodes=rng.randint(2, 6),
        steps=tuple(steps),
        drift=rng.random() < 0.3,
        in_file=not is_quiet and rng.random() < 0.1,
        flushes=rng.random() < 0.1,
        # A plugin that answers by chance answers differently when it is asked again.
        verifies=rng.random() < 0.3 and features["plugin"] in ("", "waits", "slow", "declines"),
        retry_s=rng.choice([2, 5, 10]),
        waits_full_quiet_phase=rng.random() < 0.1,
        **features,  # type: ignore[arg-type]
    )


def _add_groups(rng: random.Random, steps: list[Step]) -> None:
    """Groups of pods in between, and some of their members that are deleted."""
    for group in range(rng.choice([1, 2, 3])):
        place, number = rng.randrange(len(steps)), rng.randrange(1 << 30)
        steps.insert(place, Step("create group", f"g{group}", number, rng.choice([0.0, 1.0])))
        if rng.random() < 0.4:
            lost = Step("delete pod", member_name(group, 0), rng.randrange(1 << 30))
            steps.insert(rng.randrange(place + 1, len(steps) + 1), lost)


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
