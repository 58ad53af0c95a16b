"""A value per node, computed from its pods and cached by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kubesched.framework import NodeInfo, NodeView
from kubesched.framework.engine import NodeTable

__all__ = ["RowFacts"]

F = TypeVar("F")


class RowFacts(Generic[F]):
    """Caches `compute(node)` per row; rows for which it returns None have no entry.

    `facts` is up to date after `refresh`, until the cluster changes.
    """

    def __init__(self, compute: Callable[[NodeInfo], F | None]) -> None:
        self._compute = compute
        self._table: NodeTable | None = None
        self._position = -1
        self._stale: set[int] = set()
        self.facts: dict[int, F] = {}

    def invalidate(self, rows: Iterable[int]) -> None:
        """Mark these rows for recomputation: an input other than their pods has changed."""
        self._stale.update(rows)

    def refresh(self, nodes: NodeView) -> list[tuple[int, F | None, F | None]]:
        """Update the facts; return (row, old fact, new fact) for each recomputed row."""
        table, facts = nodes.table, self.facts
        if table is not self._table:
            self._table, self._position = table, -1
        changed = table.changes.since(self._position)
        if changed is None:
            rows = sorted({*nodes.whole.rows.tolist(), *facts})
        elif self._stale:
            rows = sorted({*changed.tolist(), *self._stale})
        else:
            rows = changed.tolist()
        self._stale.clear()
        self._position = table.changes.position
        steps: list[tuple[int, F | None, F | None]] = []
        for row in rows:
            before = facts.pop(row, None)
            after = self._compute(nodes.info_at(row)) if table.is_live[row] else None
            if after is not None:
                facts[row] = after
            if before is not None or after is not None:
                steps.append((row, before, after))
        return steps
