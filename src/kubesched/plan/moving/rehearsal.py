"""Rehearses a plan: the real scheduler carries it out on a copy of the cluster in virtual time.

The next wave is first tried on a model. Then it is carried out on the copy: pods are evicted, their
owners create them again, and the scheduler places them. The resulting placement is recorded in the
plan, and the following waves start from it. A node whose pods fit nowhere stays in use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from kubesched.api import Pod
from kubesched.api.pod_facts import pod_key
from kubesched.explain.clusters.cluster_model import ClusterModel
from kubesched.plan.moving.planned_waves import (
    PlannedMove,
    PlannedWave,
    WaveStep,
    cordoned_after,
)
from kubesched.plan.moving.pod_follower import EvictedPod, PodFollower
from kubesched.plan.moving.remaining_moves import RemainingMoves
from kubesched.plan.moving.wave_choice import ChosenStep, WaveChooser
from kubesched.plan.moving.wave_player import WavePlayer
from kubesched.plan.moving.wave_trial import WaveTrial
from kubesched.plan.packing.packing_problem import Placement
from kubesched.plan.reading.cluster_problem import ClusterProblem, MovablePod

__all__ = ["Rehearsal", "RehearsedWaves"]


class RehearsedWaves(NamedTuple):
    """The waves as they were carried out, and the nodes that are empty at the end."""

    waves: tuple[PlannedWave, ...]
    moves: tuple[PlannedMove, ...]
    emptied: tuple[str, ...]
    uncordon: tuple[str, ...]  # nodes to uncordon at the end
    problems: tuple[str, ...]  # why some nodes stay in use, and which guarantees were violated
    is_sound: bool
    stuck: frozenset[str]  # uids of owners that did not recreate their pods
    # the longest time that a replacement was pending in ns, and its name
    longest_wait: tuple[int, str]


class Rehearsal:
    """Carries out waves towards a goal, on a copy of the cluster.

    The player acts on the copy. The waves are tried on the model, which is updated as well.
    """

    def __init__(
        self,
        cluster: ClusterProblem,
        goal: Placement,
        model: ClusterModel,
        player: WavePlayer,
        follower: PodFollower,
        *,
        owner_percent: int,
        wave_pods: int,
        drained: Collection[str] | None = None,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._moves = RemainingMoves(cluster, goal, drained)
        self._trial = WaveTrial(model)
        self._player, self._follower = player, follower
        self._chooser = WaveChooser(cluster, owner_percent, wave_pods)
        self._report = report
        self._waves: list[PlannedWave] = []
        self._played: list[PlannedMove] = []
        self._problems: list[str] = []
        self._is_sound = True
        self._stuck: set[str] = set()
        self._names = cluster.problem.nodes
        # Moves that the filters reject, by class and node.
        self._refused: dict[tuple[int, int], MovablePod] = {}
        self._initially_cordoned = {
            cluster.node_number[node.name]
            for node in model.snapshot.nodes
            if node.node is not None and node.node.spec.unschedulable
        }

    async def play(self) -> RehearsedWaves:
        """Carry out all waves.

        Raises:
            ApiError: the copy rejects a request.
        """
        moves = self._moves
        self._follower.start_counting()
        while moves.departures and self._is_sound:
            self._refused.clear()
            steps = self._chooser.choose(moves, self._accepts)
            self._trial.undo()
            if not steps:
                if self._exclude_refused():
                    continue
                steps = self._chooser.choose_exchange(moves)
            if steps:
                await self._play(steps)
            else:
                self._keep_node_in_use(next(iter(moves.departures.values())), "no move is possible")
        emptied = np.flatnonzero(moves.closed)
        left = cordoned_after(self._waves) - set(self._named(emptied.tolist()))
        await self._player.cordon(sorted(left), unschedulable=False)
        if self._follower.violations:
            self._break(f"budget {self._follower.violations[0]} was violated")
        return RehearsedWaves(
            tuple(self._waves),
            tuple(self._played),
            self._named(emptied.tolist()),
            tuple(sorted(left)),
            tuple(self._problems),
            self._is_sound,
            frozenset(self._stuck),
            self._follower.longest_wait,
        )

    def _accepts(self, pod: MovablePod, target: int) -> bool:
        """Whether the scheduler's filters accept the move, after the moves before it."""
        is_accepted = self._trial.accepts(pod, self._names[target])
        if not is_accepted:
            self._refused[pod.number, target] = pod
        return is_accepted

    def _exclude_refused(self) -> bool:
        """Plan without targets that the filters reject although the problem allows them."""
        moves = self._moves
        for (number, target), pod in self._refused.items():
            self._cluster.problem.allowed[number, target] = False
            moves.goal[number, target] = moves.actual.placement[number, target]
            if not moves.reassign():
                self._keep_node_in_use(pod, "the scheduler places it nowhere else")
        return bool(self._refused)

    def _wanted_cordons(self, steps: Sequence[ChosenStep]) -> set[str]:
        """Return the nodes to cordon: those to be emptied, and all that could accept a pod."""
        wanted = set(np.flatnonzero(self._moves.closed).tolist())
        wanted |= {step.node for step in steps}
        state = self._moves.actual
        pods = [pod for step in steps for pod in step.pods]
        for pod in pods:
            state.add(pod.number, pod.node, -1)
        for number in {pod.number for pod in pods}:
            wanted |= set(np.flatnonzero(state.accepting(number)).tolist())
        for pod in pods:
            state.add(pod.number, pod.node)
        if len(steps) == 1:
            wanted -= {steps[0].node}
        return set(self._named(wanted - self._initially_cordoned))

    async def _play(self, steps: Sequence[ChosenStep]) -> None:
        number = len(self._waves) + 1
        wanted, known = self._wanted_cordons(steps), cordoned_after(self._waves)
        wave = PlannedWave(
            wave=number,
            cordon=tuple(sorted(wanted - known)),
            uncordon=tuple(sorted(known - wanted)),
            steps=tuple(
                WaveStep(
                    node=self._names[step.node],
                    evict=tuple(pod.key for pod in step.pods),
                    placed=step.placed,
                )
                for step in steps
            ),
        )
        pods = [pod for step in steps for pod in step.pods]
        evicted = {
            pod.key: EvictedPod(pod.key, pod.pod.metadata.uid, pod.owner, self._names[step.node])
            for step in steps
            for pod in step.pods
        }
        relief = sorted(wanted - set(self._named(np.flatnonzero(self._moves.closed).tolist())))
        outcome = await self._player.play(wave, evicted, relief)
        if outcome.is_relieved:
            wave = replace(wave, relief=tuple(relief))
        self._waves.append(wave)
        self._note(pods, outcome.replacements, number)
        if outcome.problem:
            self._stuck |= {pod.owner for pod in pods if pod.key in outcome.unready}
            self._break(f"wave {number}: {outcome.problem}")
            return
        left = len(self._moves.departures)
        self._report(f"wave {number}: {len(pods)} pods moved, {left} to go")
        if not self._moves.reassign():
            self._keep_node_in_use(
                next(iter(self._moves.departures.values())), "no node has room for it"
            )

    def _note(
        self, pods: Iterable[MovablePod], replacements: Mapping[str, Pod], number: int
    ) -> None:
        """Update the model to the state of the copy."""
        moved: dict[str, int] = {}
        for each in pods:
            new = replacements.get(each.key)
            if new is None or not new.spec.node_name:
                continue  # the problem of the result
            moved[each.key] = self._cluster.node_number[new.spec.node_name]
            name = pod_key(new)
            self._played.append(
                PlannedMove(
                    pod=each.key,
                    source=self._names[each.node],
                    target=new.spec.node_name,
                    wave=number,
                    replacement=name if name != each.key else "",
                    uid=each.pod.metadata.uid,
                )
            )
        self._trial.follow([each.pod for each in pods], [replacements[key] for key in moved])
        self._moves.record(moved)

    def _keep_node_in_use(self, pod: MovablePod, why: str) -> None:
        """Keep the pod's node in use."""
        name = self._names[pod.node]
        self._problems.append(f"node {name} stays in use: pod {pod.key}: {why}")
        self._moves.cancel(pod.node)
        self._moves.reassign()

    def _break(self, problem: str) -> None:
        self._problems.append(problem)
        self._is_sound = False

    def _named(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(self._names[number] for number in sorted(numbers))
