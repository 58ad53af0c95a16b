"""`kubesched simulate`: options and help."""

from __future__ import annotations

from pathlib import Path

import click

from kubesched.cli.schema_option import schema_option
from kubesched.cli.shared_options import run_plugins_option

__all__ = ["simulate"]


@click.command(
    short_help="Run a scenario in virtual time and compare configurations.",
    epilog="Example: kubesched simulate scenario.yaml -o report.html",
)
@click.argument("scenario_file", required=False, metavar="[SCENARIO]", type=click.Path())
@click.option(
    "-o",
    "--output",
    "outputs",
    multiple=True,
    metavar="json|FILE",
    help="json prints results; a file may end in .html, .json or .parquet, or in .history for "
    "`kubesched dashboard --report`; may be repeated.",
)
@click.option("--seeds", default="", metavar="1-10", help="Seeds; default: those of the scenario.")
@click.option(
    "--configuration",
    "names",
    multiple=True,
    help="Only this configuration of the scenario; may be repeated.",
)
@click.option(
    "--processes",
    type=click.IntRange(1),
    default=None,
    help="The number of parallel runs; default: the number of processors.",
)
@click.option(
    "--dask", default="", metavar="ADDRESS", help="Run on the Dask cluster at this address."
)
@click.option(
    "--runs",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Folder of finished runs, from which a sweep resumes; default: SCENARIO.runs.",
)
@click.option("--fresh", is_flag=True, help="Repeat all runs.")
@click.option(
    "--verify",
    is_flag=True,
    help="First repeat one run in two processes and compare the results.",
)
@click.option(
    "--diff",
    nargs=2,
    type=click.Path(),
    default=None,
    metavar="A.yaml B.yaml",
    help="Find the first decision in which two scenarios differ.",
)
@click.option(
    "--from",
    "recording",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    default=None,
    metavar="DIR",
    help="Instead of a SCENARIO: the pods and the cluster of a folder of `kubesched run --record`.",
)
@click.option(
    "--config",
    "configurations",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="With --from: a configuration to run, besides the recorded one; may be repeated.",
)
@run_plugins_option
@schema_option("scenario")
def simulate(
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
    recording: Path | None,
    configurations: tuple[Path, ...],
    run_plugins: bool,
) -> None:
    """Run a SCENARIO in virtual time and compare its configurations.

    The scenario is documented in docs/simulate.md. Finished runs are stored: after Ctrl-C the
    same command resumes with the rest. Exit codes: 0 done, 1 a run failed, 2 the scenario
    cannot be used, 130 interrupted.
    """
    if recording is not None:
        if scenario_file is not None or diff is not None:
            raise click.UsageError("choose one of SCENARIO, --diff and --from")
        from kubesched.cli.recorded_scenario import write_recorded_scenario

        scenario_file = str(write_recorded_scenario(recording, configurations))
    elif configurations:
        raise click.UsageError("--config needs --from")
    from kubesched.cli.simulate_action import run_simulate

    run_simulate(
        scenario_file,
        outputs,
        seeds,
        names,
        processes,
        dask,
        runs,
        fresh,
        verify,
        diff,
        run_plugins,
    )
