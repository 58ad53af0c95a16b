"""`kubesched replay`: options and help."""

from __future__ import annotations

from pathlib import Path

import click

from kubesched.cli.shared_options import output_option

__all__ = ["replay"]


@click.command(
    short_help="Make the decisions of a flight recording again, and compare.",
    epilog="Example: kubesched replay /var/lib/kubesched/recording",
)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="PLUGIN",
    help="Plugins of the recording that are not installed, as their code is not run otherwise: "
    "module:Class, or the path of a .py file; may be repeated.",
)
@output_option("result")
def replay(folder: Path, plugins: tuple[str, ...], output: str) -> None:
    """Replay the decisions in FOLDER, which `kubesched run --record FOLDER` has written.

    The command stops at the first decision that differs and names it. Exit status: 0 all decisions
    are the same, 1 one differs.
    """
    from kubesched.cli.replay_action import run_replay

    run_replay(folder, plugins, output)
