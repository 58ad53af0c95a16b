"""Action of `kubesched simulate`: run a scenario, compare its configurations, write results."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import msgspec

from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.util.collector import settle_collector
from kubesched.sim.divergence import Divergence, Side, first_divergence
from kubesched.sim.export import check_target, results_json, write_results
from kubesched.sim.history import write_history
from kubesched.sim.results import RunResult
from kubesched.sim.scenario import Scenario
from kubesched.sim.scenario_file import load_scenario
from kubesched.sim.summary import comparisons_of, summary_text
from kubesched.sim.sweep import InterruptedSweepError, RunFiles, sweep, tasks_of, verify_repeats

__all__ = ["run_simulate"]


def run_simulate(
    scenario_file: str | None,
    outputs: tuple[str, ...],
    seeds: str,
    names: tuple[str, ...],
    processes: int | None,
    dask: str,
    runs: Path | None,
    fresh: bool,
    verify: bool,
    diff: tuple[str, str] | None,
    run_plugins: bool,
) -> None:
    settle_collector()
    if diff is not None:
        sides = [load_scenario(each, run_plugins=run_plugins) for each in diff]
        _diff(sides[0], sides[1], outputs)
        return
    if scenario_file is None:
        raise click.UsageError("name a scenario, or two with --diff")
    for output in outputs:
        if output != "json":
            check_target(Path(output))
    scenario = narrowed(load_scenario(scenario_file, run_plugins=run_plugins), seeds, names)
    files = None
    if len(tasks_of(scenario)) > 1 or runs is not None:
        files = RunFiles(runs or Path(f"{scenario_file}.runs"), scenario)
        if fresh:
            files.delete(tasks_of(scenario))
    if verify:
        first, again = verify_repeats(scenario)
        if first != again:
            error = KubeschedError(f"a run does not repeat: digest {first}, then {again}")
            error.add_note(
                "a plugin that looks at the clock, at chance or at sets is the usual cause"
            )
            raise error
    shown = _Progress(len(tasks_of(scenario)))
    try:
        results = sweep(
            scenario,
            processes=processes or os.cpu_count() or 1,
            files=files,
            dask=dask,
            progress=shown,
        )
    except InterruptedSweepError as interrupt:
        shown.end()
        _report(interrupt.finished, outputs, scenario)
        click.echo(f"kubesched: {interrupt}; run the same command to go on", err=True)
        sys.exit(130)
    shown.end()
    _report(results, outputs, scenario)


def narrowed(scenario: Scenario, seeds: str, names: tuple[str, ...]) -> Scenario:
    """Return the scenario with these seeds and only these configurations."""
    if seeds:
        scenario = msgspec.structs.replace(scenario, seeds=_parse_seeds(seeds))
    if names:
        known = [each.name for each in scenario.configurations]
        for name in names:
            if name not in known:
                raise ConfigError(f"no configuration {name!r}; there are {', '.join(known)}")
        chosen = tuple(each for each in scenario.configurations if each.name in names)
        scenario = msgspec.structs.replace(scenario, configurations=chosen)
    return scenario


def _parse_seeds(text: str) -> tuple[int, ...]:
    found: list[int] = []
    try:
        for part in text.split(","):
            first, _, last = part.partition("-")
            found.extend(range(int(first), int(last or first) + 1))
    except ValueError as error:
        raise ConfigError(f"--seeds: {text!r} is not like 7, 1-10 or 1,3,5") from error
    return tuple(found)


def _report(results: list[RunResult], outputs: tuple[str, ...], scenario: Scenario) -> None:
    divergence = None
    if any(output.endswith(".html") for output in outputs):
        divergence = _between_configurations(results, scenario)
    failure: KubeschedError | None = None
    for output in outputs:
        try:
            if output == "json":
                click.echo(results_json(results).decode())
                continue
            if output.endswith(".history"):
                write_history(scenario, results, Path(output))
            else:
                write_results(results, comparisons_of(results), Path(output), divergence)
            click.echo(f"wrote {output}", err=True)
        except KubeschedError as error:
            failure = failure or error  # write the other outputs first
    if "json" not in outputs:
        click.echo(summary_text(results))
    if failure is not None:
        raise failure


def _between_configurations(results: list[RunResult], scenario: Scenario) -> Divergence | None:
    """Find where the first two configurations diverge, with the first seed."""
    if len(scenario.configurations) < 2:
        return None
    seed = scenario.seeds[0]
    pair = [
        next((r for r in results if r.configuration == each.name and r.seed == seed), None)
        for each in scenario.configurations[:2]
    ]
    first, second = pair
    if first is None or second is None:
        return None
    sides = [Side(scenario, each, seed) for each in scenario.configurations[:2]]
    return first_divergence(sides[0], sides[1], (first, second))


def _diff(first: Scenario, second: Scenario, outputs: tuple[str, ...]) -> None:
    one = Side(first, first.configurations[0], first.seeds[0])
    other = Side(second, second.configurations[0], second.seeds[0])
    if one.label == other.label:
        other_configuration = msgspec.structs.replace(
            other.configuration, name=f"{other.label} of {second.name}"
        )
        other = msgspec.structs.replace(other, configuration=other_configuration)
    found = first_divergence(one, other)
    if "json" in outputs:
        click.echo(msgspec.json.encode({"divergence": found}).decode())
        return
    if found is None:
        click.echo("no difference: every decision is the same")
        return
    click.echo(found.sentence())
    for line in found.because:
        click.echo(f"  {line}")


class _Progress:
    """A progress bar; shows nothing if standard error is not a terminal."""

    def __init__(self, total: int) -> None:
        self._is_shown = total > 1 and sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        if self._is_shown:
            filled = 30 * done // total
            bar = "#" * filled + "." * (30 - filled)
            click.echo(f"\r[{bar}] {done}/{total} runs", nl=False, err=True)

    def end(self) -> None:
        if self._is_shown:
            click.echo("", err=True)
