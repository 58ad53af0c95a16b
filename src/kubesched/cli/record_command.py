"""`kubesched record`: the pods of a live cluster as a trace, to be simulated later."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.cli.shared_options import cluster_options

if TYPE_CHECKING:
    from kubesched.cli.cluster_address import ClusterAddress

__all__ = ["record"]


@click.command(
    short_help="Record the pods of a live cluster as a trace for simulation.",
    epilog="Example: kubesched record -o monday.jsonl --for 24h",
)
@click.option(
    "-o",
    "--out",
    "path",
    required=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="The file to write: JSON lines (docs/simulate.md). An existing file is replaced when the "
    "cluster responds.",
)
@click.option(
    "--for", "duration", default="", metavar="24h", help="Duration; default: until Ctrl-C."
)
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Print a summary as JSON.")
def record(path: Path, duration: str, address: ClusterAddress, as_json: bool) -> None:
    """Watch the pods of a cluster and record the fields that a simulation needs.

    The command only reads from the cluster. Every line is written at once, so that the file is
    complete after Ctrl-C.
    """
    from kubesched.cli.record_action import run_record

    run_record(path, duration, address, as_json)
