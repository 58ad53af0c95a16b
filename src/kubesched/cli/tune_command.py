"""`kubesched tune`: options and help."""

from __future__ import annotations

import click

__all__ = ["tune"]


@click.command(
    short_help="Search over weights, strategies and thresholds for an objective.",
    epilog="Example: kubesched tune tuning.yaml",
)
@click.argument("file", metavar="TUNING")
@click.option("--trials", type=click.IntRange(1), default=None, help="Instead of the file's.")
@click.option("--processes", type=click.IntRange(1), default=None, help="Runs at the same time.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def tune(file: str, trials: int | None, processes: int | None, output: str) -> None:
    """Try configurations on the scenario that TUNING names, and report the front.

    With several objectives no single configuration is the best: the front is those that no other
    beats in all of them. docs/simulate.md documents the file. Needs the extra `tune`.
    """
    from kubesched.cli.tune_action import run_tune

    run_tune(file, trials, processes, output)
