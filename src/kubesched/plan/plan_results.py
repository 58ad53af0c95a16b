"""The result of planning, as plain data."""

from __future__ import annotations

from kubesched.explain.rendering.result import Result
from kubesched.plan.moving.planned_waves import PlannedMove, PlannedWave

__all__ = ["BlockedPod", "Consolidation", "Drain"]


class Consolidation(Result, frozen=True, kw_only=True):
    """The fewest nodes that were found for what runs, and the way there.

    `lower_bound` is proved: no plan needs fewer nodes. With prices, `cost`, `planned_cost` and
    `lower_bound_cost` are what the plan minimizes, and `lower_bound` is a bound on the nodes.
    """

    nodes: int
    planned_nodes: int
    lower_bound: int
    moves: tuple[PlannedMove, ...] = ()
    waves: tuple[PlannedWave, ...] = ()
    # Whether the scheduler has played the plan from beginning to end, with every promise kept.
    verified: bool = False
    emptied: tuple[str, ...] = ()
    uncordon: tuple[str, ...] = ()  # nodes to uncordon after the last wave
    cost: float | None = None
    planned_cost: float | None = None
    lower_bound_cost: float | None = None
    pods: int = 0
    movable_pods: int = 0
    # Why nodes stay in use, and why pods stay where they are.
    kept_nodes: dict[str, str] = {}
    pinned_pods: dict[str, str] = {}
    problems: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """How far the plan may be from the optimum: 0.05 means at most 5 % more nodes."""
        return (self.planned_nodes - self.lower_bound) / max(self.lower_bound, 1)

    def __repr__(self) -> str:
        return (
            f"<Consolidation: {self.nodes} nodes now, {self.planned_nodes} in the plan, "
            f"at least {self.lower_bound}; {len(self.moves)} moves in {len(self.waves)} waves>"
        )


class BlockedPod(Result, frozen=True, kw_only=True):
    """A pod that stands in the way of a drain, and what would help."""

    pod: str
    node: str
    reason: str
    help: str = ""


class Drain(Result, frozen=True, kw_only=True):
    """An order in which nodes can be drained, and the evictions in waves."""

    nodes: tuple[str, ...]  # those that become empty, in this order
    blocked: tuple[BlockedPod, ...] = ()
    moves: tuple[PlannedMove, ...] = ()
    waves: tuple[PlannedWave, ...] = ()
    # Whether the rehearsal emptied every node, and no replacement waited too long for a node.
    verified: bool = False
    uncordon: tuple[str, ...] = ()
    longest_pending_seconds: float = 0.0
    longest_pending_pod: str = ""
    problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return (
            f"<Drain of {len(self.nodes)} nodes: {len(self.moves)} moves in {len(self.waves)} "
            f"waves, {len(self.blocked)} pods in the way>"
        )
