"""`kubesched run`: what `kube-scheduler` is in a cluster, with the same flags and file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from kubesched.foundation.util.flag_parsing import Flag
    from kubesched.scheduler.runtime.plugin_registry import Registry

__all__ = ["run", "scheduler_command"]


class _RawCommand(click.Command):
    """A command that parses its own arguments, because click's rules for flags differ."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = list(args)
        return []

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Return the flags, for a shell that completes a command line."""
        if not ctx.resilient_parsing:
            return []
        from kubesched.scheduler.server.options.flags import FILE_FLAGS, all_flags

        return [_option(flag, flag.name in FILE_FLAGS) for flag in all_flags()]


def _option(flag: Flag, is_file: bool) -> click.Option:
    names = [f"--{flag.name}", *([f"-{flag.shorthand}"] if flag.shorthand else [])]
    return click.Option(
        [*names, flag.name.replace("-", "_")],
        is_flag=bool(flag.kind.bare),
        multiple=True,
        type=click.Path() if is_file else str,
        help=flag.help.split(". ")[0].split("\n")[0],
    )


def scheduler_command(plugins: Registry | None = None, name: str = "run") -> click.Command:
    """Build the command that runs a scheduler with these additional plugins.

    Raises:
        ConfigError: a plugin could not be built.
    """
    registry = None
    if plugins is not None:
        from kubesched.scheduler.runtime.plugin_registry import PluginRegistry

        registry = PluginRegistry(plugins)

    @click.command(
        name,
        cls=_RawCommand,
        add_help_option=False,
        short_help="Schedule the pods of a cluster, as kube-scheduler does.",
    )
    @click.pass_context
    def command(ctx: click.Context) -> None:
        """Schedule the pods of a cluster, as kube-scheduler does."""
        from kubesched.cli.run_action import run_scheduler

        run_scheduler(ctx, registry)

    return command


run = scheduler_command()
