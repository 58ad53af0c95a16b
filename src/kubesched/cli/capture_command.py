"""`kubesched capture`: options and help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.cli.shared_options import cluster_options, scheduler_options

if TYPE_CHECKING:
    from kubesched.cli.cluster_address import ClusterAddress
    from kubesched.cli.running_scheduler import RunningScheduler

__all__ = ["capture"]


@click.command(
    short_help="Write the scheduling state of a cluster to one file.",
    epilog="Example: kubesched capture --out cluster.capture --anonymize",
)
@click.option(
    "--out",
    "-o",
    "path",
    required=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="The file to write. An existing file is replaced when the new one is complete.",
)
@click.option(
    "--anonymize", is_flag=True, help="Replace the words of names, labels, images and the like."
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="Read a dump instead of a live cluster; may be repeated.",
)
@cluster_options
@scheduler_options
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The scheduler's KubeSchedulerConfiguration; it is stored in the capture.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def capture(
    path: Path,
    anonymize: bool,
    files: tuple[str, ...],
    address: ClusterAddress,
    scheduler: RunningScheduler | None,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Write nodes, pods, claims, volumes, budgets and the like to one compressed file.

    The command only reads from the cluster. The file has the fields that scheduling reads, and
    nothing else; docs/explain.md lists what is left out. Only you can read it. With --scheduler
    it has the configuration and the queue of that scheduler as well.
    """
    from kubesched.cli.capture_action import run_capture

    run_capture(path, anonymize, files, address, scheduler, config_file, as_json)
