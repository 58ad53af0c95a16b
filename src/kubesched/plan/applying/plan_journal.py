"""The progress of a plan, a line per step, so that an interrupted plan can be resumed.

A line is written before the step that it describes. After a crash the last step may or may not have
been executed; the state of the cluster shows which.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from kubesched.api.time import format_time
from kubesched.foundation.util.clock import Clock
from kubesched.plan.applying.plan_document import PlanFileError

__all__ = ["BegunWave", "PlanJournal"]

_CORDON: Final = "cordon"
_UNCORDON: Final = "uncordon"


class BegunWave(msgspec.Struct, frozen=True):
    """The state that identifies the replacements of an interrupted wave."""

    wave: int
    owners: Mapping[str, str]  # the uid of the controller of each pod of the wave
    known: frozenset[str]  # uids of the pods of these controllers before the wave


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    step: str
    time: str = ""
    plan: str = ""
    node: str = ""
    pod: str = ""
    uid: str = ""
    wave: int = 0
    owners: dict[str, str] = {}
    known: tuple[str, ...] = ()
    text: str = ""


class PlanJournal:
    """The state of a plan: completed waves, evicted pods, cordoned nodes."""

    def __init__(
        self, digest: str, clock: Clock, write: Callable[[bytes], None] = lambda _: None
    ) -> None:
        self._digest, self._clock, self._write = digest, clock, write
        self.waves_done = 0
        self.evicted: set[str] = set()  # uids
        self.cordoned: set[str] = set()  # nodes that the plan has cordoned
        self.begun: BegunWave | None = None

    @classmethod
    def read(cls, path: Path, digest: str, clock: Clock, *, writes: bool) -> PlanJournal:
        """Read the progress from a file; with `writes`, append further steps to it.

        Raises:
            PlanFileError: the file belongs to another plan, or is damaged.
        """
        journal = cls(digest, clock)
        text = path.read_bytes() if path.exists() else b""
        # A process that was killed may have written a part of its last line.
        whole = text[: text.rfind(b"\n") + 1]
        if writes and whole != text:
            path.write_bytes(whole)
        lines = whole.splitlines()
        for number, line in enumerate(lines, start=1):
            try:
                found = msgspec.json.decode(line, type=_Line)
            except (msgspec.DecodeError, ValueError) as error:
                raise PlanFileError(f"{path}:{number}: not a line of progress: {error}") from error
            journal._take(found, path)
        if writes:
            journal._write = _appender(path)
            if not lines:
                journal._put(_Line("plan", plan=digest))
        return journal

    def cordon(self, node: str, *, unschedulable: bool) -> None:
        self._put(_Line(_CORDON if unschedulable else _UNCORDON, node=node))

    def begin(self, wave: BegunWave) -> None:
        known = tuple(sorted(wave.known))
        self._put(_Line("wave", wave=wave.wave, owners=dict(wave.owners), known=known))

    def evict(self, pod: str, uid: str) -> None:
        self._put(_Line("evict", pod=pod, uid=uid))

    def finish(self, wave: int) -> None:
        self._put(_Line("done", wave=wave))

    def stop(self, why: str) -> None:
        self._put(_Line("stop", text=why))

    def _put(self, line: _Line) -> None:
        stamped = msgspec.structs.replace(line, time=format_time(self._clock.now_ns()))
        self._write(msgspec.json.encode(stamped) + b"\n")
        self._note(line)

    def _take(self, line: _Line, path: Path) -> None:
        if line.step == "plan" and line.plan != self._digest:
            error = PlanFileError(f"{path}: the progress of another plan")
            error.add_note("give another file with --journal, or remove it")
            raise error
        self._note(line)

    def _note(self, line: _Line) -> None:
        if line.step == _CORDON:
            self.cordoned.add(line.node)
        elif line.step == _UNCORDON:
            self.cordoned.discard(line.node)
        elif line.step == "wave":
            self.begun = BegunWave(line.wave, line.owners, frozenset(line.known))
        elif line.step == "evict":
            self.evicted.add(line.uid)
        elif line.step == "done":
            self.waves_done = line.wave


def _appender(path: Path) -> Callable[[bytes], None]:
    def append(line: bytes) -> None:
        with path.open("ab") as file:
            file.write(line)
            file.flush()
            os.fsync(file.fileno())

    return append
