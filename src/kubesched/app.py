"""The command `kubesched run` with plugins of your own built in.

Such a scheduler is a small program:

    from kubesched import app
    from house_rules import SpareNodes

    def main() -> None:
        app.main(plugins={"SpareNodes": SpareNodes})

It accepts every flag of `kubesched run`. A profile in the configuration file enables the plugins.
`command` returns the same as a click command, for a program with several commands.
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
    """Return the command that runs a scheduler with these additional plugins.

    Raises:
        ConfigError: a factory cannot build a plugin.
    """
    return scheduler_command(plugins, name)


def main(plugins: Registry | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Run the scheduler and exit. `argv` does not include the name of the program."""
    try:
        made = command(plugins)
    except ConfigError as exc:
        click.echo(f"Error: {exc}", err=True)
        sys.exit(1)
    made.main(None if argv is None else list(argv))
    sys.exit()  # click has exited with a code before
