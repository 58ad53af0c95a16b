"""The packing problem of a workload and a catalog of node types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.api import Node, ObjectMeta, Pod
from kubesched.api.base import ApiObject
from kubesched.explain.snapshot import Snapshot
from kubesched.plan.packing.packing_problem import PackingProblem, SpreadRule
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.reading.cluster_problem import read_problem
from kubesched.plan.reading.planning_policy import PlanningPolicy
from kubesched.plan.sizing.node_catalog import NodeType
from kubesched.plan.sizing.type_packing import OUTSIDE

__all__ = ["SizingProblem", "SizingWorkload", "read_sizing_problem"]

_OUTSIDE_NAME: Final = "\0outside"  # sorts before the names of nodes


class SizingWorkload(NamedTuple):
    """The pods as a server stores them, their related objects, and the daemon pods of each type."""

    pods: Sequence[Pod]
    others: Sequence[ApiObject]
    daemons: Mapping[str, Sequence[Pod]]  # by the name of the type


class SizingProblem(NamedTuple):
    """The problem with all nodes that might be needed, and the type of each (-1: outside)."""

    problem: PackingProblem
    type_of: NDArray[np.intp]
    # Pods that fit no node of any type, by name.
    homeless: Sequence[Pod]
    class_of: Mapping[str, int]  # by namespace and name of a pod


def read_sizing_problem(
    workload: SizingWorkload,
    types: Sequence[NodeType],
    counts: Sequence[int],
    policy: PlanningPolicy,
    base: Snapshot,
) -> SizingProblem:
    """Read the problem with this many nodes of each type.

    Raises:
        PluginError: a plugin failed.
    """
    outside = Node(metadata=ObjectMeta(name=_OUTSIDE_NAME, uid="outside"))
    nodes: list[Node] = [outside]
    numbers: dict[str, int] = {}
    daemons: list[Pod] = []
    for kind, (node_type, count) in enumerate(zip(types, counts, strict=True)):
        for number in range(1, count + 1):
            node = node_type.make(number)
            name = node.metadata.name
            numbers[name] = kind
            nodes.append(node)
            for pod in workload.daemons.get(node_type.name, ()):
                metadata = replace(
                    pod.metadata,
                    name=f"{pod.metadata.name}-{name}",
                    uid=f"{pod.metadata.uid}-{name}",
                )
                daemons.append(
                    replace(pod, metadata=metadata, spec=replace(pod.spec, node_name=name))
                )
    placed = [
        replace(
            pod,
            metadata=replace(pod.metadata, uid=f"sized-{number}"),
            spec=replace(pod.spec, node_name=_OUTSIDE_NAME),
        )
        for number, pod in enumerate(workload.pods)
    ]
    model = base.model.with_objects([*nodes, *daemons, *placed, *workload.others])
    read = read_problem(model, policy, lambda *_: None)
    problem = read.problem
    type_of = np.array([numbers.get(name, -1) for name in problem.nodes], dtype=np.intp)
    assert type_of[OUTSIDE] == -1
    prices = np.array([each.price for each in types], dtype=np.int64)
    price = np.where(type_of >= 0, prices[type_of], 0)
    price[OUTSIDE] = int(price.sum()) + 1
    problem = problem._replace(
        price=price,
        kept=np.zeros(len(type_of), dtype=bool),
        # Unused nodes are no domains, so the emptiest domain is not known in advance. The scheduler
        # checks these constraints when it places the pods.
        spread=[rule for rule in problem.spread if not _is_per_node(rule)],
    )
    state = PackingState(problem)
    homeless = []
    for number in range(len(problem.demand)):
        can_be = problem.allowed[number] & state.fitting(number)
        can_be[OUTSIDE] = False
        if not can_be.any():
            homeless += [pod.pod for pod in read.pods if pod.number == number]
    return SizingProblem(problem, type_of, homeless, {pod.key: pod.number for pod in read.pods})


def _is_per_node(rule: SpreadRule) -> bool:
    domains = rule.domain[rule.domain >= 0]
    return len(np.unique(domains)) == len(domains)
