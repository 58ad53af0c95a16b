"""The placement is optimal, and the bound is valid: both are compared with exhaustive search."""

from __future__ import annotations

import os

import pytest

from kubesched.foundation.util.clock import RealClock
from kubesched.plan.consolidation import PackingResult, pack
from kubesched.plan.packing.solver import Deadline
from kubesched.plan.reading.cluster_problem import read_problem
from kubesched.plan.reading.planning_policy import PlanningPolicy
from tests.plan.clusters import model_of, random_cluster
from tests.plan.exhaustive import UndecidedError, fewest_nodes

# `KUBESCHED_EXPLORE=1` compares 200 larger clusters; some of them take minutes.
EXPLORES = bool(os.environ.get("KUBESCHED_EXPLORE"))
SEEDS, NODES, PODS = (range(100, 300), 12, 40) if EXPLORES else (range(20), 7, 14)


def packed(seed: int, nodes: int, pods: int) -> tuple[PackingResult, int]:
    """The placement of a random cluster, and how many nodes it needs."""
    problem = read_problem(model_of(random_cluster(seed, nodes, pods)), PlanningPolicy()).problem
    found = pack(problem, Deadline(RealClock(), 600))
    return found, problem.cost(found.placement)[0]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_placement_needs_fewer_nodes(seed: int) -> None:
    found, needed = packed(seed, NODES, PODS)
    assert found.is_optimal
    assert found.bound <= needed
    try:
        fewest = fewest_nodes(random_cluster(seed, NODES, PODS))
    except UndecidedError:
        assert EXPLORES, "the small clusters are decided"
        return
    assert needed == fewest
