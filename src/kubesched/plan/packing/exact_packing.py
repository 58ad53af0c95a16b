"""Packs the pods of some nodes into the fewest of these nodes, with CP-SAT.

With all nodes of a cluster the result is the optimum. With a few nodes it is one step of the
neighbourhood search. Variables count the pods of a class on a node, so that interchangeable pods do
not multiply the solutions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.plan.packing.packing_problem import (
    ApartRule,
    NearRule,
    Placement,
    SpreadRule,
)
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.packing.solver import load_cp_model

__all__ = ["ExactResult", "ExactSearch"]

_STEPS_PER_SECOND = 1.0  # deterministic seconds of CP-SAT per second of the limit


class ExactResult(NamedTuple):
    """A placement, and the bound that CP-SAT proved.

    `placement` is None if none was found in time.
    """

    placement: Placement | None
    is_optimal: bool
    price_bound: int  # a proved lower bound on the price for these pods on these nodes


class ExactSearch:
    """The model of the pods on some nodes; the pods on other nodes do not move.

    With `for_bound` the model has only rules that hold for every reachable placement: affinity and
    spread are checked when a pod is placed, and later moves may violate them. With `without_chains`
    pods leave only nodes that become empty. Nodes in `emptied` must become empty.
    """

    def __init__(
        self,
        state: PackingState,
        nodes: Iterable[int],
        *,
        for_bound: bool = False,
        without_chains: bool = False,
        emptied: Iterable[int] = (),
    ) -> None:
        self._cp = load_cp_model()
        self._state = state
        self._problem = problem = state.problem
        self._model: Any = self._cp.CpModel()
        self._nodes = sorted(nodes)
        self._is_inside = np.zeros(len(problem.nodes), dtype=bool)
        self._is_inside[self._nodes] = True
        self._for_bound = for_bound
        self._without_chains = without_chains
        self._emptied = frozenset(emptied)
        inside = state.placement[:, self._nodes]
        self._classes = np.flatnonzero(inside.any(axis=1)).tolist()
        self._totals = inside.sum(axis=1, dtype=np.int64)
        self._is_used: dict[int, Any] = {}
        self._on: dict[tuple[int, int], Any] = {}  # (class, node) -> number of pods
        self._arrivals: dict[tuple[int, int], Any] = {}
        self._has_arrivals: dict[tuple[int, int], Any] = {}
        self._build()

    def solve(self, seconds: float, *, moves: bool = True, workers: int = 1) -> ExactResult:
        """Search for at most `seconds`; with `moves`, also minimize the number of moves.

        With one worker the result is the same in every run that ends before the time limit.
        """
        problem, model = self._problem, self._model
        price = sum(int(problem.price[node]) * used for node, used in self._is_used.items())
        weight = int(self._totals.sum()) + 1 if moves else 1
        goal = weight * price
        if moves:
            goal += sum(self._arrivals.values())
        model.minimize(goal)
        for (number, node), variable in self._on.items():
            model.add_hint(variable, int(self._state.placement[number, node]))
        solver = self._cp.CpSolver()
        solver.parameters.max_time_in_seconds = max(seconds, 0.01)
        solver.parameters.max_deterministic_time = max(seconds, 0.01) * _STEPS_PER_SECOND
        solver.parameters.num_workers = workers
        status = solver.solve(model)
        # With moves, the objective is `weight` times the price plus the moves, which are fewer than
        # `weight`.
        least = solver.best_objective_bound
        bound = math.floor((least + 1e-6) / weight) if moves else math.ceil(least - 1e-6)
        if status not in (self._cp.OPTIMAL, self._cp.FEASIBLE):
            return ExactResult(None, False, max(bound, 0))
        placement = self._state.placement.copy()
        placement[:, self._nodes] = 0
        for (number, node), variable in self._on.items():
            placement[number, node] = solver.value(variable)
        return ExactResult(placement, status == self._cp.OPTIMAL, max(bound, 0))

    def _build(self) -> None:
        problem, model = self._problem, self._model
        for node in self._nodes:
            is_used = 1 if problem.kept[node] else model.new_bool_var("")
            self._is_used[node] = is_used
        for number in self._classes:
            self._place_class(number)
        self._fit_resources()
        self._keep_headroom()
        for apart in problem.apart:
            self._apply_apart(apart)
        if not self._for_bound:
            for near in problem.near:
                self._apply_near(near)
            for spread in problem.spread:
                self._apply_spread(spread)

    def _place_class(self, number: int) -> None:
        """Add the variables of a class: how many of its pods are on each node."""
        problem, model = self._problem, self._model
        total = int(self._totals[number])
        allowed = problem.possibly_allowed if self._for_bound else problem.allowed
        variables = []
        for node in self._nodes:
            if node in self._emptied:
                continue
            here = int(problem.current[number, node])
            most = min(total, total if allowed[number, node] else here)
            asked = problem.demand[number] > 0
            if asked.any():
                fits = int((problem.room[node, asked] // problem.demand[number, asked]).min())
                most = min(most, max(fits, here))
            if most <= 0:
                continue
            variable = model.new_int_var(0, most, "")
            self._on[number, node] = variable
            variables.append(variable)
            if self._without_chains and here:
                model.add(variable >= here * self._is_used[node])
            if here == 0:
                self._arrivals[number, node] = variable
            elif most > here:
                arrivals = model.new_int_var(0, most, "")
                model.add(arrivals >= variable - here)
                self._arrivals[number, node] = arrivals
            if not self._problem.kept[node]:
                model.add(variable <= most * self._is_used[node])
        model.add(sum(variables) == total)

    def _fit_resources(self) -> None:
        problem, model = self._problem, self._model
        for node in self._nodes:
            here = [number for number in self._classes if (number, node) in self._on]
            for column in range(len(problem.resources)):
                asked = [n for n in here if problem.demand[n, column]]
                if not asked:
                    continue
                room = int(problem.room[node, column])
                taken = int(problem.current[:, node] @ problem.demand[:, column])
                if taken > room and not self._for_bound:
                    # An overcommitted node may stay as it is, but accepts no further pod.
                    self._forbid_arrivals(frozenset(here), [node])
                needed = sum(int(problem.demand[n, column]) * self._on[n, node] for n in asked)
                model.add(needed <= max(room, taken) * self._is_used[node])

    def _keep_headroom(self) -> None:
        used = self._state.placement.any(axis=0) | self._problem.kept
        for each in self._problem.headroom:
            outside = int(each.weights[used & ~self._is_inside].sum())
            inside = sum(int(each.weights[n]) * used for n, used in self._is_used.items())
            self._model.add(inside >= each.needed - outside)

    def _apply_apart(self, rule: ApartRule) -> None:
        model = self._model
        alone, others = rule.carriers & rule.matches, rule.carriers - rule.matches
        for domain, nodes in self._domains(rule.domain, rule.carriers | rule.matches).items():
            rows = np.flatnonzero(rule.domain == domain)
            if self._is_broken(rule, rows, domain):
                # Pods that violate the rule already may stay. No further pods of the rule may come.
                if not self._for_bound:
                    self._forbid_arrivals(rule.carriers | rule.matches, nodes)
                continue
            carriers = self._inside(rule.carriers, nodes)
            matches = self._inside(rule.matches, nodes)
            if int(rule.fixed_carriers[domain]) + self._outside(rule.carriers, rows):
                model.add(matches == 0)
            if int(rule.fixed_matches[domain]) + self._outside(rule.matches, rows):
                model.add(carriers == 0)
            if not isinstance(others_inside := self._inside(others, nodes), int):
                model.add(matches == 0).only_enforce_if(self._indicator(others_inside))
            if not isinstance(alone_inside := self._inside(alone, nodes), int):
                # If a carrier matches itself, it may be the only match.
                one = model.add(matches <= 1)
                if rule.matches - alone:
                    one.only_enforce_if(self._indicator(alone_inside))

    def _is_broken(self, rule: ApartRule, rows: NDArray[np.intp], domain: int) -> bool:
        current = self._problem.current[:, rows]
        carriers = int(current[sorted(rule.carriers)].sum()) + int(rule.fixed_carriers[domain])
        matches = int(current[sorted(rule.matches)].sum()) + int(rule.fixed_matches[domain])
        both = rule.carriers & rule.matches
        if not carriers or not matches:
            return False
        only_itself = matches == 1 and carriers == 1 and int(current[sorted(both)].sum()) == 1
        return not only_itself and not (
            carriers == matches == 1 and int(rule.fixed_carriers[domain]) == 1
        )

    def _apply_near(self, rule: NearRule) -> None:
        total = int(self._state.placement[sorted(rule.matches)].sum())
        total += int(rule.fixed_matches[0].sum())
        for domains, fixed in zip(rule.domains, rule.fixed_matches, strict=True):
            involved = rule.carriers | rule.matches
            for domain, nodes in self._domains(domains, involved).items():
                rows = np.flatnonzero(domains == domain)
                count = self._count(rule.matches, nodes, rows, int(fixed[domain]))
                for number in rule.carriers:
                    needed = 1 + (number in rule.matches)
                    if total < needed:
                        if number not in rule.matches:
                            self._forbid_arrivals(frozenset([number]), nodes)
                        continue
                    self._require(number, rows, nodes, count, needed)
            self._forbid_arrivals(rule.carriers, [n for n in self._nodes if domains[n] < 0])

    def _require(
        self, number: int, rows: NDArray[np.intp], nodes: list[int], count: Any, needed: int
    ) -> None:
        """Require this many matching pods in the domain if a pod of the class is placed in it."""
        problem, state = self._problem, self._state
        outside = rows[~self._is_inside[rows]]
        came = (state.placement[number, outside] > problem.current[number, outside]).any()
        if came:
            self._model.add(count >= needed)
            return
        for node in nodes:
            if (number, node) in self._arrivals:
                comes = self._comes(number, node)
                self._model.add(count >= needed).only_enforce_if(comes)

    def _apply_spread(self, rule: SpreadRule) -> None:
        counted = np.where(rule.counts, rule.domain, -1)
        involved = rule.carriers | rule.matches
        self._forbid_arrivals(rule.carriers, [n for n in self._nodes if rule.domain[n] < 0])
        touched = self._domains(rule.domain, involved)
        if not touched:
            return
        counts: dict[int, Any] = {}
        lowest_outside: int | None = None
        for domain in np.flatnonzero(rule.present).tolist():
            nodes = [n for n in touched.get(domain, ()) if rule.counts[n]]
            rows = np.flatnonzero(counted == domain)
            counts[domain] = self._count(rule.matches, nodes, rows, int(rule.fixed_matches[domain]))
            if isinstance(counts[domain], int):
                value = counts[domain]
                lowest_outside = value if lowest_outside is None else min(lowest_outside, value)
        lowest = self._lowest(rule, counts, lowest_outside)
        for domain, nodes in touched.items():
            limit = lowest + rule.max_skew
            for number in rule.carriers:
                self._limit(number, domain, nodes, counts.get(domain, 0), limit, rule)

    def _lowest(self, rule: SpreadRule, counts: Mapping[int, Any], outside: int | None) -> Any:
        if rule.has_too_few_domains or not counts:
            return 0
        most = int(self._totals.sum()) + int(self._state.placement.sum())
        most += int(rule.fixed_matches.sum()) + 1
        lowest = self._model.new_int_var(0, most if outside is None else outside, "")
        for count in counts.values():
            if not isinstance(count, int):
                self._model.add(lowest <= count)
        return lowest

    def _limit(
        self, number: int, domain: int, nodes: list[int], count: Any, limit: Any, rule: SpreadRule
    ) -> None:
        problem, state = self._problem, self._state
        rows = np.flatnonzero(rule.domain == domain)
        outside = rows[~self._is_inside[rows]]
        came = (state.placement[number, outside] > problem.current[number, outside]).any()
        if came:
            self._model.add(count <= limit)
            return
        for node in nodes:
            if (number, node) in self._arrivals:
                self._model.add(count <= limit).only_enforce_if(self._comes(number, node))

    def _domains(self, domain: NDArray[np.int32], involved: frozenset[int]) -> dict[int, list[int]]:
        """Return the nodes of each domain that are part of the model, if the rule needs them."""
        found: dict[int, list[int]] = {}
        if any(number in involved for number in self._classes):
            for node in self._nodes:
                if domain[node] >= 0:
                    found.setdefault(int(domain[node]), []).append(node)
        return found

    def _count(
        self, classes: frozenset[int], nodes: list[int], rows: NDArray[np.intp], fixed: int
    ) -> Any:
        return self._inside(classes, nodes) + self._outside(classes, rows) + fixed

    def _inside(self, classes: frozenset[int], nodes: list[int]) -> Any:
        return sum(
            self._on[number, node]
            for number in self._classes
            if number in classes
            for node in nodes
            if (number, node) in self._on
        )

    def _outside(self, classes: frozenset[int], rows: NDArray[np.intp]) -> int:
        outside = rows[~self._is_inside[rows]]
        if not classes or not len(outside):
            return 0
        return int(self._state.placement[sorted(classes)][:, outside].sum())

    def _indicator(self, count: Any) -> Any:
        """Return a variable that is true if the count is not zero."""
        is_any = self._model.new_bool_var("")
        self._model.add(count == 0).only_enforce_if(~is_any)
        return is_any

    def _comes(self, number: int, node: int) -> Any:
        """Return a variable that is true if a pod of the class comes to the node."""
        key = (number, node)
        if key not in self._has_arrivals:
            self._has_arrivals[key] = self._indicator(self._arrivals[key])
        return self._has_arrivals[key]

    def _forbid_arrivals(self, classes: frozenset[int], nodes: Iterable[int]) -> None:
        for node in nodes:
            for number in self._classes:
                if number in classes and (number, node) in self._on:
                    here = int(self._problem.current[number, node])
                    self._model.add(self._on[number, node] <= here)
