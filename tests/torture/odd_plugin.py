"""A plugin that misbehaves now and then, from a seed: raises, makes pods wait, talks nonsense."""

from __future__ import annotations

import random
from typing import Any

from kubesched.api import Pod
from kubesched.framework import SUCCESS, CycleState, NodeInfo, Plugin, Status, Wait
from kubesched.util.clock import SECOND

__all__ = ["odd_plugin"]


def odd_plugin(kind: str, seed: int, is_storming: Any) -> type[Plugin]:
    """A plugin class of a kind; it behaves once the storm is over."""
    dice = random.Random(f"plugin/{seed}")

    class Odd(Plugin):
        name = "Odd"

        def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
            if is_storming() and kind == "raises" and dice.random() < 0.02:
                raise RuntimeError("a bad moment")
            if is_storming() and kind == "nonsense" and dice.random() < 0.02:
                answer: Any = "yes"
                return answer
            return SUCCESS

        def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | Wait:
            if is_storming() and kind == "waits" and dice.random() < 0.3:
                return Wait(dice.randint(1, 20) * SECOND)
            return SUCCESS

        def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
            if is_storming() and kind == "raises" and dice.random() < 0.05:
                raise RuntimeError("no room in my head")
            return SUCCESS

    return Odd
