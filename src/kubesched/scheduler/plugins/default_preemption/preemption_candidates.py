"""Nodes on which evictions would make room, and the choice of the best one.

docs/reference/06 §3.8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from kubesched.api.pod_facts import pod_priority, start_time_ns
from kubesched.framework import PodInfo

__all__ = [
    "COSTS",
    "NEGATED_START",
    "VIOLATIONS",
    "PreemptionCandidate",
    "PreemptionCandidates",
    "costs_of",
]

# The costs of evicting the victims of a node, in order of comparison; lower is better. They are
# the rows of a matrix int64[cost, candidate].
COSTS = 5
VIOLATIONS, TOP_PRIORITY, PRIORITY_SUM, VICTIM_COUNT, NEGATED_START = range(COSTS)

# Added to every priority, so that the sum is positive for each victim: two victims of low priority
# cost more than one of them.
PRIORITY_OFFSET = 2**31


class PreemptionCandidate(NamedTuple):
    """A node and its victims, the most important first.

    Only the rules of a plugin can find a node that needs no victim, because pods leave it anyway.
    """

    node_name: str
    victims: tuple[PodInfo, ...]
    violations: int  # victims whose eviction violates a disruption budget


def costs_of(candidate: PreemptionCandidate, now_ns: int) -> tuple[int, ...]:
    """Return the costs of one candidate."""
    if not candidate.victims:
        return 0, -PRIORITY_OFFSET, 0, 0, 0
    priorities = [pod_priority(victim.pod) for victim in candidate.victims]
    highest = max(priorities)
    earliest = min(
        start_time_ns(victim.pod, now_ns)
        for victim, priority in zip(candidate.victims, priorities, strict=True)
        if priority == highest
    )
    return (
        candidate.violations,
        priorities[0],  # an extender may have changed the order
        sum(priorities) + len(priorities) * PRIORITY_OFFSET,
        len(priorities),
        -earliest,
    )


class PreemptionCandidates:
    """Candidates with their costs.

    The victims of a candidate are determined on request.
    """

    __slots__ = ("_describe", "costs")

    def __init__(
        self, costs: NDArray[np.int64], describe: Callable[[int], PreemptionCandidate]
    ) -> None:
        self.costs = costs  # int64[cost, candidate]
        self._describe = describe

    @classmethod
    def of(cls, found: Sequence[PreemptionCandidate], now_ns: int) -> PreemptionCandidates:
        costs = np.array([costs_of(each, now_ns) for each in found], dtype=np.int64)
        return cls(costs.reshape(len(found), COSTS).T, found.__getitem__)

    @classmethod
    def joined(
        cls, parts: Iterable[tuple[PreemptionCandidates, NDArray[np.intp]]]
    ) -> PreemptionCandidates:
        """Combine selected candidates of each part, in order."""
        chosen = [(part, which) for part, which in parts if len(which)]
        costs = [part.costs[:, which] for part, which in chosen]
        joined = np.concatenate(costs, axis=1) if costs else np.zeros((COSTS, 0), dtype=np.int64)

        def describe(number: int) -> PreemptionCandidate:
            for part, which in chosen:
                if number < len(which):
                    return part[int(which[number])]
                number -= len(which)
            raise IndexError(number)

        return cls(joined, describe)

    def reordered(self, order: NDArray[np.intp]) -> PreemptionCandidates:
        return PreemptionCandidates(self.costs[:, order], lambda number: self[int(order[number])])

    def __len__(self) -> int:
        return int(self.costs.shape[1])

    def __getitem__(self, number: int) -> PreemptionCandidate:
        return self._describe(number)

    def best(self) -> PreemptionCandidate:
        """Return the candidate of the lowest cost, the first among equals.

        There must be one.
        """
        left = np.arange(len(self))
        for costs in self.costs:
            if len(left) == 1:
                break
            remaining = costs[left]
            left = left[remaining == remaining.min()]
        return self[int(left[0])]
