"""One browser that looks on: what it has not been sent yet, as names, never as a backlog.

However slow a viewer is, what is kept for it is at most the set of nodes and pods that exist.
"""

from __future__ import annotations

import asyncio
from typing import Any

from kubesched.dashboard.cluster_view import ClusterView, pod_row, sorted_rows

__all__ = ["Viewer"]

_DECISIONS_AT_ONCE = 200
_WAITING_SHOWN = 500


class Viewer:
    """Follows a view; `next_frame` is what changed since the frame before."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._nodes: set[str] = set()
        self._pods: set[str] = set()
        self._changed = asyncio.Event()
        self._decision = max(0, view.decisions.last - _DECISIONS_AT_ONCE)
        self._is_first = True
        view.listeners.append(self._note)

    def close(self) -> None:
        self._view.listeners.remove(self._note)

    def _note(self, kind: str, name: str) -> None:
        (self._nodes if kind == "node" else self._pods).add(name)
        self._changed.set()

    @property
    def backlog(self) -> int:
        """How many names are kept for the next frame."""
        return len(self._nodes) + len(self._pods)

    async def wait(self, seconds: float) -> None:
        """Wait for a change, or for so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def next_frame(self) -> dict[str, Any]:
        """Everything at first, then what changed."""
        view = self._view
        self._changed.clear()
        frame: dict[str, Any] = {"counts": view.counts()}
        if self._is_first:
            self._is_first = False
            frame["all"] = True
            frame["nodes"] = sorted_rows(
                row for name in view.nodes if (row := view.node_row(name)) is not None
            )
        elif self._nodes:
            rows = {name: view.node_row(name) for name in self._nodes}
            frame["nodes"] = sorted_rows(row for row in rows.values() if row is not None)
            frame["gone"] = sorted(name for name, row in rows.items() if row is None)
        if self._pods or "all" in frame:
            waiting = view.waiting()
            frame["waiting"] = [pod_row(pod) for pod in waiting[:_WAITING_SHOWN]]
        self._nodes.clear()
        self._pods.clear()
        decisions = view.decisions
        fresh = decisions.since(self._decision, _DECISIONS_AT_ONCE)
        self._decision = decisions.last
        frame["decisions"] = fresh
        frame["totals"] = {
            "placed": decisions.placed,
            "failed": decisions.failed,
            "preempted": decisions.preempted,
        }
        return frame
