"""`kubesched clusters`, `down` and `logs`: options and help."""

from __future__ import annotations

import click

from kubesched.cli.shared_options import ClusterName, output_option

__all__ = ["clusters", "down", "logs"]

_LINES = 1000


@click.command(
    short_help="List the clusters of `kubesched up --name`.",
    epilog="Example: kubesched clusters -o json",
)
@output_option("list")
def clusters(output: str) -> None:
    """List named clusters: running, stopped, and those whose process was killed.

    `kubesched up --name NAME` starts one again where it was, `kubesched down NAME` removes it.
    """
    from kubesched.cli.clusters_action import run_clusters

    run_clusters(output)


@click.command(
    short_help="Stop clusters of `kubesched up --name` and remove their files.",
    epilog="Example: kubesched down blue",
)
@click.argument("names", nargs=-1, type=ClusterName(), metavar="NAME...")
@click.option("--all", "everything", is_flag=True, help="All named clusters.")
@output_option(text="One name per line, or a JSON list.", forms=("name", "json"))
def down(names: tuple[str, ...], everything: bool, output: str) -> None:
    """Stop clusters and remove their data, logs, kubeconfigs and contexts. Prints their names."""
    from kubesched.cli.clusters_action import run_down

    run_down(names, everything, output)


@click.command(
    short_help="Show the log of a cluster in the background.",
    epilog="Example: kubesched logs blue --follow",
)
@click.argument("name", type=ClusterName())
@click.option(
    "-f", "--follow", is_flag=True, help="Follow the log until Ctrl-C or until the cluster stops."
)
@click.option(
    "--tail",
    default=_LINES,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="LINES",
    help="The number of last lines to print.",
)
@output_option(text="Plain lines, or one JSON object per line.")
def logs(name: str, follow: bool, tail: int, output: str) -> None:
    """Show the log of a cluster of `kubesched up --name NAME --detach`."""
    from kubesched.cli.clusters_action import run_logs

    run_logs(name, follow, tail, output)
