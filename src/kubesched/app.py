"""A scheduler of one's own: the command `kubesched run`, with plugins built in.

A company's scheduler is a small program:

    from kubesched import app
    from house_rules import SpareNodes

    def main() -> None:
        app.main(plugins={"SpareNodes": SpareNodes})

It takes every flag that `kubesched run` takes; a profile of the configuration file enables its
plugins. `command` gives the same as a click command, for a program that has others.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from kubesched.cli.run_command import scheduler_command
from kubesched.errors import ConfigError
from kubesched.scheduler.runtime.plugin_registry import PluginFactory, PluginRegistry, Registry

__all__ = ["PluginFactory", "PluginRegistry", "command", "main"]


def command(plugins: Registry | None = None, *, name: str = "run") -> click.Command:
    """The command that runs a scheduler which also has these plugins, by name.

    Raises:
        ConfigError: one of them could not be built.
    """
    return scheduler_command(plugins, name)


def main(plugins: Registry | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Run the scheduler as this program does nothing else; `argv` is without the program's name."""
    try:
        made = command(plugins)
    except ConfigError as exc:
        click.echo(f"Error: {exc}", err=True)
        sys.exit(2)
    made.main(None if argv is None else list(argv))
    sys.exit()  # click has left with the exit code before
