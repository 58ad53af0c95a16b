"""Empties nodes one by one as long as the pods of the next node fit on the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from kubesched.plan.packing.packing_problem import PackingProblem
from kubesched.plan.packing.packing_state import PackingState

__all__ = ["best_node", "drain_greedily", "first_node", "size_order", "try_to_empty"]

# Chooses a target for a pod of a class among the nodes that are not closed; None without one.
ChooseNode = Callable[[PackingState, int, NDArray[np.bool_]], "int | None"]


def drain_greedily(
    state: PackingState, hint: NDArray[np.bool_], choose: ChooseNode | None = None
) -> NDArray[np.bool_]:
    """Empty as many nodes as possible; return a mask of the empty nodes.

    `hint` are the nodes that a good placement might use. The other nodes are emptied first:
    expensive nodes with few pods before cheap ones with many. `choose` selects the target of a pod;
    the default is the fullest node that fits, so that large gaps remain for large pods.
    """
    choose = choose or best_node
    problem = state.problem
    empty: NDArray[np.bool_] = ~problem.used(state.placement)
    fullness = _share(state)
    order = np.lexsort((fullness, state.pods_on / problem.price.clip(min=1), hint))
    hinted = hint | problem.kept
    for node in order.tolist():
        if not problem.kept[node] and not empty[node]:
            empty[node] = True
            is_possible = state.has_headroom(~empty) and (
                try_to_empty(state, node, empty | ~hinted, choose)
                or try_to_empty(state, node, empty, choose)
            )
            empty[node] = is_possible
    return empty


def try_to_empty(
    state: PackingState, node: int, closed: NDArray[np.bool_], choose: ChooseNode
) -> bool:
    """Move all pods of a node to nodes that are not closed; undo it if one of them fits nowhere."""
    placement = state.placement
    moved: list[tuple[int, int]] = []
    for number in size_order(state.problem, np.flatnonzero(placement[:, node])):
        for _ in range(int(placement[number, node])):
            state.add(number, node, -1)
            target = choose(state, number, closed)
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
    """Return the fullest node that fits a pod of the class; None without one.

    A node where the class came from is preferred: that saves a move.
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


def first_node(state: PackingState, number: int, closed: NDArray[np.bool_]) -> int | None:
    """Return the first node that fits a pod of the class; None without one.

    If pods request different resources, filling one node after another may leave more nodes empty
    than the choice of the fullest node for each pod.
    """
    candidates = np.flatnonzero(state.accepting(number) & ~closed)
    return int(candidates[0]) if len(candidates) else None


def size_order(problem: PackingProblem, numbers: Iterable[int]) -> list[int]:
    """Return classes by the largest share that one pod takes of an average node, largest first."""
    average = np.maximum(problem.room.mean(axis=0), 1)
    return sorted(
        (int(number) for number in numbers),
        key=lambda number: (-float((problem.demand[number] / average).max()), number),
    )


def _share(state: PackingState) -> NDArray[np.float64]:
    """Return for each node the used share of its scarcest resource."""
    room = np.maximum(state.problem.room, 1)
    share: NDArray[np.float64] = (1 - state.room / room).max(axis=1)
    return share
