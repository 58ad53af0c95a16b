"""`kubesched dump-command`: print the kubectl command that dumps a cluster for `-f`."""

from __future__ import annotations

import click

from kubesched.cli.shared_options import output_option

__all__ = ["dump_command"]


@click.command(
    "dump-command",
    short_help="Print the kubectl command that dumps a cluster for -f.",
    epilog="Example: kubesched dump-command | sh && kubesched explain pods -f dump.yaml",
)
@click.option(
    "--kubectl",
    default="kubectl",
    show_default=True,
    metavar="COMMAND",
    help="How to call kubectl, for example 'kubectl --context prod'.",
)
@click.option(
    "--file",
    default="dump.yaml",
    show_default=True,
    metavar="FILE",
    help="The file that the printed command writes.",
)
@output_option("answer")
def dump_command(kubectl: str, file: str, output: str) -> None:
    """Print a shell command that lists every kind that scheduling depends on.

    The command only reads. Run it where kubectl works, and give the file to `kubesched explain`,
    `fit`, `whatif` or `up` with -f. Kinds that the server does not serve cost a line on standard
    error. In a cluster that kubesched can reach, `kubesched capture` needs no kubectl.
    """
    import json
    import shlex

    from kubesched.explain.clusters.dump_script import dump_script

    script = dump_script(kubectl, shlex.quote(file))
    click.echo(json.dumps({"command": script, "file": file}) if output == "json" else script)
