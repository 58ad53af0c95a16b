"""Consolidates a cluster: the fewest nodes, a proved bound, and rehearsed moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.base import ApiObject
from kubesched.api.latest_time import latest_time_ns
from kubesched.cluster.embedded_cluster import ClusterPart
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.explain.clusters.virtual_cluster import VirtualCluster
from kubesched.explain.snapshot import Snapshot
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util import virtual_loop
from kubesched.foundation.util.clock import SECOND, Clock, RealClock
from kubesched.foundation.util.randomness import derive
from kubesched.plan.moving.pod_follower import PodFollower
from kubesched.plan.moving.rehearsal import Rehearsal, RehearsedWaves
from kubesched.plan.moving.wave_player import WavePlayer
from kubesched.plan.packing.exact_packing import ExactSearch
from kubesched.plan.packing.greedy_drain import drain_greedily
from kubesched.plan.packing.lower_bound import LowerBound, lower_bound
from kubesched.plan.packing.neighbourhood_search import improve
from kubesched.plan.packing.packing_problem import PackingProblem, Placement
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.packing.solver import Deadline
from kubesched.plan.plan_results import Consolidation
from kubesched.plan.reading.cluster_problem import PRICE_UNITS, ClusterProblem, read_problem
from kubesched.plan.reading.planning_policy import PlanningPolicy

__all__ = ["PackingResult", "consolidate", "pack"]

# Up to so many counts of pods on nodes, CP-SAT searches the whole problem at once.
_EXACT_SIZE: Final = 4_000
_BOUND_SHARE: Final = 0.3  # of the time
_ATTEMPTS: Final = 4
_QUIET_NS: Final = 2 * SECOND

Report = Callable[[str], None]


class PackingResult(NamedTuple):
    """A placement, and a price that no placement is below."""

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
    """Plan the fewest nodes for what runs now, and rehearse the way there.

    `seconds` limits the search for a better placement. Reading, and the rehearsal, need more time.

    Raises:
        KubeschedError: OR-Tools is not installed, or the cluster cannot be rehearsed.
    """
    whole = list(snapshot.model.objects)
    start_ns = max(latest_time_ns(whole), snapshot.model.clock.now_ns())
    planning = _Planning(
        snapshot, policy or PlanningPolicy(), seconds, wave_pods, seed, clock or RealClock(), report
    )
    return planning.run(whole, start_ns)


def pack(
    problem: PackingProblem,
    deadline: Deadline,
    seed: int = 0,
    report: Callable[[int, int], None] = lambda _price, _bound: None,
) -> PackingResult:
    """Search for the cheapest placement until it is proved optimal, or the time is up."""
    bound = lower_bound(problem, deadline.left_s * _BOUND_SHARE)
    state = PackingState(problem)
    drain_greedily(state, bound.nodes)
    best = _better(problem, problem.current, state.placement)
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


class _Planning:
    """One call of `consolidate`."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: PlanningPolicy,
        seconds: float,
        wave_pods: int,
        seed: int,
        clock: Clock,
        report: Report,
    ) -> None:
        self._snapshot = snapshot
        self._policy = policy
        self._seconds = seconds
        self._wave_pods = wave_pods
        self._seed = seed
        self._clock = clock
        self._report = report
        self._known: tuple[LowerBound, Placement] | None = None

    def run(self, objects: list[ApiObject], start_ns: int) -> Consolidation:
        """Plan and rehearse. After a failed rehearsal, plan without what failed."""
        policy = self._policy
        for attempt in range(_ATTEMPTS):
            answer, stuck = virtual_loop.run(
                lambda policy=policy: self._attempt(objects, policy),  # type: ignore[misc]
                start_ns=start_ns or virtual_loop.DEFAULT_START_NS,
                seed=self._seed,
            )
            if answer.verified or not stuck:
                return answer
            self._report(f"attempt {attempt + 1} failed its rehearsal: {answer.problems[-1]}")
            policy = replace(policy, pinned_owners=policy.pinned_owners | stuck)
        return answer

    async def _attempt(
        self, objects: list[ApiObject], policy: PlanningPolicy
    ) -> tuple[Consolidation, frozenset[str]]:
        snapshot = self._snapshot
        cluster = VirtualCluster(
            configuration=snapshot.model.configuration,
            plugins=snapshot.out_of_tree_plugins,
            seed=self._seed,
            parts=ClusterPart.NODES | ClusterPart.CONTROLLERS,
        )
        await cluster.copy_objects(objects)
        informer = SharedInformer(
            cluster.api, Pod, cluster.clock, derive(self._seed, "pod informer")
        )
        async with cluster.running(after=[informer]):
            self._report("reading the cluster")
            await cluster.settle(quiet_ns=_QUIET_NS)
            model = snapshot.model.with_objects(await cluster.objects_like(objects))
            problem = read_problem(model, policy)
            found = self._pack(problem)
            follower = PodFollower(problem.budgets)
            informer.add_handler(follower.on_add, follower.on_update, follower.on_delete)
            rehearsal = Rehearsal(
                problem,
                found.placement,
                model,
                WavePlayer(cluster.api, cluster.evict, follower, cluster.clock),
                follower,
                owner_percent=policy.owner_percent,
                wave_pods=self._wave_pods,
                report=self._report,
            )
            played = await rehearsal.play()
        return self._answer(model, problem, found, played), played.stuck

    def _pack(self, problem: ClusterProblem) -> PackingResult:
        deadline = Deadline(self._clock, self._seconds)

        def progress(price: int, bound: int) -> None:
            gap = (price - bound) / max(bound, 1)
            self._report(f"{price} nodes found, at least {bound} (gap {gap:.1%})")

        return pack(problem.problem, deadline, self._seed, progress)

    def _answer(
        self,
        model: ClusterModel,
        cluster: ClusterProblem,
        found: PackingResult,
        played: RehearsedWaves,
    ) -> Consolidation:
        problem = cluster.problem
        nodes = len(problem.nodes)
        has_prices = bool(self._policy.prices or self._policy.price_label)
        least = found.bound
        costs: dict[str, float] = {}
        emptied = played.emptied if played.is_sound else ()
        if has_prices:
            counted = problem._replace(price=problem.price * 0 + 1)
            least = lower_bound(counted, self._seconds * _BOUND_SHARE).price
            saved = sum(int(problem.price[cluster.node_number[name]]) for name in emptied)
            total = int(problem.price.sum())
            costs = {
                "cost": total / PRICE_UNITS,
                "planned_cost": (total - saved) / PRICE_UNITS,
                "lower_bound_cost": found.bound / PRICE_UNITS,
            }
        placed = sum(bool(pod.spec.node_name) for pod in model.objects.list(Pod))
        return Consolidation(
            nodes=nodes,
            planned_nodes=nodes - len(emptied),
            lower_bound=least,
            # A plan that failed its rehearsal is none.
            moves=played.moves if played.is_sound else (),
            waves=played.waves if played.is_sound else (),
            verified=played.is_sound,
            emptied=emptied,
            uncordon=played.uncordon if played.is_sound else (),
            pods=placed,
            movable_pods=len(cluster.pods),
            kept_nodes=dict(cluster.kept_because),
            pinned_pods=dict(cluster.pinned),
            problems=played.problems,
            **costs,
        )
