"""A plugin that misbehaves now and then, from a seed: raises, waits, forgets, talks nonsense.

One that declines is no misbehaviour: it has pods wait for something, and says for what.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Any

from kubesched.api import Pod, StorageClass
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
from kubesched.util.clock import SECOND

__all__ = ["NEEDS", "OPEN", "odd_plugin"]

OPEN = "open"
"""The storage class without which a plugin that declines pods goes on doing so."""
NEEDS = "example.com/needs"
"""The annotation of a pod with the storage class without which it is declined."""
_STORAGE_CLASS_ADDED = ClusterEvent(EventResource.STORAGE_CLASS, ActionType.ADD)


def odd_plugin(kind: str, seed: int, is_storming: Callable[[], bool]) -> type[Plugin]:
    """A plugin class of a kind; it behaves once the storm is over."""
    dice = random.Random(f"plugin/{seed}")

    def now_and_then(wanted: str, share: float) -> bool:
        return kind == wanted and is_storming() and dice.random() < share

    def odd(share: float) -> Any:
        """What a method answers: mostly success, sometimes anything at all."""
        if now_and_then("raises", share):
            raise RuntimeError("a bad moment")
        if now_and_then("forgets", share):
            return None
        if now_and_then("nonsense", share):
            return dice.choice(["yes", 5, (), [SUCCESS, SUCCESS], Status])
        return SUCCESS

    class Odd(Plugin):
        name = "Odd"

        def __init__(self, args: Any = None, handle: Handle | None = None) -> None:
            super().__init__(args, handle)
            self._classes = None if handle is None else handle.lister(StorageClass)

        def events_to_register(self) -> Sequence[ClusterEventWithHint] | None:
            """Who is declined waits for one event alone, which may come while it is looked at."""
            return (ClusterEventWithHint(_STORAGE_CLASS_ADDED),) if kind == "declines" else None

        def _declines(self, share: float) -> bool:
            if kind != "declines" or self._classes is None or dice.random() > share:
                return False
            return self._classes.get(OPEN) is None

        def _lacks_approval(self, pod: Pod) -> bool:
            needed = pod.metadata.annotations.get(NEEDS)
            return bool(needed) and self._classes is not None and self._classes.get(needed) is None

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            answer: Status = odd(0.02)
            return answer

        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            answer: Status = odd(0.05)
            return answer

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
            if self._lacks_approval(pod):
                return Wait(5 * SECOND)
            if now_and_then("waits", 0.3) or self._declines(0.15):
                return Wait(dice.randint(1, 20) * SECOND)
            answer: Status | Wait = odd(0.05)
            return answer

        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            if self._declines(0.3):
                await asyncio.sleep(dice.choice([0.5, 5, 30]))
                return Status.unschedulable("not yet")
            if now_and_then("slow", 0.3):
                await asyncio.sleep(dice.choice([0.5, 5, 30]))
            answer: Status = odd(0.1)
            return answer

        async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            odd(0.1)

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            odd(0.1)

    return Odd
