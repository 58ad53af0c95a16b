"""Drains nodes: an order of evictions in which no pod stays pending, or the reason against it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from kubesched.api import Node
from kubesched.explain.clusters.cluster_model import ClusterModel, ExplainError
from kubesched.explain.snapshot import Snapshot
from kubesched.foundation.util.clock import SECOND, Clock, RealClock
from kubesched.plan.packing.exact_packing import ExactSearch
from kubesched.plan.packing.greedy_drain import best_node, size_order
from kubesched.plan.packing.packing_problem import Placement
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.packing.solver import Deadline
from kubesched.plan.plan_results import BlockedPod, Drain
from kubesched.plan.planning_run import PlanningRun, RunOutcome
from kubesched.plan.reading.cluster_problem import ClusterProblem
from kubesched.plan.reading.planning_policy import PlanningPolicy

__all__ = ["DrainLimits", "plan_drain", "rehearse_drain"]

_MOST_TAKERS: Final = 20
_NODES_OF_EXACT: Final = 60


def plan_drain(
    snapshot: Snapshot,
    nodes: Sequence[str],
    *,
    policy: PlanningPolicy | None = None,
    seconds: float = 60,
    most_pending_s: float = 60,
    wave_pods: int = 200,
    seed: int = 0,
    clock: Clock | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Drain:
    """Plan the drain of these nodes, and rehearse it.

    Pods on other nodes are moved only if that makes room. A replacement may be without a node for
    `most_pending_s` at most.

    Raises:
        ExplainError: a named node does not exist.
        KubeschedError: OR-Tools is not installed, or the cluster cannot be rehearsed.
    """
    limits = DrainLimits(policy or PlanningPolicy(), seconds, most_pending_s, wave_pods)
    return rehearse_drain(snapshot, nodes, limits, seed, clock or RealClock(), report)[0]


class DrainLimits(NamedTuple):
    """What a drain may do, and how long it may take."""

    policy: PlanningPolicy
    seconds: float
    most_pending_s: float
    wave_pods: int


def rehearse_drain(
    snapshot: Snapshot,
    nodes: Sequence[str],
    limits: DrainLimits,
    seed: int,
    timer: Clock,
    report: Callable[[str], None],
) -> tuple[Drain, RunOutcome]:
    """Plan a drain; return also the copy of the cluster after it."""
    for name in nodes:
        if snapshot.model.objects.get(Node, name) is None:
            raise ExplainError(f"no node named {name!r}")
    names = tuple(dict.fromkeys(nodes))
    blocked: list[BlockedPod] = []

    def choose(cluster: ClusterProblem, model: ClusterModel) -> Placement:
        blocked[:] = _pinned(cluster, names)
        return _drained(cluster, model, names, blocked, Deadline(timer, limits.seconds))

    run = PlanningRun(
        snapshot,
        limits.policy,
        choose,
        wave_pods=limits.wave_pods,
        seed=seed,
        report=report,
        drained=names,
    )
    outcome = run.run()
    played = outcome.played
    wait_ns, waited = played.longest_wait
    problems = list(played.problems)
    if wait_ns > limits.most_pending_s * SECOND:
        problems.append(f"pod {waited} has no node for {wait_ns / SECOND:.0f} s")
    moves, waves = (played.moves, played.waves) if played.is_sound else ((), ())
    emptied = set(played.emptied) if played.is_sound else set()
    emptied -= {each.node for each in blocked}
    last = {move.source: move.wave for move in moves}
    drain = Drain(
        nodes=tuple(sorted(emptied, key=lambda name: (last.get(name, 0), names.index(name)))),
        blocked=tuple(blocked),
        moves=moves,
        waves=waves,
        verified=played.is_sound and emptied == set(names) and not problems,
        uncordon=played.uncordon if played.is_sound else (),
        longest_pending_seconds=wait_ns / SECOND,
        longest_pending_pod=waited,
        problems=tuple(problems),
    )
    return drain, outcome


def _pinned(cluster: ClusterProblem, names: Sequence[str]) -> list[BlockedPod]:
    """Return the pods on the nodes that may not be moved."""
    return [
        BlockedPod(pod=pod, node=each.node, reason=each.pin.reason, help=each.pin.help)
        for pod, each in cluster.pinned.items()
        if each.node in names
    ]


def _drained(
    cluster: ClusterProblem,
    model: ClusterModel,
    names: Sequence[str],
    blocked: list[BlockedPod],
    deadline: Deadline,
) -> Placement:
    """Return a placement with no movable pods on the nodes; pods that fit nowhere are blocked."""
    problem = cluster.problem
    numbers = [cluster.node_number[name] for name in names]
    closed = np.zeros(len(problem.nodes), dtype=bool)
    closed[numbers] = True
    state = PackingState(problem)
    left: list[tuple[int, int]] = []
    waiting = [
        (number, node)
        for node in numbers
        for number in np.flatnonzero(problem.current[:, node]).tolist()
        for _ in range(int(problem.current[number, node]))
    ]
    sizes = size_order(problem, {number for number, _ in waiting})
    order = {number: place for place, number in enumerate(sizes)}
    for number, node in sorted(waiting, key=lambda each: (order[each[0]], each[1])):
        state.add(number, node, -1)
        target = best_node(state, number, closed)
        if target is None:
            state.add(number, node)
            left.append((number, node))
        else:
            state.add(number, target)
    if left:
        found = _with_room_made(state, left, numbers, deadline)
        if found is not None:
            return found
    for number, node in left:
        blocked.append(_blocked_pod(cluster, model, number, node, names))
    return state.placement


def _with_room_made(
    state: PackingState, left: Sequence[tuple[int, int]], drained: Sequence[int], deadline: Deadline
) -> Placement | None:
    """Move pods of other nodes as well, so that the blocked pods fit."""
    problem = state.problem
    sources = {node for _, node in left}
    nodes = set(range(len(problem.nodes)))
    if len(nodes) > _NODES_OF_EXACT:
        takers = _roomiest(state, {number for number, _ in left}, drained)
        others = set(np.flatnonzero(state.placement[:, takers].any(axis=1)).tolist())
        nodes = {*takers, *_roomiest(state, others, drained), *sources}
    drained_here = set(drained) & nodes
    search = ExactSearch(state, nodes, emptied=drained_here)
    return search.solve(deadline.left_s).placement


def _roomiest(state: PackingState, classes: set[int], drained: Sequence[int]) -> list[int]:
    """Return the nodes with the most room among those where one of the classes is allowed."""
    problem = state.problem
    takers = np.flatnonzero(np.logical_or.reduce(problem.allowed[sorted(classes)]))
    takers = takers[~np.isin(takers, drained)]
    free = (state.room[takers] / np.maximum(problem.room[takers], 1)).sum(axis=1)
    roomiest: list[int] = takers[np.argsort(-free, kind="stable")][:_MOST_TAKERS].tolist()
    return roomiest


def _blocked_pod(
    cluster: ClusterProblem, model: ClusterModel, number: int, node: int, names: Sequence[str]
) -> BlockedPod:
    """Describe a pod that fits on no other node, in the scheduler's words."""
    each = next(pod for pod in cluster.pods if (pod.number, pod.node) == (number, node))
    cordoned = [
        replace(found, spec=replace(found.spec, unschedulable=True))
        for name in names
        if (found := model.objects.get(Node, name)) is not None
    ]
    waiting = replace(each.pod, spec=replace(each.pod.spec, node_name=""))
    with model.changed([*cordoned, waiting]):
        message = model.search(waiting).message
    return BlockedPod(
        pod=each.key,
        node=cluster.problem.nodes[node],
        reason=message or "the pods that move before it take its place",
        help="add a node that accepts it; kubesched fit shows how many of which kind",
    )
