"""Timelines of the runs of a simulation: histories with all pods, or results without."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from kubesched.dashboard.timeline import Timeline, TimelineChange, Timelines
from kubesched.errors import ConfigError
from kubesched.scheduler.config.load import configuration_from_builtins
from kubesched.scheduler.config.types import KubeSchedulerConfiguration
from kubesched.sim.history import read_history
from kubesched.sim.results import RunResult
from kubesched.sim.summary import comparisons_of

__all__ = ["timelines_of_report"]


class _FinishedRun(msgspec.Struct):
    """A finished run, as a sweep stores it."""

    result: RunResult


def timelines_of_report(path: Path) -> tuple[str, Timelines]:
    """Read a report of `kubesched simulate`: a title, and a timeline for each run.

    Raises:
        ConfigError: it is neither a history nor results, nor a folder of finished runs.
    """
    if path.is_dir():
        results = [result for file in sorted(path.glob("*.json")) for result in _results(file)]
        if not results:
            raise ConfigError(f"{path}: there is no finished run in this folder")
        return _of_results(results)
    if path.suffix == ".json":
        return _of_results(_results(path))
    runs = read_history(path)
    timelines = [
        Timeline(
            run.result.configuration,
            [TimelineChange(*change) for change in run.changes],
            start=run.start_ms,
            end=run.start_ms + round(run.result.virtual_s * 1000),
            series=run.result.series,
            configuration=_configuration(run.configuration),
        )
        for run in runs
    ]
    results = [run.result for run in runs]
    return results[0].scenario, Timelines(timelines, _facts(results, has_objects=True))


def _of_results(results: Sequence[RunResult]) -> tuple[str, Timelines]:
    names = [each.configuration for each in results]
    timelines = [
        Timeline(
            name if names.count(name) == 1 else f"{name}, seed {result.seed}",
            [],
            start=0,
            end=round(result.virtual_s * 1000),
            series=result.series,
        )
        for name, result in zip(names, results, strict=True)
    ]
    return results[0].scenario, Timelines(timelines, _facts(results, has_objects=False))


def _facts(results: Sequence[RunResult], *, has_objects: bool) -> dict[str, Any]:
    return {
        "isReport": True,
        "hasObjects": has_objects,
        "comparisons": [each.sentence() for each in comparisons_of(list(results))],
        "summaries": [
            {
                "configuration": each.configuration,
                "seed": each.seed,
                "counts": each.counts,
                "pending": each.pending,
                "timeToBind": each.time_to_bind.get("all", {}),
                "averages": each.averages,
            }
            for each in results
        ],
    }


def _configuration(document: Any) -> KubeSchedulerConfiguration | None:
    return None if document is None else configuration_from_builtins(document)


def _results(path: Path) -> list[RunResult]:
    try:
        raw = path.read_bytes()
        if raw.lstrip()[:1] == b"[":
            return msgspec.json.decode(raw, type=list[RunResult])
        return [msgspec.json.decode(raw, type=_FinishedRun).result]
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}: not results of a simulation: {error}") from error
