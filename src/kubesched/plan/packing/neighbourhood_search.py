"""Improves a placement step by step: removes the pods of some nodes, and packs them with CP-SAT."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from kubesched.plan.packing.exact_packing import ExactSearch
from kubesched.plan.packing.packing_problem import Placement
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.packing.solver import Deadline

__all__ = ["improve"]

_FEWEST_NODES, _MOST_NODES = 6, 24
_MOST_VARIABLES = 1500
_STEP_SECONDS = 2.0
_STALE_STEPS = 60


def improve(
    state: PackingState,
    bound: int,
    deadline: Deadline,
    rng: random.Random,
    report: Callable[[int], None] = lambda _price: None,
) -> Placement:
    """Improve the placement until it meets the bound, the time is up, or many steps have failed.

    Each step takes nodes that are easy to empty and nodes that could accept their pods.
    """
    problem = state.problem
    best = state.placement.copy()
    price, moves = problem.cost(best)
    size, stale = 10, 0
    while price > bound and not deadline.has_passed and stale < _STALE_STEPS:
        nodes = _choose(state, size, rng)
        if len(nodes) < 2:
            break
        result = ExactSearch(state, nodes).solve(min(_STEP_SECONDS, deadline.left_s))
        stale += 1
        if result.placement is not None:
            found = problem.cost(result.placement)
            if found < (price, moves):
                stale = 0 if found[0] < price else stale
                price, moves = found
                best = result.placement
                state = PackingState(problem, best)
                report(price)
        size = min(size + 1, _MOST_NODES) if result.is_optimal else max(size - 2, _FEWEST_NODES)
    return best


def _choose(state: PackingState, size: int, rng: random.Random) -> list[int]:
    """Choose a node that might be emptied, and nodes that might accept its pods."""
    problem = state.problem
    in_use = state.pods_on > 0
    removable = np.flatnonzero(in_use & ~problem.kept)
    if not len(removable):
        return []
    share = 1 - state.room / np.maximum(problem.room, 1)
    fullness = share.max(axis=1)
    # mostly nodes that are nearly empty, sometimes a random one
    order = removable[np.argsort(fullness[removable], kind="stable")]
    first = int(order[min(int(rng.expovariate(1.0) * len(order) / 6), len(order) - 1)])
    chosen = [first]
    accepts = _possible_targets(state, first)
    accepts[first] = False
    targets = np.flatnonzero(accepts)
    weights = np.clip(1.02 - fullness[targets], 0.02, 1.0) * (1 + (state.pods_on[targets] > 0))
    used = _variables(state, first)
    while len(targets) and len(chosen) < size and used < _MOST_VARIABLES:
        place = rng.choices(range(len(targets)), weights=weights.tolist())[0]
        node = int(targets[place])
        chosen.append(node)
        used = len(chosen) * int(state.placement[:, chosen].any(axis=1).sum())
        targets, weights = np.delete(targets, place), np.delete(weights, place)
    return chosen


def _possible_targets(state: PackingState, node: int) -> NDArray[np.bool_]:
    """Return the nodes that some class on the node may be placed on."""
    numbers = np.flatnonzero(state.placement[:, node])
    targets: NDArray[np.bool_] = np.logical_or.reduce(state.problem.allowed[numbers])
    targets &= state.problem.kept | (state.pods_on > 0)
    return targets


def _variables(state: PackingState, node: int) -> int:
    return int((state.placement[:, node] > 0).sum())
