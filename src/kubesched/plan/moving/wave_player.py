"""Carries out a wave on a cluster: cordons, evicts, and waits until the replacements are ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from kubesched.api import Node, Pod
from kubesched.api.access import ApiAccess
from kubesched.api.pod_facts import is_terminating
from kubesched.foundation.util.clock import MINUTE, SECOND, Clock
from kubesched.plan.moving.planned_waves import PlannedWave
from kubesched.plan.moving.pod_follower import EvictedPod, PodFollower

__all__ = ["WaveOutcome", "WavePlayer", "WaveWatch"]

_RETRY_NS = 2 * SECOND
# Longer than most pods take to terminate: some owners create a replacement only then.
_PLACEMENT_NS = 60 * SECOND

# Evicts a pod. Returns the message if a budget refuses, otherwise an empty text.
Evict = Callable[[Pod], Awaitable[str]]


class WaveOutcome(NamedTuple):
    """The replacements by the names of the evicted pods, and what went wrong."""

    replacements: Mapping[str, Pod]
    problem: str = ""
    unready: frozenset[str] = frozenset()  # evicted pods without a ready replacement
    is_relieved: bool = False  # whether all nodes of the plan were uncordoned


class WaveWatch:
    """Is called before the steps of a wave, and may stop the wave.

    This base class does nothing.
    """

    def problem(self) -> str:
        """Return why the wave must stop; empty if it may continue."""
        return ""

    def on_cordon(self, node: str, *, unschedulable: bool) -> None:
        """Called before a node is cordoned or uncordoned."""

    def on_evict(self, pod: EvictedPod) -> None:
        """Called before a pod is evicted."""

    def on_refusal(self, pod: EvictedPod, refusal: str) -> None:
        """Called after a budget refused an eviction, which will be retried."""

    def is_evicted(self, pod: EvictedPod) -> bool:  # noqa: ARG002
        """Whether the pod was evicted before this run."""
        return False


class WavePlayer:
    """Carries out waves one after another. The follower receives the changes of the cluster."""

    def __init__(
        self,
        api: ApiAccess,
        evict: Evict,
        follower: PodFollower,
        clock: Clock,
        *,
        longest_ns: int = 10 * MINUTE,
        relief_ns: int = 2 * MINUTE,
        placement_ns: int = _PLACEMENT_NS,
        watch: WaveWatch | None = None,
    ) -> None:
        """`longest_ns` limits the duration of a wave.

        A step waits for its replacements for `placement_ns`. After `relief_ns` a pod without a node
        may use all nodes of the plan.
        """
        self._api, self._evict = api, evict
        self._follower = follower
        self._clock = clock
        self._longest_ns, self._relief_ns = longest_ns, relief_ns
        self._placement_ns = placement_ns
        self._watch = watch or WaveWatch()

    async def cordon(self, names: Sequence[str], *, unschedulable: bool) -> None:
        for name in names:
            self._watch.on_cordon(name, unschedulable=unschedulable)
            patch = {"spec": {"unschedulable": unschedulable or None}}
            await self._api.patch(Node, name, None, patch, patch_type="merge")

    async def play(
        self,
        wave: PlannedWave,
        evicted: Mapping[str, EvictedPod],
        relief: Sequence[str] = (),
        known: Collection[str] | None = None,
    ) -> WaveOutcome:
        """Carry out a wave, and return the nodes of the replacements.

        `relief` are the nodes to uncordon if a replacement fits none of the wave's nodes. If the
        wave is resumed after an interruption, `known` are the uids of the pods before the wave.

        Raises:
            ApiError: the server rejects a request.
        """
        await self.cordon(wave.cordon, unschedulable=True)
        await self.cordon(wave.uncordon, unschedulable=False)
        follower, clock = self._follower, self._clock
        follower.begin_wave(evicted.values(), known)
        deadline_ns = clock.monotonic_ns() + self._longest_ns
        problem = ""
        for step in wave.steps:
            await self.cordon([step.node], unschedulable=False)
            for key in step.evict:
                problem = problem or await self._evict_one(evicted[key], deadline_ns)
            if problem:
                break
            await self._wait_for_placement(step.placed)
            if step is not wave.steps[-1]:
                await self.cordon([step.node], unschedulable=True)
        is_relieved = False
        if not problem:
            problem = await self._wait(clock.monotonic_ns() + self._relief_ns)
            if problem and relief and not follower.is_placed:
                await self.cordon(relief, unschedulable=False)
                is_relieved = True
            if problem:
                problem = await self._wait(deadline_ns)
        problem = self._watch.problem() or problem
        if not problem and follower.lost:
            problem = f"pod {follower.lost[0]} was deleted by another client"
        unready = follower.unready() if problem else frozenset()
        return WaveOutcome(follower.replacements(), problem, unready, is_relieved)

    async def _evict_one(self, each: EvictedPod, deadline_ns: int) -> str:
        """Evict a pod, and retry while a budget refuses; return the problem, if any."""
        while True:
            pod = self._follower.pods.get(each.uid)
            if (pod is None or is_terminating(pod)) and self._watch.is_evicted(each):
                return ""
            if problem := self._watch.problem():
                return problem
            if pod is None:
                return f"pod {each.key} is gone"
            self._watch.on_evict(each)
            refusal = await self._evict(pod)
            if not refusal:
                return ""
            if self._clock.monotonic_ns() >= deadline_ns:
                return f"pod {each.key} cannot be evicted: {refusal}"
            self._watch.on_refusal(each, refusal)
            await self._clock.sleep(_RETRY_NS)

    async def _wait_for_placement(self, count: int) -> None:
        """Wait, with a timeout, until this many replacements of the wave have a node."""
        follower, clock = self._follower, self._clock
        deadline_ns = clock.monotonic_ns() + self._placement_ns
        while follower.placed_count < count and not self._watch.problem():
            left_ns = deadline_ns - clock.monotonic_ns()
            if left_ns <= 0:
                return
            follower.changed.clear()
            await clock.wait(follower.changed, left_ns)

    async def _wait(self, deadline_ns: int) -> str:
        """Wait until the wave is done; return what is missing after the timeout."""
        follower = self._follower
        while not follower.is_done:
            if problem := self._watch.problem():
                return problem
            left_ns = deadline_ns - self._clock.monotonic_ns()
            if left_ns <= 0:
                what = "ready" if follower.is_placed else "placed"
                return f"a replacement was not {what} in time"
            follower.changed.clear()
            await self._clock.wait(follower.changed, min(left_ns, _RETRY_NS))
        return ""
