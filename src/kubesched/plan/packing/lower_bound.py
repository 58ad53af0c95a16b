"""A proved lower bound on the price of the nodes that pods need, for clusters of any size.

The relaxation adds up nodes that the same classes may use. Its cuts are superadditive functions:
if f(a) + f(b) <= f(a + b), the pods on a node with room c satisfy sum f(demand) <= f(c). With
f(x) = x that is the sum of the requests; with f(x) = x // w it is the number of pods of size w that
fit a node; a third kind counts pods above half a node as whole ones. CP-SAT computes the bound with
integers, so rounding cannot make it too high.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.plan.packing.packing_problem import PackingProblem
from kubesched.plan.packing.solver import load_cp_model

__all__ = ["LowerBound", "lower_bound"]

_SIZES = 16  # the number of pod sizes per resource for which cuts are made
_SHORTEST = 1.0  # seconds; most bounds take less
_LONGEST = 5  # the limit of real time, in limits of deterministic time
_LARGEST = 2**31  # upper limit of the numbers in the model

Numbers = NDArray[np.int64]


class LowerBound(NamedTuple):
    """A price below which no placement is possible, and the nodes of the relaxed placement."""

    price: int
    nodes: NDArray[np.bool_]  # bool[node]: a hint which nodes to use


def lower_bound(problem: PackingProblem, seconds: float, workers: int = 1) -> LowerBound:
    """Compute the bound. Among equal nodes, the hint has those with the most pods."""
    cp = load_cp_model()
    model = cp.CpModel()
    taken = problem.current.T.astype(np.int64) @ problem.demand
    # An overcommitted node may stay as it is.
    room = np.maximum(problem.room, taken)
    columns, group_of = _groups(problem)
    kinds = _kinds(problem, room, group_of)
    used = [
        len(kind.nodes) if kind.kept else model.new_int_var(0, len(kind.nodes), "")
        for kind in kinds
    ]
    classes = np.flatnonzero(problem.totals)
    placed = _place(model, columns, problem.totals, classes)
    for group in range(len(columns)):
        members = [n for n, kind in enumerate(kinds) if kind.group == group]
        offered = room[[kinds[n].nodes[0] for n in members]]
        counts = {
            number: placed[number, group]
            for number in classes.tolist()
            if (number, group) in placed
        }
        _limit_group(model, problem, counts, offered, [used[n] for n in members])
    _separate(model, problem, placed, kinds, used)
    _require_headroom(model, problem, kinds, used)
    model.minimize(sum(int(problem.price[kind.nodes[0]]) * used[n] for n, kind in enumerate(kinds)))
    solver = cp.CpSolver()
    # The deterministic time makes the bound independent of the load of the machine.
    solver.parameters.max_deterministic_time = max(seconds, _SHORTEST)
    solver.parameters.max_time_in_seconds = _LONGEST * max(seconds, _SHORTEST)
    solver.parameters.num_workers = workers
    status = solver.solve(model)
    least = int(problem.price[problem.kept].sum())
    bound = max(least, math.ceil(solver.best_objective_bound - 1e-6))
    if status not in (cp.OPTIMAL, cp.FEASIBLE):
        return LowerBound(bound, np.ones(len(problem.nodes), dtype=bool))
    return LowerBound(bound, _hint(problem, kinds, [solver.value(each) for each in used]))


def _require_headroom(
    model: Any, problem: PackingProblem, kinds: Sequence[_NodeKind], used: Sequence[Any]
) -> None:
    for each in problem.headroom:
        weights = np.array([each.weights[kind.nodes].max() for kind in kinds], dtype=np.int64)
        weights, needed = _scaled(weights, each.needed)
        model.add(sum(int(weight) * used[n] for n, weight in enumerate(weights)) >= needed)


def _limit_group(
    model: Any,
    problem: PackingProblem,
    counts: Mapping[int, Any],
    room: NDArray[np.int64],
    used: Sequence[Any],
) -> None:
    """Limit the pods of a group of nodes by what its used nodes offer, resource by resource."""
    numbers = list(counts)
    for column in range(len(problem.resources)):
        for needs, offers in _cuts(problem, numbers, column, room[:, column]):
            needed = zip(counts.values(), needs, strict=True)
            offered = zip(used, offers, strict=True)
            model.add(
                sum(int(need) * count for count, need in needed if need)
                <= sum(int(offer) * nodes for nodes, offer in offered)
            )


def _groups(problem: PackingProblem) -> tuple[NDArray[np.bool_], NDArray[np.intp]]:
    """Group nodes that the same classes may use; return each group's classes, each node's group."""
    usable = problem.possibly_allowed | (problem.current > 0)
    columns, group_of = np.unique(usable, axis=1, return_inverse=True)
    return columns.T, group_of.reshape(-1)


class _NodeKind(NamedTuple):
    """A group of nodes that are equal for the bound."""

    nodes: NDArray[np.intp]
    group: int
    kept: bool


def _kinds(problem: PackingProblem, room: Numbers, group_of: NDArray[np.intp]) -> list[_NodeKind]:
    facts = np.column_stack((room, problem.price, problem.kept, group_of))
    _, kind_of = np.unique(facts, axis=0, return_inverse=True)
    order = np.argsort(kind_of.reshape(-1), kind="stable")
    starts = np.flatnonzero(np.diff(kind_of.reshape(-1)[order])) + 1
    return [
        _NodeKind(nodes, int(group_of[nodes[0]]), bool(problem.kept[nodes[0]]))
        for nodes in np.split(order, starts)
        if len(nodes)
    ]


def _hint(problem: PackingProblem, kinds: list[_NodeKind], counts: list[int]) -> NDArray[np.bool_]:
    hint = problem.kept.copy()
    pods_on = problem.current.sum(axis=0)
    for kind, count in zip(kinds, counts, strict=True):
        fullest = kind.nodes[np.argsort(-pods_on[kind.nodes], kind="stable")]
        hint[fullest[:count]] = True
    return hint


def _place(
    model: Any, columns: NDArray[np.bool_], totals: Numbers, classes: NDArray[np.intp]
) -> dict[tuple[int, int], Any]:
    """Add the variables: how many pods of a class are on the nodes of a group."""
    placed: dict[tuple[int, int], Any] = {}
    for number in classes.tolist():
        total = int(totals[number])
        places = np.flatnonzero(columns[:, number]).tolist()
        for group in places:
            placed[number, group] = total if len(places) == 1 else model.new_int_var(0, total, "")
        if len(places) > 1:
            model.add(sum(placed[number, group] for group in places) == total)
    return placed


def _cuts(
    problem: PackingProblem, numbers: list[int], column: int, room: Numbers
) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the demand of classes and the supply of nodes, by each function."""
    demand = problem.demand[numbers, column]
    if not demand.any():
        return
    amounts = problem.totals[numbers]
    for function in (_identity, *_functions(demand, amounts, room)):
        needs, offers = function(demand), function(room)
        largest = max(int(np.abs(needs).max()), int(np.abs(offers).max()))
        if largest > _LARGEST:
            # Demand is rounded down and supply up, so that the cut stays valid.
            unit = -(-largest // _LARGEST)
            needs, offers = needs // unit, -(-offers // unit)
        if needs.any():
            yield needs, offers


def _identity(values: Numbers) -> Numbers:
    return values


def _functions(
    demand: Numbers, amounts: Numbers, room: Numbers
) -> Iterator[Callable[[Numbers], Numbers]]:
    """Yield superadditive functions for the most frequent sizes."""
    weight: dict[int, int] = {}
    for size, amount in zip(demand.tolist(), amounts.tolist(), strict=True):
        if size > 0:
            weight[size] = weight.get(size, 0) + size * amount
    largest = int(room.max(initial=0))
    for size in sorted(weight, key=lambda each: (-weight[each], each))[:_SIZES]:
        if size > largest:
            continue
        yield lambda values, size=size: np.maximum(values, 0) // size  # type: ignore[misc]
        if 2 * size <= largest:
            yield lambda values, size=size: _halved(values, size, largest)  # type: ignore[misc]


def _halved(values: Numbers, size: int, whole: int) -> Numbers:
    """Drop values below `size`.

    A value that leaves less than `size` free counts as a whole node.
    """
    kept = np.where(values > whole - size, whole, values)
    return np.where(values < size, 0, kept)


def _separate(
    model: Any,
    problem: PackingProblem,
    placed: dict[tuple[int, int], Any],
    kinds: list[_NodeKind],
    used: list[Any],
) -> None:
    """Bound pods that exclude each other from a node by the nodes in use."""
    for rule in problem.apart:
        domains = rule.domain[rule.domain >= 0]
        if len(np.unique(domains)) != len(domains) or (rule.domain < 0).any():
            continue
        alone = sorted(rule.carriers & rule.matches)
        if not alone:
            continue
        most = np.maximum(1, problem.current[alone].sum(axis=0))
        for group in {kind.group for kind in kinds}:
            pods = sum(placed[n, group] for n in alone if (n, group) in placed)
            if not isinstance(pods, int) or pods:
                members = [(n, kind) for n, kind in enumerate(kinds) if kind.group == group]
                offered = sum(int(most[kind.nodes].max()) * used[n] for n, kind in members)
                model.add(pods <= offered)


def _scaled(weights: Numbers, needed: int) -> tuple[Numbers, int]:
    unit = max(1, -(-int(np.abs(weights).max(initial=1)) // _LARGEST))
    return -(-weights // unit), needed // unit
