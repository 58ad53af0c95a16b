"""`kubesched tune`: options and help."""

from __future__ import annotations

import click

from kubesched.cli.schema_option import schema_option
from kubesched.cli.shared_options import run_plugins_option

__all__ = ["tune"]


@click.command(
    short_help="Search over weights, strategies and thresholds for an objective.",
    epilog="Example: kubesched tune tuning.yaml -o best.yaml",
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
@click.option(
    "-o",
    "--output",
    default="text",
    show_default=True,
    metavar="text|json|FILE.yaml",
    help="Form of the answer on standard output; or a file to which the best configuration by the "
    "first objective is written.",
)
@run_plugins_option
@schema_option("tuning")
def tune(
    file: str, trials: int | None, processes: int | None, output: str, run_plugins: bool
) -> None:
    """Try configurations on the scenario of TUNING, and report the Pareto front.

    With several objectives no single configuration is the best. The Pareto front has the
    configurations that no other one beats in all objectives. docs/simulate.md documents the
    file. The command needs the extra `tune`.
    """
    if output not in ("text", "json") and not output.endswith((".yaml", ".yml")):
        raise click.BadParameter(f"{output!r} is not text, json or FILE.yaml", param_hint="-o")
    from kubesched.cli.tune_action import run_tune

    run_tune(file, trials, processes, output, run_plugins)
