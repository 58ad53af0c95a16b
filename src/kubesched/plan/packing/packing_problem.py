"""A packing problem: classes of equal pods, nodes with room, and the rules between pods.

Plain arrays without Kubernetes objects. Pods of one class are interchangeable. A pod that stays on
its node may violate rules, as with `IgnoredDuringExecution`; a pod that is moved must satisfy all
rules in the final placement.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "ApartRule",
    "Headroom",
    "NearRule",
    "PackingProblem",
    "Placement",
    "SpreadRule",
]

Placement = NDArray[np.int32]  # int32[class, node]: pods of a class on a node


class ApartRule(NamedTuple):
    """Required anti-affinity: the domain of a carrier has no other pod that matches.

    Conflicts of host ports are the same rule with nodes as domains.
    """

    domain: NDArray[np.int32]  # int32[node]; -1: the node has no such label
    carriers: frozenset[int]  # classes
    matches: frozenset[int]  # classes
    fixed_carriers: NDArray[np.int64]  # int64[domain]: pods that are not moved
    fixed_matches: NDArray[np.int64]  # int64[domain]


class NearRule(NamedTuple):
    """Required affinity: a carrier needs another matching pod in its domain of each key."""

    domains: tuple[NDArray[np.int32], ...]  # one array per topology key
    carriers: frozenset[int]
    matches: frozenset[int]
    fixed_matches: tuple[NDArray[np.int64], ...]  # per key int64[domain]


class SpreadRule(NamedTuple):
    """A hard spread constraint: a domain has at most `max_skew` more pods than the emptiest one."""

    domain: NDArray[np.int32]  # int32[node]; -1: the node has no such label
    counts: NDArray[np.bool_]  # bool[node]: whether pods on the node count
    present: NDArray[np.bool_]  # bool[domain]: whether the domain has a node that counts
    carriers: frozenset[int]
    matches: frozenset[int]
    fixed_matches: NDArray[np.int64]  # int64[domain]
    max_skew: int
    has_too_few_domains: bool  # the minimum is then 0


class Headroom(NamedTuple):
    """Free room that the nodes of the plan must have: their weights must add up to `needed`."""

    weights: NDArray[np.int64]  # int64[node]
    needed: int


class PackingProblem(NamedTuple):
    """What may move, where it may go, and what it needs.

    `room` is the capacity of a node for the pods of the classes, `demand` the requests of one pod
    of a class. A class may be placed where `allowed`, and may stay where it is. A lower bound uses
    `possibly_allowed`, which also has the nodes that only rules of unknown plugins exclude.
    """

    resources: tuple[str, ...]
    nodes: tuple[str, ...]
    room: NDArray[np.int64]  # int64[node, resource]
    kept: NDArray[np.bool_]  # bool[node]: the node cannot be emptied
    price: NDArray[np.int64]  # int64[node]
    demand: NDArray[np.int64]  # int64[class, resource]
    allowed: NDArray[np.bool_]  # bool[class, node]
    possibly_allowed: NDArray[np.bool_]  # bool[class, node]
    current: Placement
    apart: Sequence[ApartRule]
    near: Sequence[NearRule]
    spread: Sequence[SpreadRule]
    headroom: Sequence[Headroom]

    @property
    def totals(self) -> NDArray[np.int64]:
        """The number of pods per class."""
        counted: NDArray[np.int64] = self.current.sum(axis=1, dtype=np.int64)
        return counted

    def used(self, placement: Placement) -> NDArray[np.bool_]:
        """Return the nodes that a placement needs, with empty ones if room must stay free."""
        used: NDArray[np.bool_] = self.kept | (placement > 0).any(axis=0)
        for each in self.headroom:
            worth = each.weights / np.maximum(self.price, 1)
            for node in np.argsort(-worth, kind="stable").tolist():
                if int(each.weights[used].sum()) >= each.needed or each.weights[node] <= 0:
                    break
                used[node] = True
        return used

    def cost(self, placement: Placement) -> tuple[int, int]:
        """Return the price of the nodes that a placement needs, and the pods that it moves."""
        moves = int(np.maximum(placement - self.current, 0).sum())
        return int(self.price[self.used(placement)].sum()), moves
