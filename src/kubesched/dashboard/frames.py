"""What viewers are sent: everything at first, then what changed, made once for all of them.

Changes are gathered as names and put into numbered frames, a few in a second. A viewer is known
by the number of the last frame that it took, and by nothing else: however slow it is, nothing is
kept for it. One that is behind gets what changed since in one frame, or everything anew.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from kubesched.dashboard.cluster_view import ChangedNodes, ClusterView
from kubesched.dashboard.decision_log import DecisionLog

__all__ = ["FrameHub"]

_DECISIONS_AT_ONCE: Final = 200
_SHORTEST_PAUSE_S: Final = 0.2
_LONGEST_PAUSE_S: Final = 2.0
_SHARE_OF_TIME: Final = 0.02
_HEARTBEAT_S: Final = 5.0
_REMEMBERED: Final = 50  # frames whose names are kept
_ROWS_PER_TURN: Final = 500


class _Step(NamedTuple):
    """What became different with a frame."""

    number: int
    nodes: frozenset[str]
    usage: frozenset[str]
    decision: int  # the last one before it


class FrameHub:
    """Frames of a view. `decorate` adds what only others know, to each frame."""

    def __init__(
        self,
        view: ClusterView,
        decisions: DecisionLog,
        decorate: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._view, self._decisions, self._decorate = view, decisions, decorate
        self._is_changed = False
        self._steps: deque[_Step] = deque(maxlen=_REMEMBERED)
        self._number = 0
        self._decision = 0
        self._made_s = float("-inf")
        self._news = asyncio.Event()
        self._encoded: dict[int, bytes] = {}  # by the frame before, of the present number
        self.viewers = 0
        self._pause_s = _SHORTEST_PAUSE_S

    def join(self) -> None:
        """A viewer came; from the first one on changes are noted."""
        self.viewers += 1
        if self._view.changed is None:
            self._view.changed = ChangedNodes(set(), set())
            self._view.on_change = self._note

    def _note(self) -> None:
        if not self._is_changed:
            self._is_changed = True
            self._news.set()

    @property
    def backlog(self) -> int:
        """How many names are kept for all viewers together."""
        noted = self._view.changed or ((), ())
        return sum(map(len, noted)) + sum(len(each.nodes) + len(each.usage) for each in self._steps)

    async def next(self, last: int) -> tuple[int, bytes]:
        """The next frame for a viewer that has the frame `last` (0: none), and its number."""
        loop = asyncio.get_running_loop()
        if last:
            pause_s = self._made_s + self._pause_s - loop.time()
            if last == self._number and pause_s > 0:
                await asyncio.sleep(pause_s)
            if last == self._number and not self._is_changed:
                await self._wait()
        is_due = self._is_changed and loop.time() >= self._made_s + self._pause_s
        if last == self._number or is_due:
            self._advance(loop.time())
        if not last or last > self._number or self._steps[0].number > last + 1:
            await self._prepare_rows()
            last = 0
        frame = self._encoded.get(last)
        if frame is None:
            began_s = loop.time()
            frame = self._encoded[last] = self._encode(last)
            # Frames may take a part of the time, whatever they cost.
            worth_s = (loop.time() - began_s) / _SHARE_OF_TIME
            self._pause_s = min(max(_SHORTEST_PAUSE_S, worth_s), _LONGEST_PAUSE_S)
        return self._number, frame

    def leave(self) -> None:
        """A viewer went away; with the last one goes all that was noted for them."""
        self.viewers -= 1
        if not self.viewers:
            self._view.changed = self._view.on_change = None
            self._steps.clear()
            self._encoded.clear()
            # Whoever comes back has missed changes.
            self._number += _REMEMBERED + 1
            self._advance(self._made_s)

    async def _wait(self) -> None:
        self._news.clear()
        try:
            async with asyncio.timeout(_HEARTBEAT_S):
                await self._news.wait()
        except TimeoutError:
            pass

    def _advance(self, now_s: float) -> None:
        """Put what changed into a frame of its own; without changes it says that we are here."""
        self._number += 1
        self._view.counts()  # works off what was put aside
        changed = self._view.changed or ChangedNodes(set(), set())
        step = _Step(
            self._number, frozenset(changed.nodes), frozenset(changed.usage), self._decision
        )
        self._steps.append(step)
        self._decision = self._decisions.last
        changed.nodes.clear()
        changed.usage.clear()
        self._is_changed = False
        self._made_s = now_s
        self._encoded.clear()

    async def _prepare_rows(self) -> None:
        """Encode the rows of all nodes, a few at a time: the scheduler has its turns between."""
        for number, name in enumerate(list(self._view.nodes), start=1):
            self._view.encoded_row(name)
            if number % _ROWS_PER_TURN == 0:
                await asyncio.sleep(0)

    def _encode(self, last: int) -> bytes:
        view, decisions = self._view, self._decisions
        frame: dict[str, Any] = {"number": self._number, "counts": view.counts()}
        since = max(0, decisions.last - _DECISIONS_AT_ONCE)
        if not last:
            frame["all"] = True
            frame["nodes"] = [view.encoded_row(name) for name in sorted(view.nodes)]
        else:
            missed = [step for step in self._steps if step.number > last]
            names = frozenset[str]().union(*(step.nodes for step in missed))
            rows = {name: view.encoded_row(name) for name in sorted(names)}
            frame["nodes"] = [row for row in rows.values() if row is not None]
            frame["gone"] = [name for name, row in rows.items() if row is None]
            fuller = frozenset[str]().union(*(step.usage for step in missed)) - names
            usage = (view.usage(name) for name in sorted(fuller))
            frame["used"] = [each for each in usage if each is not None]
            since = missed[0].decision
        frame["decisions"] = decisions.since(since, _DECISIONS_AT_ONCE)
        frame["totals"] = {
            "placed": decisions.placed,
            "failed": decisions.failed,
            "preempted": decisions.preempted,
        }
        if latency := decisions.latency():
            frame["latency"] = latency
        return msgspec.json.encode(self._decorate(frame))
