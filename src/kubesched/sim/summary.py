"""The results as text for a terminal: a table of configurations, and their differences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kubesched.sim.compare import TIMES, Comparison, compare, is_time, measures_of
from kubesched.sim.results import RunResult
from kubesched.sim.values import format_duration

__all__ = ["comparisons_of", "summary_text"]

_NO_VALUE = "-"  # such as the time to bind if no pod was bound


def comparisons_of(results: Sequence[RunResult]) -> list[Comparison]:
    """Compare every other configuration with the first."""
    names = list(dict.fromkeys(each.configuration for each in results))
    found = [compare(results, names[0], other) for other in names[1:]]
    return [each for each in found if each.seeds]


def summary_text(results: Sequence[RunResult]) -> str:
    """Return a table with a column for each configuration; numbers are means over seeds."""
    if not results:
        return "no run is finished"
    names = list(dict.fromkeys(each.configuration for each in results))
    by_name = {
        name: [measures_of(each) for each in results if each.configuration == name]
        for name in names
    }
    measured = (key for runs in by_name.values() for run in runs for key in run)
    measures = list(dict.fromkeys((*TIMES, *measured)))
    width = max(map(len, measures))
    lines = [
        _heading(results),
        "",
        " " * width + "".join(f"  {name:>14}" for name in names),
    ]
    for measure in measures:
        cells = [_mean_cell(measure, by_name[name]) for name in names]
        lines.append(f"{measure:<{width}}" + "".join(f"  {cell:>14}" for cell in cells))
    lines += ["", *_pending(results)]
    lines += [each.sentence() for each in comparisons_of(results)]
    lines += ["", *_digests(results)]
    return "\n".join(_without_double_blanks(lines))


def _heading(results: Sequence[RunResult]) -> str:
    first = results[0]
    seeds = {each.seed for each in results}
    return (
        f"{first.scenario}: {format_duration(round(first.virtual_s * 1e9))} of virtual time, "
        f"{_many(len(results), 'run')}, {_many(len(seeds), 'seed')}"
    )


def _many(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def _mean_cell(measure: str, runs: Sequence[Mapping[str, float]]) -> str:
    values = [run[measure] for run in runs if measure in run]
    return _cell(measure, sum(values) / len(values)) if values else _NO_VALUE


def _cell(measure: str, value: float) -> str:
    if is_time(measure):
        return format_duration(round(value * 1e9))
    if measure.endswith(("allocated", "used", "stranded", "fragmented", "imbalance")):
        return f"{100 * value:.1f} %"
    return f"{value:,.1f}".removesuffix(".0")


def _pending(results: Sequence[RunResult]) -> list[str]:
    lines = []
    for name in dict.fromkeys(each.configuration for each in results):
        mine = [each for each in results if each.configuration == name]
        lines.append(_most_waiting(max(mine, key=lambda each: max(each.series["pending"]))))
    lines = list(filter(None, lines))
    for each in results:
        for reason, count in each.pending.items():
            lines.append(f"{each.configuration}, seed {each.seed}: {count} pending, {reason}")
    return lines[:10]


def _most_waiting(result: RunResult) -> str:
    """Return the sample with the most waiting pods, and their reasons."""
    waiting = result.series.get("pending", [])
    most = max(waiting, default=0.0)
    if not most:
        return ""
    place = waiting.index(most)
    reasons = [
        f"{values[place]:.0f} {name.removeprefix('pending: ')}"
        for name, values in result.series.items()
        if name.startswith("pending: ") and values[place]
    ]
    when = format_duration(round(result.series["time"][place] * 1e9))
    return (
        f"{result.configuration}, seed {result.seed}: "
        f"most pods waited after {when}: {most:.0f} ({', '.join(reasons)})"
    )


def _digests(results: Sequence[RunResult]) -> list[str]:
    shown = [
        f"digest {each.digest}  {each.configuration}, seed {each.seed}, "
        f"{each.seconds:.1f} s, {each.speedup:,.0f} x real time"
        for each in results[:20]
    ]
    if len(results) > 20:
        shown.append(f"and {len(results) - 20} more")
    return shown


def _without_double_blanks(lines: list[str]) -> list[str]:
    return [line for place, line in enumerate(lines) if line or (place and lines[place - 1])]
