"""`kubesched tune`: options and help."""

from __future__ import annotations

import click

from kubesched.cli.schema_option import schema_option

__all__ = ["tune"]


@click.command(
    short_help="Search over weights, strategies and thresholds for an objective.",
    epilog="Example: kubesched tune tuning.yaml",
)
@click.argument("file", metavar="TUNING")
@click.option(
    "--trials",
    type=click.IntRange(1),
    default=None,
    help="The number of trials; default: that of the file.",
)
@click.option(
    "--processes", type=click.IntRange(1), default=None, help="The number of parallel runs."
)
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@schema_option("tuning")
def tune(file: str, trials: int | None, processes: int | None, output: str) -> None:
    """Try configurations on the scenario of TUNING, and report the Pareto front.

    With several objectives no single configuration is the best. The Pareto front has the
    configurations that no other one beats in all objectives. docs/simulate.md documents the
    file. The command needs the extra `tune`.
    """
    from kubesched.cli.tune_action import run_tune

    run_tune(file, trials, processes, output)
