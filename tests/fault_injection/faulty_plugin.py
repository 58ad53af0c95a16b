"""A plugin that misbehaves now and then, from a seed: raises, waits, forgets, talks nonsense.

One that declines is no misbehaviour: it has pods wait for something, and says for what.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from kubesched.api import Pod, StorageClass
from kubesched.foundation.util.clock import SECOND
from kubesched.framework import (
    SUCCESS,
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    CycleState,
    EventResource,
    Handle,
    NodeInfo,
    Plugin,
    Status,
    Wait,
)

__all__ = ["ACCEPTING_CLASS", "APPROVAL_CLASS", "HOLD_MODE", "faulty_plugin"]

ACCEPTING_CLASS = "open"
"""The storage class without which a plugin that declines pods goes on doing so."""
APPROVAL_CLASS = "example.com/needs"
"""The annotation of a pod with the storage class without which it is declined."""
HOLD_MODE = "example.com/holds"
"""The annotation of a pod that keeps its node without being bound: `permit` or `long permit`, or
until a storage class of its name is there, `fails` or `refused` in PreBind. Then it has no node."""
_HELD_ON_PERMIT_S = {"permit": 20, "long permit": 70}
_GOES_ON_S = 60
_LOOKS = 300
_STORAGE_CLASS_ADDED = ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD)


def faulty_plugin(kind: str, seed: int, is_injecting: Callable[[], bool]) -> type[Plugin]:
    """A plugin class of a kind; it behaves once the storm is over."""
    rng = random.Random(f"plugin/{seed}")
    gave_up: set[str] = set()  # uids of pods that held a node

    def now_and_then(wanted: str, share: float) -> bool:
        return kind == wanted and is_injecting() and rng.random() < share

    def odd(share: float) -> Any:
        """What a method answers: mostly success, sometimes anything at all."""
        if now_and_then("raises", share):
            raise RuntimeError("a bad moment")
        if now_and_then("forgets", share):
            return None
        if now_and_then("nonsense", share):
            return rng.choice(["yes", 5, (), [SUCCESS, SUCCESS], Status])
        return SUCCESS

    class Odd(Plugin):
        name = "Odd"

        def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
            super().__init__(args, handle)
            self._classes = None if handle is None else handle.lister(StorageClass)
            self._pods = None if handle is None else handle.lister(Pod)
            self.refused: set[str] = set()
            """Uids of pods that it refused since they were last to be reserved."""

        def events_to_register(self) -> Sequence[ClusterEventWithHint] | None:
            """Who is declined waits for one event alone, which may come while it is looked at."""
            return (ClusterEventWithHint(_STORAGE_CLASS_ADDED),) if kind == "declines" else None

        def _declines(self, share: float) -> bool:
            if kind != "declines" or self._classes is None or rng.random() > share:
                return False
            return self._classes.get(ACCEPTING_CLASS) is None

        def _lacks_approval(self, pod: Pod) -> bool:
            needed = pod.metadata.annotations.get(APPROVAL_CLASS)
            return bool(needed) and self._classes is not None and self._classes.get(needed) is None

        def _is_there(self, pod: Pod) -> bool:
            assert self._pods is not None
            current = self._pods.get(pod.metadata.name, pod.metadata.namespace)
            return current is not None and current.metadata.uid == pod.metadata.uid

        async def _hold(self, pod: Pod, how: str) -> Status:
            assert self._classes is not None
            for _ in range(_LOOKS):
                await asyncio.sleep(0.25)
                if self._classes.get(pod.metadata.name) is not None or not self._is_there(pod):
                    break
            if not self._is_there(pod):
                await asyncio.sleep(_GOES_ON_S)  # as if nothing had happened
            if how == "fails":
                return Status.failure("it was held in vain")
            return Status.unschedulable("it was held in vain")

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            if pod.metadata.uid in gave_up:
                return Status.unschedulable("it had its chance")
            answer: Status = odd(0.02)
            return answer

        def _noted(self, pod: Pod, share: float) -> Any:
            """An answer, of which a note is kept unless it is success."""
            answer = None
            try:
                answer = odd(share)
                return answer
            finally:
                if answer is not SUCCESS:
                    self.refused.add(pod.metadata.uid)

        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            self.refused.discard(pod.metadata.uid)
            answer: Status = self._noted(pod, 0.05)
            return answer

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
            if self._lacks_approval(pod):
                return Wait(5 * SECOND)
            held_s = _HELD_ON_PERMIT_S.get(pod.metadata.annotations.get(HOLD_MODE, ""), 0)
            if held_s:
                return Wait(held_s * SECOND)
            if now_and_then("waits", 0.3) or self._declines(0.15):
                return Wait(rng.randint(1, 20) * SECOND)
            answer: Status | Wait = self._noted(pod, 0.05)
            return answer

        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            if how := pod.metadata.annotations.get(HOLD_MODE):
                self.refused.add(pod.metadata.uid)
                return await self._hold(pod, how)
            if self._declines(0.3):
                self.refused.add(pod.metadata.uid)
                await asyncio.sleep(rng.choice([0.5, 5, 30]))
                return Status.unschedulable("not yet")
            if now_and_then("slow", 0.3):
                await asyncio.sleep(rng.choice([0.5, 5, 30]))
            answer: Status = self._noted(pod, 0.1)
            return answer

        async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            odd(0.1)

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            if HOLD_MODE in pod.metadata.annotations:
                gave_up.add(pod.metadata.uid)
            odd(0.1)

    return Odd
