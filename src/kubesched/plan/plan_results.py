"""The result of planning, as plain data."""

from __future__ import annotations

from kubesched.explain.rendering.result import Result
from kubesched.plan.moving.planned_waves import PlannedMove, PlannedWave

__all__ = [
    "BlockedPod",
    "Consolidation",
    "Drain",
    "OneTypeSizing",
    "SizedType",
    "Sizing",
    "Upgrade",
    "UpgradeRound",
]


class Consolidation(Result, frozen=True, kw_only=True):
    """The fewest nodes found for the running pods, and the moves to get there.

    `lower_bound` is proved: no plan needs fewer nodes. With prices the plan minimizes
    `planned_cost`; `cost` is the present cost, `lower_bound_cost` its proved bound, and
    `lower_bound` still counts nodes.
    """

    nodes: int
    planned_nodes: int
    lower_bound: int
    moves: tuple[PlannedMove, ...] = ()
    waves: tuple[PlannedWave, ...] = ()
    # Whether the scheduler carried out the whole plan on a copy, and all guarantees held.
    verified: bool = False
    emptied: tuple[str, ...] = ()
    uncordon: tuple[str, ...] = ()  # nodes to uncordon after the last wave
    cost: float | None = None
    planned_cost: float | None = None
    lower_bound_cost: float | None = None
    pods: int = 0
    movable_pods: int = 0
    # Why nodes stay in use, and why pods are not moved.
    kept_nodes: dict[str, str] = {}
    pinned_pods: dict[str, str] = {}
    problems: tuple[str, ...] = ()
    # With `survive`: pods that fit nowhere after a loss. Then the plan has no moves.
    losses: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """The largest possible distance to the optimum: 0.05 means at most 5 % more nodes."""
        return (self.planned_nodes - self.lower_bound) / max(self.lower_bound, 1)

    def __repr__(self) -> str:
        return (
            f"<Consolidation: {self.nodes} nodes now, {self.planned_nodes} in the plan, "
            f"at least {self.lower_bound}; {len(self.moves)} moves in {len(self.waves)} waves>"
        )


class BlockedPod(Result, frozen=True, kw_only=True):
    """A pod that prevents a drain, and changes that would help."""

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


class SizedType(Result, frozen=True, kw_only=True):
    """How many nodes of a type a workload needs."""

    name: str
    nodes: int
    price: float  # of one node


class OneTypeSizing(Result, frozen=True, kw_only=True):
    """The result for a cluster with nodes of one type only."""

    name: str
    nodes: int = 0
    packed_nodes: int = 0  # if the scheduler packed the pods as tightly as possible
    cost: float = 0.0
    # Proved: nodes of this type that fit the workload cannot cost less.
    lower_bound: float = 0.0
    verified: bool = False
    impossible: str = ""  # why nodes of this type alone do not suffice


class Sizing(Result, frozen=True, kw_only=True):
    """The cheapest nodes that were found for a workload.

    Without prices each node costs 1. The scheduler placed the workload on these nodes.
    `packed_cost` is the cost of a packing that uses fewer nodes, which the scheduler with its
    scores did not reproduce.
    """

    nodes: int
    cost: float
    lower_bound: float  # proved: nodes of these types that fit the workload cannot cost less
    types: tuple[SizedType, ...] = ()
    pods: int = 0
    verified: bool = False
    packed_nodes: int = 0
    packed_cost: float = 0.0
    only: tuple[OneTypeSizing, ...] = ()
    # Pods that fit no type, and why.
    unplaceable: dict[str, str] = {}
    problems: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """The largest possible distance to the optimum: 0.05 means at most 5 % more."""
        return (self.cost - self.lower_bound) / self.lower_bound if self.lower_bound else 0.0

    def __repr__(self) -> str:
        return f"<Sizing: {self.nodes} nodes for {self.cost:g}, at least {self.lower_bound:g}>"


class UpgradeRound(Result, frozen=True, kw_only=True):
    """One round: add the new nodes, empty the old ones, and remove these."""

    round: int
    add: tuple[str, ...]  # their names in the rehearsal
    nodes: tuple[str, ...]  # the old nodes, in the order in which they become empty
    moves: tuple[PlannedMove, ...] = ()
    waves: tuple[PlannedWave, ...] = ()
    longest_pending_seconds: float = 0.0


class Upgrade(Result, frozen=True, kw_only=True):
    """Rounds in which the nodes of a pool can be replaced, some at a time."""

    nodes: int  # the size of the pool
    upgraded: int  # the number of nodes that the rehearsal replaced
    rounds: tuple[UpgradeRound, ...] = ()
    # Whether the rehearsal replaced every node, and no replacement waited too long for a node.
    verified: bool = False
    blocked: tuple[BlockedPod, ...] = ()
    longest_pending_seconds: float = 0.0
    problems: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<Upgrade of {self.upgraded} of {self.nodes} nodes in {len(self.rounds)} rounds>"
