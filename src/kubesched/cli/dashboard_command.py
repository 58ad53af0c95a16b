"""`kubesched dashboard`: options and help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.cli.shared_options import ListenAddress, cluster_options

if TYPE_CHECKING:
    from kubesched.cli.cluster_address import ClusterAddress
    from kubesched.cluster.embedded_cluster import Listen

__all__ = ["dashboard"]


@click.command(
    short_help="Show a cluster, a capture or a simulation as a page.",
    epilog="Example: kubesched dashboard --capture cluster.capture",
)
@cluster_options
@click.option(
    "--capture",
    "captures",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="What `kubesched capture` wrote, instead of a live cluster; repeat it for several "
    "moments of one cluster.",
)
@click.option(
    "--report",
    type=click.Path(exists=True, path_type=Path),
    metavar="RUN",
    help="What `kubesched simulate -o run.history` wrote; its .json or folder of runs shows "
    "numbers over time without nodes and pods.",
)
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE", help="A dump; may be repeated."
)
@click.option(
    "--listen",
    type=ListenAddress(),
    metavar="HOST:PORT",
    help="Where to serve the page; default 127.0.0.1 and a free port.",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Shown if you may not read all namespaces; default: that of the context.",
)
@click.option(
    "--public-url",
    default="",
    metavar="URL",
    help="The address by which a reverse proxy serves this one, with its path.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="Form of the link on standard output.",
)
def dashboard(
    address: ClusterAddress,
    captures: tuple[Path, ...],
    report: Path | None,
    files: tuple[str, ...],
    listen: Listen | None,
    namespace: str,
    public_url: str,
    output: str,
) -> None:
    """Serve the page until Ctrl-C. Nothing is ever written to the cluster.

    The page shows what your own rights allow; kinds that you may not read are named and left out.
    """
    from kubesched.cli.dashboard_action import run_dashboard

    run_dashboard(address, captures, report, files, listen, namespace, public_url, output)
