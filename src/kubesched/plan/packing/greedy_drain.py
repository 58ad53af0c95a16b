"""Empties nodes one by one while the pods of the next one fit on the others."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from kubesched.plan.packing.packing_problem import PackingProblem
from kubesched.plan.packing.packing_state import PackingState

__all__ = ["best_node", "drain_greedily", "size_order", "try_to_empty"]


def drain_greedily(state: PackingState, hint: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Empty as many nodes as possible; return which nodes are empty then.

    `hint` are the nodes that a good placement might use. The others are emptied first, expensive
    nodes with few pods before cheap ones with many. A pod goes to the fullest node that accepts it,
    so that large gaps stay for large pods.
    """
    problem = state.problem
    empty: NDArray[np.bool_] = ~problem.used(state.placement)
    fullness = _share(state)
    order = np.lexsort((fullness, state.pods_on / problem.price.clip(min=1), hint))
    hinted = hint | problem.kept
    for node in order.tolist():
        if not problem.kept[node] and not empty[node]:
            empty[node] = True
            is_possible = state.has_headroom(~empty) and (
                try_to_empty(state, node, empty | ~hinted) or try_to_empty(state, node, empty)
            )
            empty[node] = is_possible
    return empty


def try_to_empty(state: PackingState, node: int, closed: NDArray[np.bool_]) -> bool:
    """Move all pods of a node to nodes that are not closed; undo it if one of them fits nowhere."""
    placement = state.placement
    moved: list[tuple[int, int]] = []
    for number in size_order(state.problem, np.flatnonzero(placement[:, node])):
        for _ in range(int(placement[number, node])):
            state.add(number, node, -1)
            target = best_node(state, number, closed)
            if target is None:
                state.add(number, node)
                for moved_number, there in reversed(moved):
                    state.add(moved_number, there, -1)
                    state.add(moved_number, node)
                return False
            state.add(number, target)
            moved.append((number, target))
    return True


def best_node(state: PackingState, number: int, closed: NDArray[np.bool_]) -> int | None:
    """Return the fullest node that accepts a pod of the class; None if there is none.

    A node that the class came from is preferred: it costs no move.
    """
    accepted = state.accepting(number) & ~closed
    candidates = np.flatnonzero(accepted)
    if not len(candidates):
        return None
    problem = state.problem
    returns = state.placement[number, candidates] < problem.current[number, candidates]
    if returns.any():
        candidates = candidates[returns]
    left = state.room[candidates] / np.maximum(problem.room[candidates], 1)
    asked = np.flatnonzero(problem.demand[number])
    free = left[:, asked].sum(axis=1) if len(asked) else left.sum(axis=1)
    return int(candidates[int(free.argmin())])


def size_order(problem: PackingProblem, numbers: Iterable[int]) -> list[int]:
    """Return classes by the largest share that one pod takes of an average node, largest first."""
    average = np.maximum(problem.room.mean(axis=0), 1)
    return sorted(
        (int(number) for number in numbers),
        key=lambda number: (-float((problem.demand[number] / average).max()), number),
    )


def _share(state: PackingState) -> NDArray[np.float64]:
    """Return for each node the share of its room that is in use, of the scarcest resource."""
    room = np.maximum(state.problem.room, 1)
    share: NDArray[np.float64] = (1 - state.room / room).max(axis=1)
    return share
