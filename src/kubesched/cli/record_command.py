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
    short_help="Write the pods of a live cluster, as they come and go, to a trace.",
    epilog="Example: kubesched record -o monday.jsonl --for 24h",
)
@click.option(
    "-o",
    "--out",
    "path",
    required=True,
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="JSON lines; docs/simulate.md has the form. An existing file is replaced once the "
    "cluster answers.",
)
@click.option(
    "--for", "duration", default="", metavar="24h", help="How long; default: until Ctrl-C."
)
@cluster_options
@click.option("--json", "as_json", is_flag=True, help="Say what was written as JSON.")
def record(path: Path, duration: str, address: ClusterAddress, as_json: bool) -> None:
    """Follow the pods of a cluster and write what a simulation needs of them.

    Only reading is asked of the cluster. Every line is written at once, so that what was recorded
    until Ctrl-C can be used.
    """
    from kubesched.cli.record_action import run_record

    run_record(path, duration, address, as_json)
