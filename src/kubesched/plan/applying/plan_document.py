"""A plan as a file: the output of `kubesched plan … -o json`."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from functools import cached_property

import msgspec

from kubesched.errors import KubeschedError
from kubesched.plan.moving.planned_waves import PlannedMove, PlannedWave

__all__ = ["PlanDocument", "PlanFileError", "read_plan"]


class PlanFileError(KubeschedError):
    """A file is not a plan that can be carried out."""


class _Document(msgspec.Struct, frozen=True, kw_only=True):
    waves: tuple[PlannedWave, ...]
    moves: tuple[PlannedMove, ...]
    verified: bool
    emptied: tuple[str, ...] | None = None
    nodes: int | tuple[str, ...] = ()


class PlanDocument:
    """The waves of a plan. The plan itself is never changed."""

    def __init__(
        self,
        waves: tuple[PlannedWave, ...],
        moves: tuple[PlannedMove, ...],
        emptied: tuple[str, ...],
        digest: str,
    ) -> None:
        self.waves, self.moves, self.emptied = waves, moves, emptied
        # Identifies the file: progress in a journal belongs to one plan.
        self.digest = digest

    @cached_property
    def move_of(self) -> Mapping[str, PlannedMove]:
        """The move of each pod, by namespace and name."""
        return {move.pod: move for move in self.moves}

    @cached_property
    def nodes(self) -> frozenset[str]:
        """Return the nodes that pods leave or reach, and those that are cordoned temporarily."""
        named = {name for move in self.moves for name in (move.source, move.target)}
        for wave in self.waves:
            named |= {*wave.cordon, *wave.uncordon, *wave.relief}
        return frozenset(named | set(self.emptied))


def read_plan(text: bytes, name: str) -> PlanDocument:
    """Read the output of `-o json`.

    Raises:
        PlanFileError: it is not a plan, or the plan is not verified.
    """
    try:
        found = msgspec.json.decode(text, type=_Document)
    except (msgspec.DecodeError, ValueError) as error:
        wrong = PlanFileError(f"{name}: not a plan: {error}")
        wrong.add_note("kubesched plan consolidate -o json > plan.json writes one")
        raise wrong from error
    if not found.verified and not found.moves:
        raise PlanFileError(f"{name}: the plan did not survive its rehearsal, so it has no moves")
    if missing := sorted({move.pod for move in found.moves if not move.uid}):
        raise PlanFileError(f"{name}: the move of pod {missing[0]} has no uid")
    known = {move.pod for move in found.moves}
    for wave in found.waves:
        if strange := [pod for pod in wave.evict if pod not in known]:
            raise PlanFileError(f"{name}: wave {wave.wave} evicts {strange[0]}, which has no move")
    emptied = found.emptied
    if emptied is None:
        emptied = found.nodes if isinstance(found.nodes, tuple) else ()
    digest = hashlib.sha256(text).hexdigest()[:16]
    return PlanDocument(found.waves, found.moves, emptied, digest)
