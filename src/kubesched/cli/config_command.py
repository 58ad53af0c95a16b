"""`kubesched config`: options and help."""

from __future__ import annotations

from collections.abc import Callable

import click

from kubesched.cli.shared_options import output_option

__all__ = ["config"]


@click.group(
    short_help="Check or show a configuration file.",
    epilog="Example: kubesched config validate scheduler.yaml",
)
def config() -> None:
    """Check a KubeSchedulerConfiguration, or show it with all defaults.

    Exit code 2 if something is wrong with it: each problem is a line that begins with the
    file's name.
    """


def _with_plugins(command: Callable[..., None]) -> Callable[..., None]:
    command = click.option(
        "--plugin",
        "plugins",
        multiple=True,
        metavar="PLUGIN",
        help="Also load this plugin: module:Class or the path of a .py file; may be repeated.",
    )(command)
    return _with_gates(command)


def _with_gates(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--feature-gates",
        "gates",
        multiple=True,
        metavar="NAME=BOOL,...",
        help="Feature gates; they change some defaults and the allowed fields.",
    )(command)


_with_output = output_option(text="Form of the configuration.", forms=("yaml", "json"))


@config.command(epilog="Example: kubesched config validate scheduler.yaml --plugin mine.py")
@click.argument("file")
@_with_plugins
@output_option("result")
def validate(file: str, gates: tuple[str, ...], plugins: tuple[str, ...], output: str) -> None:
    """Check FILE (- for standard input) and report all problems."""
    from kubesched.cli.config_action import run_validate

    run_validate(file, gates, plugins, output)


@config.command(epilog="Example: kubesched config show scheduler.yaml -o json")
@click.argument("file")
@_with_plugins
@_with_output
def show(file: str, gates: tuple[str, ...], plugins: tuple[str, ...], output: str) -> None:
    """Show FILE (- for standard input) as the scheduler uses it, with defaults."""
    from kubesched.cli.config_action import run_show

    run_show(file, gates, plugins, output)


@config.command(epilog="Example: kubesched config default > scheduler.yaml")
@_with_gates
@_with_output
def default(gates: tuple[str, ...], output: str) -> None:
    """Show the configuration of a scheduler without a file."""
    from kubesched.cli.config_action import run_default

    run_default(gates, output)
