"""`kubesched benchmark`: options and help."""

from __future__ import annotations

import click

from kubesched.cli.shared_options import output_option

__all__ = ["benchmark"]


@click.command(
    short_help="Measure what a plugin or a configuration costs.",
    epilog="Example: kubesched benchmark --plugin mine.py:Mine -f nodes.yaml -f pods.yaml",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="PLUGIN",
    help="A plugin to measure: module:Class or the path of a .py file; may be repeated. It runs if "
    "the configuration enables it, and without a configuration in any case.",
)
@click.option(
    "--config",
    "config_file",
    type=click.Path(exists=True, dir_okay=False),
    default=None,
    metavar="FILE",
    help="A KubeSchedulerConfiguration file to measure.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE",
    help="YAML with nodes, pods and other objects; may be repeated. Its nodes and pods are copied "
    "until there are as many as the options say. Without it, nodes and pods of a few sizes in "
    "three zones.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 100_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="The number of nodes.",
)
@click.option(
    "--pods",
    type=click.IntRange(1, 1_000_000),
    default=1000,
    show_default=True,
    metavar="N",
    help="The number of pods.",
)
@click.option(
    "--repeat",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    metavar="N",
    help="The number of runs of each configuration; the result is their median.",
)
@output_option("result")
def benchmark(
    plugins: tuple[str, ...],
    config_file: str | None,
    files: tuple[str, ...],
    nodes: int,
    pods: int,
    repeat: int,
    output: str,
) -> None:
    """Place pods on an embedded cluster, with the default configuration and with yours.

    The figures are processor time of this process, from the creation of the pods to the last
    decision, so other programs on the machine hardly matter. Both configurations run in turn.
    """
    from kubesched.cli.benchmark_action import run_benchmark

    run_benchmark(plugins, config_file, files, nodes, pods, repeat, output)
