"""Action of `kubesched tune`: search for configurations that do well on a scenario."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import msgspec

from kubesched.errors import KubeschedError
from kubesched.scheduler.config.yaml_output import dump_yaml
from kubesched.sim.tuning import Tuning, TuningTrial, best_trial, document_of, load_tuning
from kubesched.sim.tuning import tune as search

__all__ = ["run_tune"]


def run_tune(
    file: str, trials: int | None, processes: int | None, output: str, run_plugins: bool
) -> None:
    tuning = load_tuning(file, run_plugins=run_plugins)
    if trials is not None:
        tuning = msgspec.structs.replace(tuning, trials=trials)

    def progress(done: int, total: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{done}/{total} trials", nl=done == total, err=True)

    found = search(tuning, processes=processes or os.cpu_count() or 1, progress=progress)
    if output == "json":
        click.echo(msgspec.json.encode(found).decode())
        return
    click.echo(_text(tuning, found))
    if output != "text":
        best = best_trial(tuning, found)
        try:
            Path(output).write_text(dump_yaml(document_of(tuning, best.parameters)))
        except OSError as error:
            raise KubeschedError(f"{output}: cannot be written: {error.strerror}") from error
        click.echo(f"\nwrote the configuration of trial {best.number} to {output}", err=True)


def _text(tuning: Tuning, trials: list[TuningTrial]) -> str:
    front = [each for each in trials if each.is_on_front]
    first = tuning.objectives[0]
    front.sort(key=lambda each: each.values[first.measure] * (1 if first.minimize else -1))
    lines = [f"{len(trials)} trials, {len(front)} on the front"]
    seen: list[dict[str, object]] = []
    for each in front:
        if each.parameters in seen:
            continue
        seen.append(each.parameters)
        values = ", ".join(f"{name} {value:.6g}" for name, value in each.values.items())
        lines.append(f"\ntrial {each.number}: {values}")
        lines += [f"  {path}: {value}" for path, value in each.parameters.items()]
    return "\n".join(lines)
