"""Facts about the pods of each node that no column shows, worked out for changed rows only."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kubesched.framework import NodeInfo, NodeView
from kubesched.framework.engine import NodeTable

__all__ = ["RowFacts"]

F = TypeVar("F")


class RowFacts(Generic[F]):
    """`facts[row]` is what `work_out` said of the node; rows of which it said None are absent.

    The facts are right after `refresh`, until the cluster changes.
    """

    def __init__(self, work_out: Callable[[NodeInfo], F | None]) -> None:
        self._work_out = work_out
        self._table: NodeTable | None = None
        self._position = -1
        self._stale: set[int] = set()
        self.facts: dict[int, F] = {}

    def invalidate(self, rows: Iterable[int]) -> None:
        """Something besides the pods of these rows changed."""
        self._stale.update(rows)

    def refresh(self, nodes: NodeView) -> list[tuple[int, F | None, F | None]]:
        """Catch up with the table; returns rows with what was said of them before and now."""
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
            after = self._work_out(nodes.info_at(row)) if table.is_live[row] else None
            if after is not None:
                facts[row] = after
            if before is not None or after is not None:
                steps.append((row, before, after))
        return steps
