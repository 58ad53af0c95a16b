"""What the compiler's parts pass to each other: runnable code and the frame it runs in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kubesched.foundation.cel.language.cel_values import Value

__all__ = ["CompiledNode", "Frame", "Run"]

Frame: TypeAlias = list[Value]
"""The cost so far, then a slot for each variable."""

Run: TypeAlias = Callable[[Frame], Value]


class CompiledNode(NamedTuple):
    """How to run a node, and what that costs beyond what it charges itself."""

    run: Run
    cost: int
