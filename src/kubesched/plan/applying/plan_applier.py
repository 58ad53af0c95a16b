"""Carries out a plan wave by wave, and stops at the first change that the plan does not contain.

It evicts pods as `kubectl drain` does, so the server enforces budgets. It makes no move that is not
in the plan, and never deletes a node. When it stops, it uncordons the nodes that still have pods.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Final

from kubesched.api import Node, Pod
from kubesched.api.access import ApiAccess, ApiError
from kubesched.api.pod_facts import controller_of
from kubesched.explain.rendering.result import Result
from kubesched.foundation.client.event_recorder import EventBroadcaster
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.util.clock import MINUTE, SECOND, Clock
from kubesched.foundation.util.components import running
from kubesched.plan.applying.plan_checks import check_plan
from kubesched.plan.applying.plan_document import PlanDocument
from kubesched.plan.applying.plan_guard import PlanGuard
from kubesched.plan.applying.plan_journal import BegunWave, PlanJournal
from kubesched.plan.moving.planned_waves import PlannedWave, cordoned_after
from kubesched.plan.moving.pod_follower import EvictedPod, PodFollower
from kubesched.plan.moving.wave_player import Evict, WavePlayer

__all__ = ["AppliedPlan", "PlanApplier"]

_CONTROLLER: Final = "kubesched-plan"
_GONE: Final = 404
_PATIENCE_NS: Final = 10 * SECOND

_EVENT_REASONS: Final = {
    "cordon": ("PlanCordoned", "Cordoning"),
    "uncordon": ("PlanUncordoned", "Uncordoning"),
    "evict": ("PlanEvicted", "Evicting"),
    "wait": ("PlanWaits", "Evicting"),
    "placed": ("PlanPlaced", "Placing"),
    "emptied": ("PlanEmptied", "Emptying"),
    "stop": ("PlanStopped", "Stopping"),
}


class AppliedPlan(Result, frozen=True, kw_only=True):
    """How far a plan was carried out."""

    waves: int
    waves_done: int
    moves: int
    moves_done: int
    emptied: tuple[str, ...] = ()  # nodes of the plan without pods, which are cordoned
    dry_run: bool = False  # whether it was carried out on a copy of the cluster
    stopped: str = ""  # why the plan stopped; empty if it is complete
    problems: tuple[str, ...] = ()  # how the cluster differed from the plan before it began
    steps: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        return not self.stopped and self.waves_done == self.waves


class PlanApplier:
    """Carries out one plan. The journal contains the steps of an interrupted run."""

    def __init__(
        self,
        plan: PlanDocument,
        api: ApiAccess,
        evict: Evict,
        journal: PlanJournal,
        clock: Clock,
        rng: random.Random,
        *,
        report: Callable[[str], None] = lambda _: None,
        longest_wave_ns: int = 15 * MINUTE,
        dry_run: bool = False,
    ) -> None:
        self._plan, self._api, self._journal = plan, api, journal
        self._clock, self._report = clock, report
        self._dry_run = dry_run
        self._pods = SharedInformer(api, Pod, clock, rng)
        self._nodes = SharedInformer(api, Node, clock, rng)
        self._events = EventBroadcaster(api, clock, rng)
        self._recorder = self._events.recorder(_CONTROLLER, "plan")
        self._guard = PlanGuard(plan, journal, self._line)
        planned = {move.uid for move in plan.moves}
        self._follower = PodFollower((), clock, planned)
        self._player = WavePlayer(
            api,
            evict,
            self._follower,
            clock,
            longest_ns=longest_wave_ns,
            placement_ns=longest_wave_ns // 3,
            watch=self._guard,
        )
        self._has_begun = False
        self._steps: list[str] = []
        self._problems: list[str] = []

    async def run(self) -> AppliedPlan:
        """Carry out the waves that are left.

        Raises:
            ApiError: the server refuses a request. The plan has stopped.
        """
        guard, follower = self._guard, self._follower
        self._pods.add_handler(guard.on_pod_add, guard.on_pod_update, guard.on_pod_delete)
        self._pods.add_handler(follower.on_add, follower.on_update, follower.on_delete)
        self._nodes.add_handler(guard.on_node_add, guard.on_node_update, guard.on_node_delete)
        async with running(self._pods, self._nodes, self._events):
            await self._pods.wait_for_sync()
            await self._nodes.wait_for_sync()
            guard.start()
            self._problems = check_plan(self._plan, self._journal, guard.nodes, guard.pods)
            stopped = "the cluster differs from the plan" if self._problems else ""
            if not stopped:
                stopped = await self._run_waves()
            return self._result(stopped)

    async def _run_waves(self) -> str:
        """Play the waves; return why the plan stopped."""
        stopped = "interrupted"
        try:
            stopped = await self._play_waves()
        except ApiError as error:
            stopped = f"the API server refused a request: {error}"
            raise
        finally:
            self._journal.stop(stopped)
            await self._release(are_all_placed=await self._await_placement())
            if stopped:
                self._line(
                    "stop", f"stopped: {stopped}", "", next(iter(sorted(self._plan.nodes)), "")
                )
        return stopped

    async def _play_waves(self) -> str:
        for wave in self._plan.waves:
            if wave.wave <= self._journal.waves_done:
                continue
            self._report(f"wave {wave.wave} of {len(self._plan.waves)}")
            if problem := await self._play(wave):
                return f"wave {wave.wave}: {problem}"
            self._journal.finish(wave.wave)
            if waiting := self._guard.newly_waiting():
                return f"pod {waiting} has no node since nodes are cordoned"
        for name in self._plan.emptied:
            self._line("emptied", f"node {name} has no pods left", "", name)
        return ""

    async def _play(self, wave: PlannedWave) -> str:
        """Carry out a wave, or the rest of one; return how the result differs from the plan."""
        if not self._has_begun:
            before = cordoned_after(self._plan.waves[: wave.wave - 1])
            await self._player.cordon(sorted(before), unschedulable=True)
            self._has_begun = True
        begun = self._journal.begun
        is_resumed = begun is not None and begun.wave == wave.wave
        if begun is None or not is_resumed:
            begun = self._begin(wave)
        evicted = {
            key: EvictedPod(
                key,
                self._plan.move_of[key].uid,
                begun.owners[key],
                self._plan.move_of[key].target,
            )
            for key in wave.evict
        }
        outcome = await self._player.play(
            wave, evicted, wave.relief, known=begun.known if is_resumed else None
        )
        if outcome.problem:
            return outcome.problem
        return self._misplaced(wave, outcome.replacements)

    def _begin(self, wave: PlannedWave) -> BegunWave:
        """Record the existing pods of the controllers of the wave's pods."""
        uids = {self._plan.move_of[key].uid: key for key in wave.evict}
        owners = {uids[uid]: _owner(pod) for uid, pod in self._guard.pods.items() if uid in uids}
        wanted = set(owners.values())
        known = {uid for uid, pod in self._guard.pods.items() if _owner(pod) in wanted}
        for key in wave.evict:
            owners.setdefault(key, "")  # it is gone, which stops the wave
        begun = BegunWave(wave.wave, owners, frozenset(known))
        self._journal.begin(begun)
        return begun

    def _misplaced(self, wave: PlannedWave, replacements: Mapping[str, Pod]) -> str:
        """Return replacements on other nodes than planned.

        Pods of one owner are interchangeable.
        """
        for key in wave.evict:
            target = self._plan.move_of[key].target
            pod = replacements.get(key)
            if pod is None:
                return f"pod {key} has no replacement"
            name, there = f"{pod.metadata.namespace}/{pod.metadata.name}", pod.spec.node_name
            if there != target:
                return f"pod {name}, the replacement of {key}, is on node {there}, not {target}"
            text = f"pod {name}, the replacement of {key}, is ready on node {there}"
            self._line("placed", text, "", there)
        return ""

    async def _await_placement(self) -> bool:
        """Wait until replacements of the wave have nodes, before other nodes are uncordoned.

        Returns whether every pod that had a node before has one again.
        """
        done, evicted = self._journal.waves_done, self._journal.evicted
        count = sum(move.wave == done + 1 and move.uid in evicted for move in self._plan.moves)
        follower, clock = self._follower, self._clock
        deadline_ns = clock.monotonic_ns() + _PATIENCE_NS
        while follower.placed_count < count and clock.monotonic_ns() < deadline_ns:
            follower.changed.clear()
            await clock.wait(follower.changed, SECOND)
        return follower.placed_count >= count and not self._guard.newly_waiting()

    async def _release(self, *, are_all_placed: bool) -> None:
        """Uncordon the nodes of the plan that have pods; the empty ones stay cordoned.

        If a pod waits for a node, the empty ones are uncordoned, too.
        """
        emptied: set[str] = set()
        if are_all_placed:
            emptied = set(self._plan.emptied) - self._guard.occupied()
        for name in sorted(self._journal.cordoned - emptied):
            try:
                await self._player.cordon([name], unschedulable=False)
            except ApiError as error:
                if error.code != _GONE:
                    raise

    def _result(self, stopped: str) -> AppliedPlan:
        done, occupied = self._journal.waves_done, self._guard.occupied()
        return AppliedPlan(
            waves=len(self._plan.waves),
            waves_done=done,
            moves=len(self._plan.moves),
            moves_done=sum(move.wave <= done for move in self._plan.moves),
            emptied=tuple(
                name
                for name in self._plan.emptied
                if name not in occupied and name in self._journal.cordoned
            ),
            dry_run=self._dry_run,
            stopped=stopped,
            problems=tuple(self._problems),
            steps=tuple(self._steps),
        )

    def _line(self, kind: str, text: str, pod: str, node: str) -> None:
        """Report a step as a line, and as an event about its pod or its node."""
        self._steps.append(text)
        self._report(text)
        regarding: Pod | Node | None = self._guard.nodes.get(node)
        if pod:
            uid = self._plan.move_of[pod].uid
            regarding = self._guard.pods.get(uid, regarding)
        if regarding is not None:
            reason, action = _EVENT_REASONS[kind]
            severity = "Warning" if kind == "stop" else "Normal"
            self._recorder.event(regarding, severity, reason, action, text)


def _owner(pod: Pod) -> str:
    owner = controller_of(pod)
    return "" if owner is None else owner.uid
