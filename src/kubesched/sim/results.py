"""The result of a run: values that are printed, stored as JSON, compared and plotted."""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.sim.histogram import Histogram
from kubesched.sim.observer import Observer
from kubesched.sim.sampling import Series
from kubesched.sim.scenario import Scenario

__all__ = ["RunResult", "averages"]

_CUMULATED = ("time", "bound", "preempted", "evicted", "failed", "cost", "groups placed")


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of one run. All fields but the last two are deterministic."""

    scenario: str
    scenario_hash: str
    configuration: str
    seed: int
    digest: str
    start_ns: int
    virtual_s: float
    counts: dict[str, int]
    pending: dict[str, int]  # at the end, by reason
    reasons: dict[str, int]  # of failed attempts
    time_to_bind: dict[str, Any]  # by workload, and `all`
    time_to_run: dict[str, Any]
    by_priority: dict[str, Any]
    time_to_place: dict[str, Any] = {}  # of pod groups; empty without any
    averages: dict[str, float]  # of each column, weighted by time
    series: dict[str, list[float]]
    step_digests: list[str]
    changes: dict[str, list[float]]
    seconds: float  # of processor time
    decisions_per_second: float

    @classmethod
    def of(
        cls,
        scenario: Scenario,
        configuration: str,
        seed: int,
        observer: Observer,
        series: Series,
        changes: Series,
        until_ns: int,
        seconds: float,
    ) -> RunResult:
        decided = observer.counts["bound"] + observer.counts["failed attempts"]
        return cls(
            scenario=scenario.name,
            scenario_hash=scenario.hash,
            configuration=configuration,
            seed=seed,
            digest=observer.digest,
            start_ns=scenario.start_ns,
            virtual_s=until_ns / 1e9,
            counts=dict(sorted(observer.counts.items())),
            pending=observer.pending_reasons(),
            reasons=dict(sorted(observer.reasons_met.items())),
            time_to_bind=_by(observer.to_bind, 0),
            time_to_run=_by(observer.to_run, 0),
            by_priority={"bind": _by(observer.to_bind, 1), "run": _by(observer.to_run, 1)},
            time_to_place=_of_groups(observer),
            averages=averages(series.columns),
            series=series.columns,
            step_digests=series.digests,
            changes=changes.columns if len(changes) else {},
            seconds=round(seconds, 3),
            decisions_per_second=round(decided / seconds, 1) if seconds > 0 else 0.0,
        )

    @property
    def speedup(self) -> float:
        """Virtual seconds for each second of processor time."""
        return self.virtual_s / max(self.seconds, 1e-9)


def averages(columns: dict[str, list[float]]) -> dict[str, float]:
    """Return the time-weighted mean of every column; of a cumulative one the last value."""
    times = columns["time"]
    found: dict[str, float] = {}
    for name, values in columns.items():
        if name == "time" or not values:
            continue
        if name in _CUMULATED:
            found[name] = values[-1]
            continue
        spans = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
        total = sum(spans)
        weighted = sum(value * span for value, span in zip(values, spans, strict=True))
        found[name] = round(weighted / total, 6) if total else values[-1]
    return found


def _of_groups(observer: Observer) -> dict[str, Any]:
    groups = observer.groups
    return {**groups.to_place.summary(), "waiting": groups.waiting} if groups.is_used else {}


def _by(table: dict[tuple[str, int], Histogram], place: int) -> dict[str, Any]:
    """Return summaries by workload (place 0) or priority (place 1), and of all pods."""
    groups: dict[str, Histogram] = {"all": Histogram()}
    for key in sorted(table):
        for name in ("all", str(key[place])):
            groups.setdefault(name, Histogram()).merge(table[key])
    return {name: dict(each.summary()) for name, each in groups.items()}
