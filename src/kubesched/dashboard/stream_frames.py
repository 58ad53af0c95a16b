"""What viewers are sent: everything at first, then what changed, made once for all of them.

Changes are gathered as names and put into numbered frames, a few in a second. A viewer is known
by the number of the last frame that it took, and by nothing else: however slow it is, nothing is
kept for it. One that is behind gets what changed since in one frame, or everything anew. Frames
are events of a stream as they go over the wire, so that five viewers are sent the same bytes.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from kubesched.dashboard.cluster_view import PageView
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.rows import node_rows, usage_row

__all__ = ["FrameHub"]

_DECISIONS_AT_ONCE: Final = 200
_SHORTEST_PAUSE_S: Final = 0.2
_SHORTEST_SLEEP_S: Final = 0.001
_LONGEST_PAUSE_S: Final = 2.0
_SHARE_OF_TIME: Final = 0.02
_HEARTBEAT_S: Final = 5.0
_REMEMBERED: Final = 50  # frames whose names are kept
_WHOLE_KEPT: Final = 10  # for so many frames the last whole one is good enough to begin with
_ROWS_PER_TURN: Final = 1000


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
        view: PageView,
        decisions: DecisionLog,
        decorate: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._view, self._decisions, self._decorate = view, decisions, decorate
        self._steps: deque[_Step] = deque(maxlen=_REMEMBERED)
        self._number = 0
        self._decision = 0
        self._version: object = None  # of what the last frame showed
        self._made_s = float("-inf")
        self._encoded: dict[int, bytes] = {}  # by the frame before, of the present number
        self._whole: tuple[int, bytes] | None = None
        self._making_whole = asyncio.Lock()
        self.viewers = 0
        self._pause_s = _SHORTEST_PAUSE_S

    def join(self) -> None:
        """A viewer came; from the first one on changes are noted."""
        self.viewers += 1
        if self.viewers == 1:
            self._view.follow()

    @property
    def backlog(self) -> int:
        """How many names are kept for all viewers together."""
        return sum(len(each.nodes) + len(each.usage) for each in self._steps)

    async def next(self, last: int) -> tuple[int, bytes]:
        """The next frame for a viewer that has the frame `last` (0: none), and its number."""
        loop = asyncio.get_running_loop()
        while last and last == self._number:
            pause_s = self._made_s + self._pause_s - loop.time()
            if pause_s > 0:
                # Not for less than the clock can tell apart: then it would not be over after it.
                await asyncio.sleep(max(pause_s, _SHORTEST_SLEEP_S))
            elif self._has_news() or loop.time() >= self._made_s + _HEARTBEAT_S:
                self._advance(loop.time())
            else:
                await asyncio.sleep(_SHORTEST_PAUSE_S)
        if not self._steps or (self._has_news() and loop.time() >= self._made_s + self._pause_s):
            self._advance(loop.time())
        if not last or last > self._number or self._steps[0].number > last + 1:
            return await self._everything()
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
            self._view.unfollow()
            self._steps.clear()
            self._encoded.clear()
            self._whole = None
            # Whoever comes back has missed changes.
            self._number += _REMEMBERED + 1

    def _has_news(self) -> bool:
        return self._version != (self._view.version, self._decisions.last)

    def _advance(self, now_s: float) -> None:
        """Put what changed into a frame of its own; without changes it says that we are here."""
        self._version = (self._view.version, self._decisions.last)
        self._number += 1
        changed = self._view.take_changes()
        self._steps.append(
            _Step(self._number, frozenset(changed.nodes), frozenset(changed.usage), self._decision)
        )
        self._decision = self._decisions.last
        self._made_s = now_s
        self._encoded.clear()

    async def _everything(self) -> tuple[int, bytes]:
        """A frame with all nodes, as of some frame that the next ones can follow."""
        async with self._making_whole:
            if self._whole is None or self._whole[0] < self._number - _WHOLE_KEPT:
                # What changes meanwhile is in later frames, whether or not it is in this one.
                number = self._number
                self._whole = number, await self._encode_whole()
            return self._whole

    async def _encode_whole(self) -> bytes:
        """All rows, a few at a time: the scheduler has its turns in between."""
        places: dict[bytes, int] = {}
        names, parts = list(self._view.names()), []
        for start in range(0, len(names), _ROWS_PER_TURN):
            rows = node_rows(self._view, names[start : start + _ROWS_PER_TURN], places)
            parts.append(msgspec.json.encode(rows)[1:-1])
            await asyncio.sleep(0)
        frame = self._common(max(0, self._decisions.last - _DECISIONS_AT_ONCE))
        frame["all"] = True
        frame["shapes"] = [msgspec.Raw(each) for each in places]
        frame["nodes"] = msgspec.Raw(b"[" + b",".join(filter(None, parts)) + b"]")
        return self._event(frame)

    def _encode(self, last: int) -> bytes:
        view = self._view
        missed = [step for step in self._steps if step.number > last]
        frame = self._common(missed[0].decision)
        names = sorted(frozenset[str]().union(*(step.nodes for step in missed)))
        places: dict[bytes, int] = {}
        frame["nodes"] = node_rows(view, names, places)
        frame["shapes"] = [msgspec.Raw(each) for each in places]
        frame["gone"] = [name for name in names if view.facts(name) is None]
        fuller = frozenset[str]().union(*(step.usage for step in missed)).difference(names)
        frame["used"] = [
            usage_row(name, facts)
            for name in sorted(fuller)
            if (facts := view.facts(name)) is not None
        ]
        return self._event(frame)

    def _common(self, since: int) -> dict[str, Any]:
        """What is in every frame."""
        decisions = self._decisions
        frame: dict[str, Any] = {
            "number": self._number,
            "counts": self._view.counts(),
            "decisions": decisions.entries_since(since, _DECISIONS_AT_ONCE),
            "totals": {
                "placed": decisions.placed,
                "failed": decisions.failed,
                "preempted": decisions.preempted,
            },
        }
        if latency := decisions.latency():
            frame["latency"] = latency
        return frame

    def _event(self, frame: dict[str, Any]) -> bytes:
        return b"data: " + msgspec.json.encode(self._decorate(frame)) + b"\n\n"
