"""Packs pods into nodes of given types, as cheaply as possible, with a proved bound.

Initially all pods are on an extra node outside the cluster, which costs more than all other nodes
together, so every good placement empties it. The problem is then a consolidation.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.plan.packing.exact_packing import ExactSearch
from kubesched.plan.packing.greedy_drain import best_node, drain_greedily, size_order
from kubesched.plan.packing.lower_bound import lower_bound
from kubesched.plan.packing.packing_problem import PackingProblem, Placement
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.packing.solver import Deadline

__all__ = ["OUTSIDE", "TypePacking", "pack_types"]

OUTSIDE: Final = 0  # the index of the extra node where all pods start

_EXACT_SIZE: Final = 4_000
_BOUND_SHARE: Final = 0.3
_STEP_SECONDS: Final = 2.0
_STALE_STEPS: Final = 30
_STEP_NODES: Final = 10

Mask = NDArray[np.bool_]


class TypePacking(NamedTuple):
    """The number of nodes of each type that fit the pods, and a proved lower bound on the price."""

    counts: Mapping[int, int]  # by the number of the type
    price: int
    bound: int


def pack_types(
    problem: PackingProblem, type_of: NDArray[np.intp], deadline: Deadline, rng: random.Random
) -> TypePacking | None:
    """Pack all pods that are outside; None if a pod fits no type, or there are too few nodes.

    `type_of` is the type of each node, and -1 for the node outside.
    """
    best = _filled(problem, type_of, np.zeros(len(type_of), dtype=bool))
    if best is None:
        return None
    bound = lower_bound(problem, deadline.left_s * _BOUND_SHARE)
    hinted = _filled(problem, type_of, bound.nodes)
    best = _cheapest(problem, best, hinted)
    state = PackingState(problem, best)
    drain_greedily(state, bound.nodes)
    best = _cheapest(problem, best, state.placement)
    proved = bound.price
    inside = range(1, len(problem.nodes))
    if problem.current.size <= _EXACT_SIZE:
        state = PackingState(problem, best)
        if problem.cost(best)[0] > proved:
            relaxed = ExactSearch(state, inside, for_bound=True)
            found = relaxed.solve(deadline.left_s / 4, moves=False)
            proved = max(proved, found.price_bound)
        if problem.cost(best)[0] > proved:
            result = ExactSearch(state, inside).solve(deadline.left_s, moves=False)
            best = _cheapest(problem, best, result.placement)
    else:
        best = _improved(problem, type_of, best, proved, deadline, rng)
    used = problem.used(best)
    counts = np.bincount(type_of[used & (type_of >= 0)])
    numbers = {int(number): int(counts[number]) for number in np.flatnonzero(counts)}
    return TypePacking(numbers, problem.cost(best)[0], proved)


def _cheapest(problem: PackingProblem, one: Placement, other: Placement | None) -> Placement:
    if other is None or problem.cost(one)[0] <= problem.cost(other)[0]:
        return one
    return other


def _filled(problem: PackingProblem, type_of: NDArray[np.intp], hint: Mask) -> Placement | None:
    """Place the largest pods first, on nodes in use if possible, otherwise on another node.

    That node is the one with the lowest price per share of the remaining pods that it fits.
    """
    state = PackingState(problem)
    closed = ~hint
    closed[OUTSIDE] = True
    for number in size_order(problem, np.flatnonzero(problem.totals)):
        for _ in range(int(problem.totals[number])):
            state.add(number, OUTSIDE, -1)
            node = best_node(state, number, closed)
            if node is None:
                node = _opened(state, type_of, number, closed)
                if node is None:
                    return None
                closed[node] = False
            state.add(number, node)
    return state.placement


def _opened(
    state: PackingState, type_of: NDArray[np.intp], number: int, closed: Mask
) -> int | None:
    problem = state.problem
    candidates = np.flatnonzero(state.accepting(number) & closed & (type_of >= 0))
    if not len(candidates):
        return None
    _, first = np.unique(type_of[candidates], return_index=True)
    candidates = candidates[first]
    waiting = state.placement[:, OUTSIDE].astype(np.float64)
    waiting[number] += 1
    left = np.maximum(waiting @ problem.demand, 1)
    room = np.minimum(problem.room[candidates] / left, 1.0)
    worth = room[:, problem.demand[number] > 0].min(axis=1) if problem.demand[number].any() else 1
    return int(candidates[int((problem.price[candidates] / np.maximum(worth, 1e-9)).argmin())])


def _improved(
    problem: PackingProblem,
    type_of: NDArray[np.intp],
    best: Placement,
    bound: int,
    deadline: Deadline,
    rng: random.Random,
) -> Placement:
    """Pack the pods of a few nodes again, on these nodes and on some unused nodes of each type."""
    price, stale = problem.cost(best)[0], 0
    while price > bound and not deadline.has_passed and stale < _STALE_STEPS:
        stale += 1
        used = problem.used(best)
        chosen = _some(np.flatnonzero(used & (type_of >= 0)), _STEP_NODES, rng)
        for kind in np.unique(type_of[type_of >= 0]).tolist():
            chosen += np.flatnonzero(~used & (type_of == kind))[:3].tolist()
        search = ExactSearch(PackingState(problem, best), chosen)
        found = search.solve(min(_STEP_SECONDS, deadline.left_s), moves=False).placement
        if found is not None and problem.cost(found)[0] < price:
            best, price, stale = found, problem.cost(found)[0], 0
    return best


def _some(nodes: NDArray[np.intp], count: int, rng: random.Random) -> list[int]:
    numbers: Sequence[int] = nodes.tolist()
    return rng.sample(numbers, min(count, len(numbers)))
