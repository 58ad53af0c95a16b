"""Timelines: the recorded past of a cluster, from captures or from a simulation.

A timeline has changes in order of time, each with the object before and after it. A cursor can
move in both directions. A move costs as much as there are changes in between.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from kubesched.api import Node, Pod
from kubesched.api.base import ApiObject
from kubesched.dashboard.bad_request import BadRequestError
from kubesched.dashboard.cluster_view import ClusterView
from kubesched.dashboard.decision_log import DecisionLog
from kubesched.dashboard.page_state import Moment, PageState
from kubesched.dashboard.rows import node_rows
from kubesched.scheduler.config.types import KubeSchedulerConfiguration

__all__ = ["Key", "Timeline", "TimelineChange", "Timelines", "key_of"]

T = TypeVar("T", bound=ApiObject)

_DECISIONS: Final = 200
_MARKS: Final = 400  # marks on the slider
_MILLISECOND: Final = 1_000_000

Key = tuple[type[Any], str, str]


class TimelineChange(NamedTuple):
    """An object was created, changed or deleted; `at` is in milliseconds."""

    at: int
    before: ApiObject | None
    after: ApiObject | None


class Timeline:
    """A cluster over time, with a cursor. The page shows the state at the cursor."""

    def __init__(
        self,
        name: str,
        changes: Iterable[TimelineChange],
        *,
        start: int | None = None,
        end: int | None = None,
        moments: Sequence[int] = (),
        configuration: KubeSchedulerConfiguration | None = None,
        series: Mapping[str, Sequence[float]] | None = None,
    ) -> None:
        """Build a timeline from its changes.

        If there are `moments`, only these can be selected. `series` are numbers over time, with
        their times in seconds from the start.
        """
        self.name = name
        self._changes = sorted(changes, key=lambda change: change.at)
        self._times = [change.at for change in self._changes]
        self.start = start if start is not None else (self._times[0] if self._times else 0)
        self.end = end if end is not None else (self._times[-1] if self._times else self.start)
        self.moments = list(moments)
        self.series = dict(series or {})
        self._configuration = configuration
        self._objects: dict[Key, ApiObject] = {}
        self._cursor = 0  # how many changes the view contains
        self.view = ClusterView()
        self.decisions = self._all_decisions()
        decided = self.decisions.since(0, 1 << 30)
        self._decision_times = [each["at"] for each in decided]
        self._totals = list(_running_totals(decided))

    def _all_decisions(self) -> DecisionLog:
        """Derive all decisions from the changes."""
        now = 0
        log = DecisionLog(lambda: now * _MILLISECOND, length=max(1, 2 * len(self._changes)))
        for now, before, after in self._changes:  # noqa: B007  the log reads the clock
            if isinstance(before or after, Pod):
                old = before if isinstance(before, Pod) else None
                log.note(old, after if isinstance(after, Pod) else None)
        return log

    def go_to(self, at: int) -> None:
        """Move the cursor to a moment, behind the changes at this moment."""
        target = bisect.bisect_right(self._times, at)
        while self._cursor < target:
            self._carry_out(self._changes[self._cursor].before, self._changes[self._cursor].after)
            self._cursor += 1
        while self._cursor > target:
            self._cursor -= 1
            self._carry_out(self._changes[self._cursor].after, self._changes[self._cursor].before)

    def _carry_out(self, before: ApiObject | None, after: ApiObject | None) -> None:
        if after is not None:
            self._objects[key_of(after)] = after
            if isinstance(after, Node):
                self.view.put_node(after)
            elif isinstance(after, Pod):
                self.view.put_pod(after)
        elif before is not None:
            self._objects.pop(key_of(before), None)
            if isinstance(before, Node):
                self.view.remove_node(before)
            elif isinstance(before, Pod):
                self.view.remove_pod(before)

    def frame(self, at: int, since: int | None) -> dict[str, Any]:
        """Return the frame of a moment, or its differences from the moment `since`."""
        first, last = sorted((at, at if since is None else since))
        touched = self._changes[
            bisect.bisect_right(self._times, first) : bisect.bisect_right(self._times, last)
        ]
        names = {name for change in touched for name in _nodes_of(change)}
        self.go_to(at)
        view = self.view
        count = bisect.bisect_right(self._decision_times, at)
        frame: dict[str, Any] = {
            "at": at,
            "counts": view.counts(),
            "decisions": self.decisions.before(count, _DECISIONS),
            "totals": self._totals[count],
        }
        indexes: dict[bytes, int] = {}
        if since is None:
            frame["all"] = True
            frame["nodes"] = node_rows(view, view.nodes, indexes)
        else:
            frame["nodes"] = node_rows(view, sorted(names), indexes)
            frame["gone"] = [name for name in sorted(names) if name not in view.nodes]
        frame["shapes"] = [msgspec.Raw(each) for each in indexes]
        return frame

    def outline(self) -> dict[str, Any]:
        """Return the data of the time slider."""
        marks = self.moments or self._times
        step = max(1, len(marks) // _MARKS)
        return {
            "name": self.name,
            "start": self.start,
            "end": self.end,
            "moments": self.moments,
            "marks": sorted(set(marks[::step])),
            "series": self.series,
        }

    def of_kind(self, kind: type[T]) -> Iterable[T]:
        return [each for each in self._objects.values() if isinstance(each, kind)]

    def objects(self) -> list[ApiObject]:
        return list(self._objects.values())

    def configuration(self) -> KubeSchedulerConfiguration | None:
        return self._configuration


class Timelines:
    """Several timelines by name, such as the configurations of a simulation."""

    def __init__(self, runs: Sequence[Timeline], facts: Mapping[str, Any] | None = None) -> None:
        assert runs
        self._runs = {run.name: run for run in runs}
        self._facts = dict(facts or {})

    def at(self, moment: Moment) -> PageState:
        run = self._run(moment)
        run.go_to(_time(moment.get("at", ""), run.end))
        return run

    def frame(self, moment: Moment) -> dict[str, Any]:
        """Return the frame of a moment, in the form of the stream of a live cluster."""
        run = self._run(moment)
        at = _time(moment.get("at", ""), run.end)
        since = moment.get("since", "")
        return run.frame(at, _time(since, at) if since else None)

    def outline(self) -> dict[str, Any]:
        return {"runs": [run.outline() for run in self._runs.values()], **self._facts}

    def _run(self, moment: Moment) -> Timeline:
        name = moment.get("run", "")
        if not name:
            return next(iter(self._runs.values()))
        if name not in self._runs:
            raise BadRequestError(f"no run named {name!r}", 404)
        return self._runs[name]


def _running_totals(decided: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, int]]:
    """Yield the totals before the first decision, and after each one."""
    totals = {"placed": 0, "failed": 0, "preempted": 0}
    yield dict(totals)
    names = {"placed": "placed", "unschedulable": "failed", "preempted": "preempted"}
    for each in decided:
        if (name := names.get(each["what"])) is not None:
            totals[name] += 1
        yield dict(totals)


def _time(text: str, default: int) -> int:
    if not text:
        return default
    try:
        return int(float(text))
    except (ValueError, OverflowError) as error:
        raise BadRequestError(f"invalid time: {text!r}") from error


def _nodes_of(change: TimelineChange) -> Iterable[str]:
    """Yield the nodes whose rows a change affects."""
    for each in (change.before, change.after):
        if isinstance(each, Node):
            yield each.metadata.name
        elif isinstance(each, Pod) and each.spec.node_name:
            yield each.spec.node_name


def key_of(each: Any) -> Key:
    """Return the key of an object: its type, namespace and name."""
    return type(each), each.metadata.namespace, each.metadata.name
