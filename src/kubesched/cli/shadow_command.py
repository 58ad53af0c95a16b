"""`kubesched shadow`: options and help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.cli.shared_options import cluster_options, output_option, scheduler_options

if TYPE_CHECKING:
    from kubesched.cli.cluster_address import ClusterAddress
    from kubesched.cli.running_scheduler import RunningScheduler

__all__ = ["shadow"]


@click.group(
    short_help="Show how `kubesched run --shadow` compares.",
    epilog="Example: kubesched shadow report --scheduler https://localhost:10259",
)
def shadow() -> None:
    """Show the ledger of a shadow, which compares and places no pods."""


@shadow.command(
    "report",
    epilog="Example: kubesched shadow report ledger.json -o html > report.html",
)
@click.argument(
    "ledger",
    metavar="[LEDGER]",
    required=False,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
)
@click.option(
    "--from",
    "recording",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder of `kubesched run --record`: compare with the recorded decisions.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="With --from: the configuration to compare; default: the recorded one.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="PLUGIN",
    help="With --from: a plugin; default: the recorded ones that are installed.",
)
@cluster_options
@scheduler_options
@click.option(
    "--most", default=20, show_default=True, type=click.IntRange(0), help="Differences to show."
)
@output_option("report", forms=("text", "json", "html"))
def report(
    ledger: Path | None,
    recording: Path | None,
    config_file: Path | None,
    plugins: tuple[str, ...],
    address: ClusterAddress,  # noqa: ARG001  for the options of the scheduler
    scheduler: RunningScheduler | None,
    most: int,
    output: str,
) -> None:
    """Report where the decisions of another scheduler and of the shadow differ, and why.

    The ledger comes from a running shadow (--scheduler), from the file of
    `kubesched run --shadow --shadow-ledger FILE`, or from a flight recording (--from): then the
    configuration of --config decides for each pod in the recorded state.
    """
    if recording is None and (config_file is not None or plugins):
        raise click.UsageError("--config and --plugin need --from")
    from kubesched.cli.shadow_action import run_recorded_report, run_shadow_report

    if recording is not None:
        if ledger is not None or scheduler is not None:
            raise click.UsageError("choose one of LEDGER, --scheduler and --from")
        run_recorded_report(recording, config_file, plugins, most, output)
        return
    run_shadow_report(ledger, scheduler, most, output)
