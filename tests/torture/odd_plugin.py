"""A plugin that misbehaves now and then, from a seed: raises, waits, forgets, talks nonsense."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

from kubesched.api import Pod
from kubesched.framework import SUCCESS, CycleState, NodeInfo, Plugin, Status, Wait
from kubesched.util.clock import SECOND

__all__ = ["odd_plugin"]


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

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            answer: Status = odd(0.02)
            return answer

        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            answer: Status = odd(0.05)
            return answer

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
            if now_and_then("waits", 0.3):
                return Wait(dice.randint(1, 20) * SECOND)
            answer: Status | Wait = odd(0.05)
            return answer

        async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            if now_and_then("slow", 0.3):
                await asyncio.sleep(dice.choice([0.5, 5, 30]))
            answer: Status = odd(0.1)
            return answer

        async def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
            odd(0.1)

        def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
            odd(0.1)

    return Odd
