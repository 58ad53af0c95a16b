"""A placement that changes pod by pod, with the counts that decide where a pod may be placed.

All methods evaluate all nodes at once. The rules are those of `packing_problem.py`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from kubesched.plan.packing.packing_problem import (
    ApartRule,
    NearRule,
    PackingProblem,
    Placement,
    SpreadRule,
)

__all__ = ["PackingState"]


class PackingState:
    """Room and counts of a placement. `add` with a negative number removes pods."""

    def __init__(self, problem: PackingProblem, placement: Placement | None = None) -> None:
        self.problem = problem
        start = problem.current if placement is None else placement
        self.placement: Placement = start.copy()
        self.room = problem.room - start.T.astype(np.int64) @ problem.demand
        self.pods_on = start.sum(axis=0, dtype=np.int64)
        self.rules: list[_ApartCounts | _NearCounts | _SpreadCounts] = [
            *(_ApartCounts(rule, start) for rule in problem.apart),
            *(_NearCounts(rule, start) for rule in problem.near),
            *(_SpreadCounts(rule, start) for rule in problem.spread),
        ]
        self._counting: list[list[_ApartCounts | _NearCounts | _SpreadCounts]] = [
            [] for _ in range(len(problem.demand))
        ]
        self._judging: list[list[_ApartCounts | _NearCounts | _SpreadCounts]] = [
            [] for _ in range(len(problem.demand))
        ]
        for each in self.rules:
            for number in each.rule.carriers | each.rule.matches:
                self._counting[number].append(each)
            for number in each.affected:
                self._judging[number].append(each)
        # The resources that a class requests; the others are not compared.
        self._asked = [np.flatnonzero(row) for row in problem.demand]

    def add(self, number: int, node: int, count: int = 1) -> None:
        """Place pods of a class on a node."""
        self.placement[number, node] += count
        self.pods_on[node] += count
        self.room[node] -= count * self.problem.demand[number]
        for each in self._counting[number]:
            each.add(number, node, count)

    def accepting(self, number: int) -> NDArray[np.bool_]:
        """Return the nodes where one more pod of the class may be placed."""
        accepted: NDArray[np.bool_] = self.problem.allowed[number] & self.fitting(number)
        for each in self._judging[number]:
            accepted &= each.accepting(number)
        return accepted

    def fitting(self, number: int) -> NDArray[np.bool_]:
        """Return the nodes with enough room for one more pod of the class."""
        fits = np.ones(len(self.room), dtype=bool)
        demand = self.problem.demand[number]
        for column in self._asked[number]:
            fits &= self.room[:, column] >= demand[column]
        return fits

    def has_headroom(self, used: NDArray[np.bool_]) -> bool:
        """Whether the nodes in use have the required free room."""
        return all(int(each.weights[used].sum()) >= each.needed for each in self.problem.headroom)


class _ApartCounts:
    """Carriers and matches of an anti-affinity rule per domain."""

    def __init__(self, rule: ApartRule, placement: Placement) -> None:
        self.rule = rule
        self.affected = rule.carriers | rule.matches
        self._carriers = _by_domain(rule.carriers, rule.domain, placement, rule.fixed_carriers)
        self._matches = _by_domain(rule.matches, rule.domain, placement, rule.fixed_matches)

    def add(self, number: int, node: int, count: int) -> None:
        domain = self.rule.domain[node]
        if domain >= 0:
            if number in self.rule.carriers:
                self._carriers[domain] += count
            if number in self.rule.matches:
                self._matches[domain] += count

    def accepting(self, number: int) -> NDArray[np.bool_]:
        blocked = np.zeros(len(self._carriers) + 1, dtype=bool)
        if number in self.rule.carriers:
            blocked[:-1] |= self._matches > 0
        if number in self.rule.matches:
            blocked[:-1] |= self._carriers > 0
        # the last element is for the domain -1
        accepted: NDArray[np.bool_] = ~blocked[self.rule.domain]
        return accepted


class _NearCounts:
    """Matching pods of an affinity rule per key and domain."""

    def __init__(self, rule: NearRule, placement: Placement) -> None:
        self.rule = rule
        self.affected = rule.carriers
        self._matches = [
            _by_domain(rule.matches, domain, placement, fixed)
            for domain, fixed in zip(rule.domains, rule.fixed_matches, strict=True)
        ]
        placed = int(placement[sorted(rule.matches)].sum()) if rule.matches else 0
        self._total = placed + sum(int(fixed.sum()) for fixed in rule.fixed_matches[:1])

    def add(self, number: int, node: int, count: int) -> None:
        if number in self.rule.matches:
            self._total += count
            for domain, matches in zip(self.rule.domains, self._matches, strict=True):
                if domain[node] >= 0:
                    matches[domain[node]] += count

    def accepting(self, number: int) -> NDArray[np.bool_]:
        accepted = np.ones(len(self.rule.domains[0]), dtype=bool)
        # The first pod of a self-matching group may be placed on any node with the labels.
        is_first = self._total == 0 and number in self.rule.matches
        for domain, matches in zip(self.rule.domains, self._matches, strict=True):
            has_match = np.append(matches > 0, False)
            accepted &= (domain >= 0) if is_first else has_match[domain]
        return accepted


class _SpreadCounts:
    """Matching pods of a spread constraint per domain."""

    def __init__(self, rule: SpreadRule, placement: Placement) -> None:
        self.rule = rule
        self.affected = rule.carriers
        self._domain = np.where(rule.counts, rule.domain, -1)
        self._matches = _by_domain(rule.matches, self._domain, placement, rule.fixed_matches)

    def add(self, number: int, node: int, count: int) -> None:
        domain = self._domain[node]
        if domain >= 0 and number in self.rule.matches:
            self._matches[domain] += count

    def accepting(self, number: int) -> NDArray[np.bool_]:
        rule = self.rule
        present = self._matches[rule.present]
        lowest = 0 if rule.has_too_few_domains or not len(present) else int(present.min())
        limit = lowest + rule.max_skew - (number in rule.matches)
        passes = np.append(self._matches <= limit, False)
        accepted: NDArray[np.bool_] = passes[rule.domain]
        return accepted


def _by_domain(
    classes: frozenset[int],
    domain: NDArray[np.int32],
    placement: Placement,
    fixed: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Count the pods of some classes per domain, and the fixed ones."""
    counts = fixed.copy()
    if classes:
        per_node = placement[sorted(classes)].sum(axis=0)
        has_domain = domain >= 0
        np.add.at(counts, domain[has_domain], per_node[has_domain])
    return counts
