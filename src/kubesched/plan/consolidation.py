"""Consolidates a cluster: the fewest nodes, a proved bound, and rehearsed moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.snapshot import Snapshot
from kubesched.foundation.util.clock import Clock, RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.plan.moving.loss_trial import find_losses
from kubesched.plan.packing.exact_packing import ExactSearch
from kubesched.plan.packing.greedy_drain import best_node, drain_greedily, first_node
from kubesched.plan.packing.lower_bound import LowerBound, lower_bound
from kubesched.plan.packing.neighbourhood_search import improve
from kubesched.plan.packing.packing_problem import PackingProblem, Placement
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.packing.solver import Deadline
from kubesched.plan.plan_results import Consolidation
from kubesched.plan.planning_run import PlanningRun, RunOutcome
from kubesched.plan.reading.cluster_problem import PRICE_UNITS, ClusterProblem
from kubesched.plan.reading.planning_policy import PlanningPolicy

__all__ = ["PackingResult", "consolidate", "pack"]

# Up to this number of (class, node) counts, CP-SAT searches the whole problem at once.
_EXACT_SIZE: Final = 4_000
_BOUND_SHARE: Final = 0.3  # the share of the time for the bound

# Percent of the requests that must stay free after a loss, for attempts after 100 did not suffice.
_RESERVES: Final = (110, 125, 150)

Report = Callable[[str], None]


class PackingResult(NamedTuple):
    """A placement, and a proved lower bound on the price."""

    placement: Placement
    bound: int
    is_optimal: bool  # for the rules that the problem has


def consolidate(
    snapshot: Snapshot,
    *,
    policy: PlanningPolicy | None = None,
    seconds: float = 60,
    wave_pods: int = 200,
    seed: int = 0,
    clock: Clock | None = None,
    report: Report = lambda _: None,
) -> Consolidation:
    """Plan the fewest nodes for the running pods, and rehearse the moves.

    `seconds` limits the search for a better placement. Reading the cluster and the rehearsal need
    additional time.

    Raises:
        KubeschedError: OR-Tools is not installed, or the cluster cannot be rehearsed.
    """
    policy, clock = policy or PlanningPolicy(), clock or RealClock()
    planner = _Planner(snapshot, clock, seconds, wave_pods, seed, report)
    answer = planner.plan(policy)
    for percent in _RESERVES if policy.survive else ():
        if not answer.losses:
            break
        report(f"{answer.losses[0]}; planning with more room")
        # The bound belongs to the original problem, without the reserve.
        again = planner.plan(replace(policy, survive_percent=percent))
        answer = replace(again, lower_bound=answer.lower_bound)
    if answer.losses:
        moves = {"moves": (), "waves": (), "emptied": (), "uncordon": ()}
        answer = replace(answer, verified=False, planned_nodes=answer.nodes, **moves)
    return answer


class _Planner:
    """Searches for placements until one of them can be reached by an order of moves."""

    def __init__(
        self,
        snapshot: Snapshot,
        clock: Clock,
        seconds: float,
        wave_pods: int,
        seed: int,
        report: Report,
    ) -> None:
        self._snapshot, self._clock, self._seconds = snapshot, clock, seconds
        self._wave_pods, self._seed, self._report = wave_pods, seed, report
        self._found: list[PackingResult] = []

    def plan(self, policy: PlanningPolicy) -> Consolidation:
        self._found.clear()
        answers = []
        for chooser in (self._choose, self._choose_direct):
            run = PlanningRun(
                self._snapshot,
                policy,
                chooser,
                wave_pods=self._wave_pods,
                seed=self._seed,
                report=self._report,
            )
            outcome = run.run()
            answer = _answer(outcome, self._found[0].bound, policy, self._seconds)
            answers.append(self._with_losses(answer, outcome, policy))
            if not answers[-1].problems:
                break
            self._report(
                "no order of moves leads to the best placement; planning without chains of moves"
            )
        return min(answers, key=_rank)

    def _with_losses(
        self, answer: Consolidation, outcome: RunOutcome, policy: PlanningPolicy
    ) -> Consolidation:
        """Simulate the loss of each node or zone of the plan, on the copy after the last wave."""
        if not policy.survive or not answer.verified:
            return answer
        before = self._snapshot.model
        after = before.with_objects(outcome.objects)
        losses = find_losses(after, before, policy.survive, answer.emptied)
        return replace(answer, losses=tuple(losses))

    def _choose(self, cluster: ClusterProblem, _model: ClusterModel) -> Placement:
        # A later attempt pins other pods, so it needs another placement and bound.
        deadline = Deadline(self._clock, self._seconds)
        self._found.append(pack(cluster.problem, deadline, self._seed, self._progress))
        return self._found[-1].placement

    def _choose_direct(self, cluster: ClusterProblem, _model: ClusterModel) -> Placement:
        return pack_without_chains(cluster.problem, Deadline(self._clock, self._seconds))

    def _progress(self, price: int, bound: int) -> None:
        gap = (price - bound) / max(bound, 1)
        self._report(f"{price} nodes found, at least {bound} (gap {gap:.1%})")


def pack(
    problem: PackingProblem,
    deadline: Deadline,
    seed: int = 0,
    report: Callable[[int, int], None] = lambda _price, _bound: None,
) -> PackingResult:
    """Search for the cheapest placement until it is proved optimal, or the time is up."""
    bound = lower_bound(problem, deadline.left_s * _BOUND_SHARE)
    best = _drained(problem, bound.nodes, np.ones(len(problem.nodes), dtype=bool))
    report(problem.cost(best)[0], bound.price)
    if problem.current.size <= _EXACT_SIZE:
        return _pack_exactly(problem, best, bound, deadline)
    best = improve(
        PackingState(problem, best),
        bound.price,
        deadline,
        derive(seed, "neighbourhoods"),
        lambda price: report(price, bound.price),
    )
    return PackingResult(best, bound.price, problem.cost(best)[0] == bound.price)


def _drained(problem: PackingProblem, *hints: NDArray[np.bool_]) -> Placement:
    """Return the cheapest placement of greedy drains with different hints and node choices."""
    best = problem.current
    for hint in hints:
        for choose in (best_node, first_node):
            state = PackingState(problem)
            drain_greedily(state, hint, choose)
            best = _better(problem, best, state.placement)
    return best


def pack_without_chains(problem: PackingProblem, deadline: Deadline) -> Placement:
    """Search for a placement in which only nodes that become empty lose pods.

    Such a placement may need more nodes, but almost always has an order of moves.
    """
    best = _drained(problem, np.ones(len(problem.nodes), dtype=bool))
    if problem.current.size > _EXACT_SIZE:
        return best
    nodes = range(len(problem.nodes))
    search = ExactSearch(PackingState(problem), nodes, without_chains=True)
    found = search.solve(deadline.left_s).placement
    return best if found is None else _better(problem, best, found)


def _rank(answer: Consolidation) -> tuple[bool, float, int]:
    """Return the sort key of results: verified ones first, then the cheapest."""
    cost = answer.planned_nodes if answer.planned_cost is None else answer.planned_cost
    return not answer.verified, cost, len(answer.moves)


def _pack_exactly(
    problem: PackingProblem, best: Placement, bound: LowerBound, deadline: Deadline
) -> PackingResult:
    nodes = range(len(problem.nodes))
    now = PackingState(problem)
    relaxed = ExactSearch(now, nodes, for_bound=True).solve(deadline.left_s / 4, moves=False)
    price = max(bound.price, relaxed.price_bound)
    found = ExactSearch(PackingState(problem, best), nodes).solve(deadline.left_s)
    if found.placement is not None:
        best = found.placement if found.is_optimal else _better(problem, best, found.placement)
    return PackingResult(best, price, found.is_optimal)


def _better(problem: PackingProblem, one: Placement, other: Placement) -> Placement:
    return other if problem.cost(other) < problem.cost(one) else one


def _answer(
    outcome: RunOutcome, bound: int, policy: PlanningPolicy, seconds: float
) -> Consolidation:
    """Return the result; a plan whose rehearsal failed has no moves."""
    cluster, played = outcome.cluster, outcome.played
    problem = cluster.problem
    nodes = len(problem.nodes)
    least = bound
    costs: dict[str, Any] = {}
    emptied = played.emptied if played.is_sound else ()
    if policy.prices or policy.price_label:
        counted = problem._replace(price=problem.price * 0 + 1)
        least = lower_bound(counted, seconds * _BOUND_SHARE).price
        saved = sum(int(problem.price[cluster.node_number[name]]) for name in emptied)
        total = int(problem.price.sum())
        costs = {
            "cost": total / PRICE_UNITS,
            "planned_cost": (total - saved) / PRICE_UNITS,
            "lower_bound_cost": bound / PRICE_UNITS,
        }
    return Consolidation(
        nodes=nodes,
        planned_nodes=nodes - len(emptied),
        lower_bound=least,
        moves=played.moves if played.is_sound else (),
        waves=played.waves if played.is_sound else (),
        verified=played.is_sound,
        emptied=emptied,
        uncordon=played.uncordon if played.is_sound else (),
        pods=outcome.pods,
        movable_pods=len(cluster.pods),
        kept_nodes=dict(cluster.kept_because),
        pinned_pods={pod: each.pin.reason for pod, each in cluster.pinned.items()},
        problems=played.problems,
        **costs,
    )
