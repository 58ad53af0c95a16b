"""`kubesched dashboard`: options and help."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kubesched.cli.shared_options import ListenAddress, cluster_options, output_option

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
    help="A file of `kubesched capture` instead of a live cluster; repeat it for several "
    "moments of one cluster.",
)
@click.option(
    "--recorded",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="A folder of `kubesched run --record`, with a slider for the time.",
)
@click.option(
    "--report",
    type=click.Path(exists=True, path_type=Path),
    metavar="RUN",
    help="A file of `kubesched simulate -o run.history`; a .json file or folder of runs shows "
    "numbers over time without nodes and pods.",
)
@click.option(
    "-f", "--filename", "files", multiple=True, metavar="FILE", help="A dump; may be repeated."
)
@click.option(
    "--plan",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Play the waves of a file of `kubesched plan consolidate -o json`, on the capture or "
    "dump that the plan was made from.",
)
@click.option(
    "--listen",
    type=ListenAddress(),
    metavar="HOST:PORT",
    help="Address of the page; default: 127.0.0.1 and a free port.",
)
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="The namespace to show if you may not read all; default: that of the context.",
)
@click.option(
    "--public-url",
    default="",
    metavar="URL",
    help="The public address of the page, with its path, behind a reverse proxy.",
)
@output_option("link")
def dashboard(
    address: ClusterAddress,
    captures: tuple[Path, ...],
    recorded: Path | None,
    report: Path | None,
    files: tuple[str, ...],
    plan: Path | None,
    listen: Listen | None,
    namespace: str,
    public_url: str,
    output: str,
) -> None:
    """Serve the page until Ctrl-C. The command never writes to the cluster.

    The page shows what your own rights allow; kinds that you may not read are named and left out.

    With --name alone the command prints a new link to the page that the cluster itself serves,
    with full rights, and exits.

    \b
    kubesched plan consolidate --capture cluster.capture -o json > plan.json
    kubesched dashboard --capture cluster.capture --plan plan.json
    """
    from kubesched.cli.dashboard_action import PastSources, run_dashboard

    past = PastSources(captures, recorded, report, files, plan)
    run_dashboard(address, past, listen, namespace, public_url, output)
