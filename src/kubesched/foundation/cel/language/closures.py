"""What the parts of the compiler share: compiled nodes, frames, and the compiler's interface."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol, TypeAlias

from kubesched.foundation.cel.language.cel_values import Value
from kubesched.foundation.cel.language.syntax import SyntaxNode

__all__ = ["CompiledNode", "Frame", "NodeCompiler", "Run"]

# The cost so far, then a slot for each variable.
Frame: TypeAlias = list[Value]

Run: TypeAlias = Callable[[Frame], Value]


class CompiledNode(NamedTuple):
    """A function that evaluates a node, and the cost that it does not add to the frame itself."""

    run: Run
    cost: int


class NodeCompiler(Protocol):
    """What the compilers of calls, operators and loops need of `Compiler`."""

    @property
    def limit(self) -> int:
        """The cost at which an evaluation ends."""
        ...

    @property
    def metered(self) -> bool:
        """Whether the cost of the expression depends on its input."""
        ...

    def compile(self, node: SyntaxNode) -> CompiledNode: ...

    def charged(self, code: CompiledNode) -> Run:
        """Return a function that adds the cost of a node to the frame and then evaluates it."""
        ...

    def new_slot(self) -> int: ...

    def in_scope(self, names: Mapping[str, int], node: SyntaxNode) -> CompiledNode:
        """Compile a node in whose scope these variables are visible."""
        ...
