"""Plays a wave on a cluster: cordons, evicts, and waits until the replacements are ready."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple

from kubesched.api import Node, Pod
from kubesched.api.access import ApiAccess
from kubesched.foundation.util.clock import MINUTE, SECOND, Clock
from kubesched.plan.moving.planned_waves import PlannedWave
from kubesched.plan.moving.pod_follower import EvictedPod, PodFollower

__all__ = ["WaveOutcome", "WavePlayer"]

_RETRY_NS = 2 * SECOND
# Longer than most pods take to end: some owners create a replacement only then.
_PLACEMENT_NS = 60 * SECOND

# Evicts a pod. Returns the refusal of a budget, or nothing.
Evict = Callable[[Pod], Awaitable[str]]


class WaveOutcome(NamedTuple):
    """The replacements by the names of the evicted pods, and what went wrong."""

    replacements: Mapping[str, Pod]
    problem: str = ""
    unready: frozenset[str] = frozenset()  # evicted pods without a ready replacement
    is_relieved: bool = False  # whether all nodes of the plan were uncordoned


class WavePlayer:
    """Plays waves one after another. The follower receives the changes of the cluster."""

    def __init__(
        self,
        api: ApiAccess,
        evict: Evict,
        follower: PodFollower,
        clock: Clock,
        *,
        longest_ns: int = 10 * MINUTE,
        relief_ns: int = 2 * MINUTE,
    ) -> None:
        """`longest_ns` is how long a wave may take.

        After `relief_ns` a pod without a node may use all nodes of the plan.
        """
        self._api, self._evict = api, evict
        self._follower = follower
        self._clock = clock
        self._longest_ns, self._relief_ns = longest_ns, relief_ns

    async def cordon(self, names: Sequence[str], *, unschedulable: bool) -> None:
        for name in names:
            patch = {"spec": {"unschedulable": unschedulable or None}}
            await self._api.patch(Node, name, None, patch, patch_type="merge")

    async def play(
        self,
        wave: PlannedWave,
        evicted: Mapping[str, EvictedPod],
        relief: Sequence[str] = (),
    ) -> WaveOutcome:
        """Play a wave, and return where the replacements are.

        `relief` are the nodes to uncordon if a replacement is not accepted by the wave's nodes.

        Raises:
            ApiError: the server refuses a request.
        """
        await self.cordon(wave.cordon, unschedulable=True)
        await self.cordon(wave.uncordon, unschedulable=False)
        follower, clock = self._follower, self._clock
        follower.begin_wave(evicted.values())
        deadline_ns = clock.monotonic_ns() + self._longest_ns
        problem = ""
        for step in wave.steps:
            await self.cordon([step.node], unschedulable=False)
            for key in step.evict:
                problem = problem or await self._evict_one(evicted[key], deadline_ns)
            if not problem:
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
        if not problem and follower.lost:
            problem = f"pod {follower.lost[0]} was deleted by something else"
        unready = follower.unready() if problem else frozenset()
        return WaveOutcome(follower.replacements(), problem, unready, is_relieved)

    async def _evict_one(self, each: EvictedPod, deadline_ns: int) -> str:
        """Evict a pod, and repeat it while a budget refuses; return what went wrong."""
        while True:
            pod = self._follower.pods.get(each.uid)
            if pod is None:
                return f"pod {each.key} is gone"
            refusal = await self._evict(pod)
            if not refusal:
                return ""
            if self._clock.monotonic_ns() >= deadline_ns:
                return f"pod {each.key} cannot be evicted: {refusal}"
            await self._clock.sleep(_RETRY_NS)

    async def _wait_for_placement(self, count: int) -> None:
        """Wait until so many replacements of the wave have a node, but not for ever."""
        follower, clock = self._follower, self._clock
        deadline_ns = clock.monotonic_ns() + _PLACEMENT_NS
        while follower.placed_count < count:
            left_ns = deadline_ns - clock.monotonic_ns()
            if left_ns <= 0:
                return
            follower.changed.clear()
            await clock.wait(follower.changed, left_ns)

    async def _wait(self, deadline_ns: int) -> str:
        """Wait until the wave is done; return what is missing at the deadline."""
        follower = self._follower
        while not follower.is_done:
            left_ns = deadline_ns - self._clock.monotonic_ns()
            if left_ns <= 0:
                what = "ready" if follower.is_placed else "placed"
                return f"a replacement was not {what} in time"
            follower.changed.clear()
            await self._clock.wait(follower.changed, min(left_ns, _RETRY_NS))
        return ""
