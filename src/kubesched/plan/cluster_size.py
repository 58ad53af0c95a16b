"""Finds the cheapest nodes of a catalog for a workload, and lets the scheduler place it there."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from kubesched.api import Node
from kubesched.api.base import ApiObject
from kubesched.errors import KubeschedError
from kubesched.explain.snapshot import Snapshot
from kubesched.foundation.util.clock import Clock, RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.packing.solver import Deadline
from kubesched.plan.plan_results import OneTypeSizing, SizedType, Sizing
from kubesched.plan.reading.cluster_problem import PRICE_UNITS
from kubesched.plan.reading.planning_policy import PlanningPolicy
from kubesched.plan.sizing.node_catalog import NodeType, node_types
from kubesched.plan.sizing.sized_cluster import place_workload, stored_workload
from kubesched.plan.sizing.sizing_problem import (
    SizingProblem,
    SizingWorkload,
    read_sizing_problem,
)
from kubesched.plan.sizing.type_packing import TypePacking, pack_types
from kubesched.plan.sizing.workload_expansion import ExpandedWorkload, expand_workload

__all__ = ["size_cluster"]

# How often nodes are added, by a hundredth each time, if the scheduler cannot reproduce a packing.
_MOST_TRIES: Final = 40
_MAIN_SHARE: Final = 0.5  # the share of the time for mixed types; the rest is for each type alone


class _Sized(NamedTuple):
    counts: Mapping[int, int]
    packing: TypePacking
    pending: Mapping[str, str]  # pods without a node


def size_cluster(
    workload: Iterable[ApiObject],
    catalog: Iterable[Node],
    *,
    base: Snapshot | None = None,
    policy: PlanningPolicy | None = None,
    seconds: float = 60,
    seed: int = 0,
    clock: Clock | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Sizing:
    """Find which nodes of the catalog, and how many, the workload needs.

    `base` has the configuration and the plugins of the scheduler; its objects do not matter.

    Raises:
        KubeschedError: there are no pods or no types, an object is refused, or OR-Tools is missing.
    """
    policy, clock = policy or PlanningPolicy(), clock or RealClock()
    base = base or Snapshot(())
    types = node_types(catalog, policy)
    expanded = expand_workload(workload)
    if not types:
        raise KubeschedError("the catalog has no nodes")
    if not expanded.pods:
        raise KubeschedError("the workload has no pods")
    report("reading the workload")
    stored = stored_workload(expanded, types, base, seed)
    sizer = _Sizer(expanded, stored, policy, base, seed, clock, report)
    few = read_sizing_problem(stored, types, [1] * len(types), policy, base)
    if few.homeless:
        return _impossible(expanded, types, few, base, seed)
    found = sizer.size(types, seconds * _MAIN_SHARE)
    share = seconds * (1 - _MAIN_SHARE) / len(types)
    only = tuple(sizer.size_only(each, share) for each in types)
    return _answer(types, found, only, len(expanded.pods))


class _Sizer:
    """Computes results for some of the node types."""

    def __init__(
        self,
        expanded: ExpandedWorkload,
        stored: SizingWorkload,
        policy: PlanningPolicy,
        base: Snapshot,
        seed: int,
        clock: Clock,
        report: Callable[[str], None],
    ) -> None:
        self._expanded, self._stored = expanded, stored
        self._policy, self._base = policy, base
        self._seed, self._clock, self._report = seed, clock, report
        self._random: random.Random = derive(seed, "sizing")

    def size(self, types: Sequence[NodeType], seconds: float) -> _Sized:
        """Pack, then add nodes until the scheduler places all pods."""
        deadline = Deadline(self._clock, seconds)
        packing = self._pack(types, deadline)
        names = ", ".join(each.name for each in types)
        self._report(f"{names}: {sum(packing.counts.values())} nodes hold the pods")
        counts = dict(packing.counts)
        pending: Mapping[str, str] = {}
        for _ in range(_MOST_TRIES):
            chosen = [(types[kind], count) for kind, count in sorted(counts.items())]
            pending = place_workload(self._expanded, chosen, self._base, self._seed)
            if not pending:
                break
            self._report(f"{names}: {len(pending)} pods have no node, one more")
            kind = self._type_for(types, next(iter(pending)))
            counts[kind] = counts.get(kind, 0) + max(1, sum(counts.values()) // 100)
        return _Sized(counts, packing, pending)

    def size_only(self, node_type: NodeType, seconds: float) -> OneTypeSizing:
        """Return the result for a cluster with nodes of this type only."""
        few = read_sizing_problem(self._stored, [node_type], [1], self._policy, self._base)
        if few.homeless:
            pod = few.homeless[0]
            name = f"{pod.metadata.namespace}/{pod.metadata.name}"
            return OneTypeSizing(name=node_type.name, impossible=f"pod {name} does not fit")
        try:
            found = self.size([node_type], seconds)
        except KubeschedError as error:
            return OneTypeSizing(name=node_type.name, impossible=str(error))
        count = sum(found.counts.values())
        return OneTypeSizing(
            name=node_type.name,
            nodes=count,
            packed_nodes=sum(found.packing.counts.values()),
            cost=count * node_type.price / PRICE_UNITS,
            lower_bound=found.packing.bound / PRICE_UNITS,
            verified=not found.pending,
        )

    def _pack(self, types: Sequence[NodeType], deadline: Deadline) -> TypePacking:
        """Pack with the largest useful number of nodes of each type.

        The price of a first packing limits these numbers: no cheaper packing has more nodes of a
        type than that price pays for.
        """
        enough = self._enough(types)
        first = self._read(types, enough)
        found = pack_types(first.problem, first.type_of, deadline.part(0.3), self._random)
        if found is None:
            raise KubeschedError("no number of these nodes holds the pods together")
        pods = len(self._stored.pods)
        needed = [min(pods, found.price // max(each.price, 1)) for each in types]
        if all(need <= given for need, given in zip(needed, enough, strict=True)):
            if found.price == found.bound:
                return found
            needed = [min(pair) for pair in zip(needed, enough, strict=True)]
        final = self._read(types, needed)
        better = pack_types(final.problem, final.type_of, deadline, self._random)
        if better is None or better.price > found.price:
            bound = better.bound if better is not None else 0
            return found._replace(bound=min(found.price, bound))
        return better

    def _read(self, types: Sequence[NodeType], counts: Sequence[int]) -> SizingProblem:
        return read_sizing_problem(self._stored, types, counts, self._policy, self._base)

    def _enough(self, types: Sequence[NodeType]) -> list[int]:
        """Return for each type a number of nodes that probably suffices for all of its pods."""
        few = self._read(types, [1] * len(types))
        problem = few.problem
        totals = problem.totals
        counts = []
        for kind in range(len(types)):
            node = int(np.flatnonzero(few.type_of == kind)[0])
            fits = problem.allowed[:, node] & (problem.demand <= problem.room[node]).all(axis=1)
            demand = totals[fits] @ problem.demand[fits]
            share = float((demand / np.maximum(problem.room[node], 1)).max(initial=0.0))
            apart = max(
                (int(totals[sorted(rule.carriers & rule.matches)].sum()) for rule in problem.apart),
                default=0,
            )
            enough = max(2 * int(np.ceil(share)) + 2, apart)
            counts.append(min(enough, len(self._stored.pods)) if fits.any() else 0)
        return counts

    def _type_for(self, types: Sequence[NodeType], pending: str) -> int:
        """Return the cheapest type that may fit a pod."""
        few = self._read(types, [1] * len(types))
        state = PackingState(few.problem)
        number = few.class_of[pending]
        allowed = np.flatnonzero(
            few.problem.allowed[number] & state.fitting(number) & (few.type_of >= 0)
        )
        return int(min(few.type_of[allowed].tolist(), key=lambda kind: types[kind].price))


def _answer(
    types: Sequence[NodeType], found: _Sized, only: tuple[OneTypeSizing, ...], pods: int
) -> Sizing:
    """Return the result; one type alone may be cheaper if the scheduler packs it better."""
    nodes = sum(found.counts.values())
    price = sum(types[kind].price * count for kind, count in found.counts.items())
    counts: Mapping[int, int] = found.counts
    is_verified = not found.pending
    for kind, each in enumerate(only):
        cost = round(each.cost * PRICE_UNITS)
        if each.verified and (cost < price or not is_verified):
            nodes, price, counts, is_verified = each.nodes, cost, {kind: each.nodes}, True
    return Sizing(
        nodes=nodes,
        cost=price / PRICE_UNITS,
        lower_bound=found.packing.bound / PRICE_UNITS,
        types=tuple(
            SizedType(name=types[kind].name, nodes=count, price=types[kind].price / PRICE_UNITS)
            for kind, count in sorted(counts.items())
        ),
        pods=pods,
        verified=is_verified,
        packed_nodes=sum(found.packing.counts.values()),
        packed_cost=found.packing.price / PRICE_UNITS,
        only=only,
        problems=tuple(f"pod {pod}: {why}" for pod, why in found.pending.items())
        if not is_verified
        else (),
    )


def _impossible(
    expanded: ExpandedWorkload,
    types: Sequence[NodeType],
    few: SizingProblem,
    base: Snapshot,
    seed: int,
) -> Sizing:
    """Return the pods that fit no type, with the scheduler's message."""
    homeless = {f"{pod.metadata.namespace}/{pod.metadata.name}" for pod in few.homeless}
    pods = [
        pod for pod in expanded.pods if f"{pod.metadata.namespace}/{pod.metadata.name}" in homeless
    ]
    one_of_each = [(each, 1) for each in types]
    pending = place_workload(expanded._replace(pods=pods), one_of_each, base, seed)
    return Sizing(
        nodes=0,
        cost=0.0,
        lower_bound=0.0,
        pods=len(expanded.pods),
        unplaceable={name: pending.get(name, "it fits no type") for name in sorted(homeless)},
    )
