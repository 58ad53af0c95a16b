"""Action of `kubesched replay`: replay a flight recording, and show the first difference."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
import msgspec

from kubesched.explain.recordings.decision_replay import ReplayResult, replay_recording
from kubesched.scheduler.runtime.plugin_loading import out_of_tree_plugins

__all__ = ["recorded_plugins", "run_replay"]

_SHOWN_EVERY = 5000


def recorded_plugins(plugins: tuple[str, ...]) -> dict[str, Any]:
    """Return the option with plugins that replace the recorded ones; empty without any."""
    return {"plugins": out_of_tree_plugins(plugins)} if plugins else {}


def run_replay(folder: Path, plugins: tuple[str, ...], output: str) -> None:
    def progress(decisions: int) -> None:
        if decisions % _SHOWN_EVERY == 0 and sys.stderr.isatty():
            click.echo(f"\r{decisions} decisions", nl=False, err=True)

    result = replay_recording(folder, progress, **recorded_plugins(plugins))
    if output == "json":
        click.echo(msgspec.json.format(msgspec.json.encode(result), indent=2))
    else:
        _show(result)
    if result.difference is not None:
        click.get_current_context().exit(1)


def _show(result: ReplayResult) -> None:
    for damage in result.damages:
        click.echo(f"{damage}; read up to there", err=True)
    if result.left_out:
        click.echo(
            f"{result.left_out} attempts left out: errors, and attempts with extenders", err=True
        )
    difference = result.difference
    if difference is None:
        click.echo(f"{result.decisions} decisions replayed, all the same")
        return
    click.echo(f"{result.decisions} decisions replayed; the next one differs:")
    click.echo(f"  {difference.at}  {difference.pod}")
    click.echo(f"  recorded: {difference.recorded}")
    click.echo(f"  replayed: {difference.replayed}")
