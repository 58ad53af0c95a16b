"""The frames of the event stream: everything first, then changes, encoded once for all viewers.

The hub collects the names of changed nodes and puts them into numbered frames, a few per second. A
viewer only passes the number of its last frame, so a slow viewer needs no buffer. A viewer that is
behind gets all changes since its frame in one frame, or everything again. Frames are encoded as
events of the stream, so that all viewers receive the same bytes.
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
_MOST_STEPS: Final = 50  # frames whose changed names are stored
_WHOLE_VALID: Final = 10  # number of later frames for which a whole frame is reused for new viewers
_ROWS_PER_TURN: Final = 1000


class _Step(NamedTuple):
    """What changed with a frame."""

    number: int
    nodes: frozenset[str]
    usage: frozenset[str]
    decision: int  # the number of the last decision before it


class FrameHub:
    """Builds the frames of a view. `decorate` adds more members to each frame."""

    def __init__(
        self,
        view: PageView,
        decisions: DecisionLog,
        decorate: Callable[[dict[str, Any]], dict[str, Any]],
    ) -> None:
        self._view, self._decisions, self._decorate = view, decisions, decorate
        self._steps: deque[_Step] = deque(maxlen=_MOST_STEPS)
        self._number = 0
        self._decision = 0
        self._version: object = None  # the version of the view in the last frame
        self._made_s = float("-inf")
        self._encoded: dict[int, bytes] = {}  # the present frame, by the last frame of the viewer
        self._whole: tuple[int, bytes] | None = None
        self._making_whole = asyncio.Lock()
        self.viewers = 0
        self._pause_s = _SHORTEST_PAUSE_S

    def join(self) -> None:
        """Add a viewer. The first one starts the recording of changes."""
        self.viewers += 1
        if self.viewers == 1:
            self._view.follow()

    @property
    def backlog(self) -> int:
        """How many names are stored for all viewers together."""
        return sum(len(each.nodes) + len(each.usage) for each in self._steps)

    async def next(self, last: int) -> tuple[int, bytes]:
        """Wait for the next frame after `last` (0: none). Return its number and its bytes."""
        loop = asyncio.get_running_loop()
        while last and last == self._number:
            pause_s = self._made_s + self._pause_s - loop.time()
            if pause_s > 0:
                # A sleep below the clock's resolution might not advance the time.
                await asyncio.sleep(max(pause_s, _SHORTEST_SLEEP_S))
            elif self._has_changes() or loop.time() >= self._made_s + _HEARTBEAT_S:
                self._advance(loop.time())
            else:
                await asyncio.sleep(_SHORTEST_PAUSE_S)
        if not self._steps or (self._has_changes() and loop.time() >= self._made_s + self._pause_s):
            self._advance(loop.time())
        if not last or last > self._number or self._steps[0].number > last + 1:
            return await self._whole_frame()
        frame = self._encoded.get(last)
        if frame is None:
            began_s = loop.time()
            frame = self._encoded[last] = self._encode(last)
            # Frames may use a fixed share of the time, however long one takes.
            interval_s = (loop.time() - began_s) / _SHARE_OF_TIME
            self._pause_s = min(max(_SHORTEST_PAUSE_S, interval_s), _LONGEST_PAUSE_S)
        return self._number, frame

    def leave(self) -> None:
        """Remove a viewer. The last one stops the recording of changes."""
        self.viewers -= 1
        if not self.viewers:
            self._view.unfollow()
            self._steps.clear()
            self._encoded.clear()
            self._whole = None
            # A viewer that reconnects has missed changes, so its last number must be invalid.
            self._number += _MOST_STEPS + 1

    def _has_changes(self) -> bool:
        return self._version != (self._view.version, self._decisions.last)

    def _advance(self, now_s: float) -> None:
        """Begin a new frame with the recorded changes. Without changes it is a heartbeat."""
        self._version = (self._view.version, self._decisions.last)
        self._number += 1
        changed = self._view.take_changes()
        self._steps.append(
            _Step(self._number, frozenset(changed.nodes), frozenset(changed.usage), self._decision)
        )
        self._decision = self._decisions.last
        self._made_s = now_s
        self._encoded.clear()

    async def _whole_frame(self) -> tuple[int, bytes]:
        """Return a frame with all nodes, and the number from which the viewer continues."""
        async with self._making_whole:
            if self._whole is None or self._whole[0] < self._number - _WHOLE_VALID:
                # Later frames repeat the changes that happen during the encoding.
                number = self._number
                self._whole = number, await self._encode_whole()
            return self._whole

    async def _encode_whole(self) -> bytes:
        """Encode all rows in batches, so that other tasks run in between."""
        indexes: dict[bytes, int] = {}
        names, parts = list(self._view.names()), []
        for start in range(0, len(names), _ROWS_PER_TURN):
            rows = node_rows(self._view, names[start : start + _ROWS_PER_TURN], indexes)
            parts.append(msgspec.json.encode(rows)[1:-1])
            await asyncio.sleep(0)
        frame = self._common(max(0, self._decisions.last - _DECISIONS_AT_ONCE))
        frame["all"] = True
        frame["shapes"] = [msgspec.Raw(each) for each in indexes]
        frame["nodes"] = msgspec.Raw(b"[" + b",".join(filter(None, parts)) + b"]")
        return self._event(frame)

    def _encode(self, last: int) -> bytes:
        view = self._view
        missed = [step for step in self._steps if step.number > last]
        frame = self._common(missed[0].decision)
        names = sorted(frozenset[str]().union(*(step.nodes for step in missed)))
        indexes: dict[bytes, int] = {}
        frame["nodes"] = node_rows(view, names, indexes)
        frame["shapes"] = [msgspec.Raw(each) for each in indexes]
        frame["gone"] = [name for name in names if view.facts(name) is None]
        changed_usage = frozenset[str]().union(*(step.usage for step in missed)).difference(names)
        frame["used"] = [
            usage_row(name, facts)
            for name in sorted(changed_usage)
            if (facts := view.facts(name)) is not None
        ]
        return self._event(frame)

    def _common(self, since: int) -> dict[str, Any]:
        """Return the members that every frame has."""
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
