"""Chooses the next wave: pods that budgets, owners and the free room allow to move."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection
from typing import NamedTuple

from kubesched.plan.moving.remaining_moves import RemainingMoves
from kubesched.plan.packing.greedy_drain import size_order
from kubesched.plan.packing.packing_state import PackingState
from kubesched.plan.reading.cluster_problem import ClusterProblem, MovablePod

__all__ = ["ChosenStep", "WaveChooser"]

# Whether the scheduler places the pod on a node if all other nodes are cordoned.
Accepts = Callable[[MovablePod, int], bool]


class ChosenStep(NamedTuple):
    """A node to uncordon, and the pods that are evicted then.

    The next step begins when `placed` replacements of the wave have nodes.
    """

    node: int
    pods: tuple[MovablePod, ...]
    placed: int


class WaveChooser:
    """Chooses waves of about `most_pods` pods at most."""

    def __init__(self, cluster: ClusterProblem, owner_percent: int, most_pods: int) -> None:
        self._cluster = cluster
        self._most_pods = most_pods
        sizes = Counter(pod.owner for pod in cluster.pods)
        self._owner_limit = {
            owner: max(1, math.floor(size * owner_percent / 100)) for owner, size in sizes.items()
        }

    def choose(self, moves: RemainingMoves, accepts: Accepts) -> list[ChosenStep]:
        """Return the steps of the next wave; none if no pod can move into free room.

        A node receives all pods that it lacks and that may leave. Nodes that pods leave in the wave
        receive none: their room is free only after the wave. `accepts` is called in the order of
        the moves.
        """
        missing = moves.missing()
        waiting: dict[int, list[MovablePod]] = {}
        for each in moves.departures.values():
            waiting.setdefault(each.number, []).append(each)
        left = _Allowances(self._cluster, self._owner_limit)
        state = moves.actual
        steps: list[ChosenStep] = []
        chosen: list[tuple[MovablePod, int]] = []
        senders: set[int] = set()
        receivers: set[int] = set()
        for target in sorted(missing, key=lambda node: (-sum(missing[node].values()), node)):
            if len(chosen) >= self._most_pods:
                break
            if target in senders:
                continue
            pods: list[MovablePod] = []
            for number in size_order(self._cluster.problem, missing[target]):
                for _ in range(missing[target][number]):
                    pod = _candidate(waiting.get(number, []), left, receivers | {target})
                    if pod is None or not _move(state, pod, target):
                        break
                    if not accepts(pod, target):
                        state.add(number, target, -1)
                        state.add(number, pod.node)
                        break
                    waiting[number].remove(pod)
                    left.take(pod)
                    pods.append(pod)
                    senders.add(pod.node)
                    receivers.add(target)
            if pods:
                chosen += [(pod, target) for pod in pods]
                steps.append(ChosenStep(target, tuple(pods), len(chosen)))
        for pod, target in chosen:
            state.add(pod.number, target, -1)
            state.add(pod.number, pod.node)
        return steps

    def choose_exchange(self, moves: RemainingMoves) -> list[ChosenStep]:
        """Return a wave in which pods exchange their nodes; empty if there is no such exchange.

        The first pod is evicted and stays pending until the second one has left the node for which
        the first is intended, and so on. The last pod takes the node of the first.
        """
        missing = moves.missing()
        for first in sorted(moves.departures.values(), key=lambda pod: pod.key):
            cycle = self._cycle(moves, missing, first)
            if cycle:
                steps = [ChosenStep(cycle[0][1], (cycle[0][0],), 0)]
                for number, (pod, target) in enumerate(cycle[1:], start=1):
                    steps.append(ChosenStep(cycle[number - 1][1], (pod,), number))
                    steps.append(ChosenStep(target, (), 0))
                steps.append(ChosenStep(cycle[-1][1], (), len(cycle)))
                return steps
        return []

    def _cycle(
        self, moves: RemainingMoves, missing: dict[int, dict[int, int]], first: MovablePod
    ) -> list[tuple[MovablePod, int]]:
        """Let pods leave one after another until the last of them fits."""
        state, left = moves.actual, _Allowances(self._cluster, self._owner_limit)
        cycle: list[tuple[MovablePod, int]] = []
        pod: MovablePod | None = first
        is_closed = False
        while pod is not None and len(cycle) < self._most_pods and left.allow(pod):
            left.take(pod)
            number = pod.number
            state.add(number, pod.node, -1)
            nodes = [node for node, counts in missing.items() if number in counts]
            accepted = state.accepting(number)
            target = next((node for node in nodes if accepted[node]), nodes[0] if nodes else -1)
            cycle.append((pod, target))
            if target < 0:
                break
            if accepted[target]:
                is_closed = len(cycle) > 1
                break
            pod = _next_departure(moves, target, {each.key for each, _ in cycle})
        for each, _ in cycle:
            state.add(each.number, each.node)
        return cycle if is_closed else []


def _next_departure(
    moves: RemainingMoves, node: int, excluded: Collection[str]
) -> MovablePod | None:
    """Return the first pod that has yet to leave the node, except the excluded ones."""
    departures = moves.departures.values()
    return next((pod for pod in departures if pod.node == node and pod.key not in excluded), None)


def _move(state: PackingState, pod: MovablePod, target: int) -> bool:
    """Move the pod in the state, if it fits the target and the rules of the target hold."""
    state.add(pod.number, pod.node, -1)
    if not state.accepting(pod.number)[target]:
        state.add(pod.number, pod.node)
        return False
    state.add(pod.number, target)
    return True


def _candidate(
    waiting: list[MovablePod], left: _Allowances, receivers: set[int]
) -> MovablePod | None:
    """Return a pod that may leave, from a node that receives none in this wave."""
    for pod in waiting:
        if pod.node not in receivers and left.allow(pod):
            return pod
    return None


class _Allowances:
    """The number of pods of each budget and owner that a wave may still evict."""

    def __init__(self, cluster: ClusterProblem, owner_limit: dict[str, int]) -> None:
        self._budgets = [budget.allowed for budget in cluster.budgets]
        self._owners = dict(owner_limit)

    def allow(self, pod: MovablePod) -> bool:
        if pod.budget >= 0:
            return self._budgets[pod.budget] > 0
        return self._owners[pod.owner] > 0

    def take(self, pod: MovablePod) -> None:
        if pod.budget >= 0:
            self._budgets[pod.budget] -= 1
        else:
            self._owners[pod.owner] -= 1
