"""The reference's own benchmark workloads, on this scheduler.

    python -m benchmarks.scheduler_perf --workloads DIR [--family misc] [--name Basic]

The files are not ours and not in this repository: DIR is test/integration/scheduler_perf of a
checkout of kubernetes v1.36. Runs them unmodified, in process, on the embedded store. Prints one
JSON line per workload: pods/s over all and percentiles of 1-second samples, how long pods waited
for a node and how long attempts took, and the file's threshold (pods/s that the reference must
reach on its own test machines) with our ratio to it. A workload that needs what is not there is
reported as skipped, with what is missing.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from benchmarks.charts import Bar, bar_chart
from benchmarks.measuring import say, write_line
from benchmarks.scheduler_perf.files import (
    WorkloadFileError,
    find_files,
    read_workloads,
    wanted,
)
from benchmarks.scheduler_perf.runner import run_workload


@click.command(help=__doc__)
@click.option(
    "--workloads",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    required=True,
    envvar="KUBESCHED_WORKLOADS",
    help="Folder with the workload files, or KUBESCHED_WORKLOADS.",
)
@click.option("--family", default="", help="Folder with workload files, such as affinity.")
@click.option("--name", default="", help="Only family/workload names that match (a regex).")
@click.option(
    "--labels",
    default="performance",
    show_default=True,
    help="Only workloads with all of these, by comma; -label excludes. Empty: all.",
)
@click.option("--scale", default=1.0, show_default=True, help="Multiplies counts, for quick runs.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds that a wait may take.")
@click.option("--list", "only_list", is_flag=True, help="Name the workloads, run none.")
@click.option("--plot", type=click.Path(dir_okay=False, path_type=Path), help="Chart (SVG).")
def main(
    workloads: Path,
    family: str,
    name: str,
    labels: str,
    scale: float,
    timeout: float,
    only_list: bool,
    plot: Path | None,
) -> None:
    lines: list[dict[str, Any]] = []
    try:
        chosen = [
            workload
            for file in find_files(workloads, family)
            for workload in read_workloads(file, scale)
            if wanted(workload, labels, name)
        ]
    except WorkloadFileError as error:
        raise click.ClickException(str(error)) from error
    for workload in chosen:
        if only_list:
            click.echo(workload.full_name)
            continue
        say(f"{workload.full_name} ...")
        for line in run_workload(workload, timeout):
            line |= {} if scale == 1 else {"scale": scale}
            write_line(line)
            lines.append(line)
    if plot is not None:
        plot.write_text(_chart(lines))


def _chart(lines: list[dict[str, Any]]) -> str:
    bars = [
        Bar(line["workload"], line["pods_per_s"], line["threshold"])
        for line in lines
        if line["status"] == "ok"
    ]
    return bar_chart("scheduler_perf: pods/s", bars, mark_name="the reference's threshold")


if __name__ == "__main__":
    main()
