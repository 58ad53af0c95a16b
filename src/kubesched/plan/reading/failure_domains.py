"""Failure domains: nodes, or zones with all their nodes; and the free room that survives a loss."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from kubesched.api import Node
from kubesched.plan.packing.packing_problem import Headroom, PackingProblem

__all__ = ["failure_domains", "survival_headroom"]

_ZONE: Final = "topology.kubernetes.io/zone"
_COUNTED: Final = ("cpu", "memory")


def failure_domains(nodes: Iterable[Node], survive: str) -> Mapping[str, Sequence[str]]:
    """Return the node names of each domain. A node without a zone belongs to no zone."""
    found: dict[str, list[str]] = {}
    for node in nodes:
        name = node.metadata.name
        domain = node.metadata.labels.get(_ZONE, "") if survive == "zone" else name
        if domain:
            found.setdefault(domain, []).append(name)
    return found


def survival_headroom(
    problem: PackingProblem, nodes: Sequence[Node], survive: str, percent: int
) -> list[Headroom]:
    """Return sums that hold if any one domain can be lost; `percent` above 100 makes them stricter.

    After the loss of a zone the other zones have room for all pods that may leave it. After the
    loss of a node, at least of the smallest one, the other nodes have room for all pods.
    """
    if not survive or not nodes:
        return []
    columns = [n for n, name in enumerate(problem.resources) if name in _COUNTED]
    if survive == "node":
        needed = problem.totals @ problem.demand
        return [
            Headroom(
                100 * problem.room[:, column],
                percent * int(needed[column]) + 100 * max(0, int(problem.room[:, column].min())),
            )
            for column in columns
            if needed[column]
        ]
    number = {node.metadata.name: place for place, node in enumerate(nodes)}
    found = []
    for names in failure_domains(nodes, survive).values():
        inside = np.zeros(len(nodes), dtype=bool)
        inside[[number[name] for name in names]] = True
        can_leave = problem.possibly_allowed[:, ~inside].any(axis=1)
        needed = problem.totals[can_leave] @ problem.demand[can_leave]
        found += [
            Headroom(
                100 * np.where(inside, 0, problem.room[:, column]), percent * int(needed[column])
            )
            for column in columns
            if needed[column]
        ]
    return found
