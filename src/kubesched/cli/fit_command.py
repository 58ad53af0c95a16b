"""`kubesched fit`: options and help."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kubesched.cli.shared_options import in_namespace, output_option, source_options

if TYPE_CHECKING:
    from kubesched.cli.cluster_sources import SourceOptions

__all__ = ["fit"]


@click.command(
    short_help="Count the copies of a pod that fit, and explain the limit.",
    epilog="Example: kubesched fit -f pod.yaml --replicas 40",
)
@source_options
@click.option(
    "--pod",
    "names",
    multiple=True,
    metavar="[NAMESPACE/]NAME",
    help="Fit this pod of the files or of the cluster; may be repeated. Default: the pods without "
    "a node of the first file that has pods and no nodes.",
)
@click.option("-n", "--namespace", default="", metavar="NAME", help="The namespace of --pod NAME.")
@click.option(
    "--replicas", type=click.IntRange(min=1), metavar="N", help="Check whether N copies fit."
)
@click.option("--max", "as_many", is_flag=True, help="Count the copies that fit; the default.")
@output_option("answer")
def fit(
    source: SourceOptions,
    names: tuple[str, ...],
    namespace: str,
    replicas: int | None,
    as_many: bool,
    output: str,
) -> None:
    """Place copies of a pod on a copy of the cluster until one fits nowhere.

    Several pods of one file, or of several --pod, are placed as a set. The command never writes
    to the cluster.
    """
    from kubesched.cli.fit_action import run_fit

    run_fit(source, in_namespace(names, namespace), replicas, as_many, output)
