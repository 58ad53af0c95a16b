"""Greedy drains with several choices of nodes: the cheapest placement is the start of a search."""

from __future__ import annotations

import numpy as np

from kubesched.foundation.util.clock import ManualClock
from kubesched.plan.consolidation import pack
from kubesched.plan.packing.greedy_drain import best_node, drain_greedily, first_node
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.packing.solver import Deadline
from kubesched.plan.reading.cluster_problem import read_problem
from kubesched.plan.reading.planning_policy import PlanningPolicy
from tests.plan.clusters import mixed_cluster, model_of


def test_the_better_of_two_choices_is_the_start() -> None:
    """On this cluster the first node that accepts a pod frees more nodes than the fullest one."""
    problem = read_problem(model_of(mixed_cluster(5, 130)), PlanningPolicy()).problem
    hint = np.ones(len(problem.nodes), dtype=bool)
    price = {}
    for choose in (best_node, first_node):
        state = PackingState(problem)
        drain_greedily(state, hint, choose)
        price[choose] = problem.cost(state.placement)[0]
    assert price[first_node] < price[best_node]
    # Without time to search, the placement is that of a drain.
    found = pack(problem, Deadline(ManualClock(0), 0))
    assert problem.cost(found.placement)[0] <= price[first_node]
