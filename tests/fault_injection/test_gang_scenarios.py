"""Gangs that preempt: random histories, and mutants that these must detect."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kubesched.framework import SUCCESS, Status
from kubesched.scheduler.backend.queue.grouping_queue import GroupingQueue
from kubesched.scheduler.plugins.default_preemption import DefaultPreemption, group_preemption
from kubesched.scheduler.plugins.gang_scheduling import GangScheduling
from kubesched.scheduler.pod_groups import placement_algorithm
from kubesched.scheduler.pod_groups.equal_members import EqualMembers
from kubesched.scheduler.pod_groups.group_algorithm import MemberTrials
from kubesched.scheduler.runtime.placement_points import PlacementPoints
from tests.fault_injection.gang_scenarios import run_gang_scenario

# The last two end with nominations that reserve room for pods that cannot be placed.
SEEDS = (*range(18), 700_048, 700_265)
MUTANT_SEEDS = 40


@pytest.mark.parametrize("seed", SEEDS)
def test_gangs_are_placed_as_a_whole_or_not_at_all(seed: int) -> None:
    assert run_gang_scenario(seed) == []


@pytest.mark.skipif("KUBESCHED_EXPLORE" not in os.environ, reason="explores with fresh seeds")
def test_fresh_seeds() -> None:
    first = int.from_bytes(os.urandom(5), "big")
    for seed in range(first, first + 300):
        assert run_gang_scenario(seed) == [], f"--from {seed} --seeds 1"


def only_the_first_placement(generate: Any) -> Any:
    def mutant(*args: Any) -> Any:
        status, placements = generate(*args)
        return status, placements[:1]

    return mutant


def never(*_: Any) -> None:
    return None


MUTANTS: dict[str, tuple[Any, str, Callable[[Any], Any]]] = {
    "Permit of GangScheduling lets every member pass": (
        GangScheduling,
        "permit",
        lambda _: lambda *_: SUCCESS,
    ),
    "members of the group are not collected": (
        GroupingQueue,
        "pop_specific",
        lambda _: never,
    ),
    "a trial is not undone": (MemberTrials, "_take_off", lambda _: never),
    "only one domain is tried": (PlacementPoints, "generate", only_the_first_placement),
    "no member fits any node": (
        EqualMembers,
        "room",
        lambda _: lambda _self, rows, *_: np.zeros(len(rows), dtype=np.int64),
    ),
    "nothing is evicted": (group_preemption, "select_units", lambda _: lambda *_: []),
    "one member too few is needed": (
        placement_algorithm,
        "members_needed",
        lambda needed: lambda *args: (needed(*args) or 1) + 1,
    ),
    "a group does not preempt": (
        DefaultPreemption,
        "post_filter_group",
        lambda _: lambda *_: Status.unschedulable("no"),
    ),
    "members stay gated after the evictions": (
        DefaultPreemption,
        "_is_evicting_for_group",
        lambda _: lambda *_: True,
    ),
}


@pytest.mark.parametrize(("part", "name", "mutate"), MUTANTS.values(), ids=MUTANTS)
def test_a_mutant_is_detected(
    monkeypatch: pytest.MonkeyPatch, part: Any, name: str, mutate: Callable[[Any], Any]
) -> None:
    monkeypatch.setattr(part, name, mutate(getattr(part, name)))
    for seed in range(MUTANT_SEEDS):
        try:
            violations = run_gang_scenario(seed)
        except Exception:  # an invariant of the cache or the queue, which is a detection as well
            return
        if violations:
            return
    pytest.fail(f"not detected with {MUTANT_SEEDS} seeds")
