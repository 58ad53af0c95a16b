"""The `kubesched` command.

Exit codes: 0 success, 1 failure, 2 invalid arguments or input, 130 interrupted.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
import traceback
from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

import click

import kubesched
from kubesched.errors import ConfigError, KubeschedError
from kubesched.foundation.util.printable_text import printable

__all__ = ["COMMANDS", "cli", "main"]


class _Place(NamedTuple):
    """The module of a command, and its one-line help."""

    module: str
    short_help: str


COMMANDS: Final[Mapping[str, _Place]] = {
    "up": _Place("up_command", "Run a cluster in this process and place a workload."),
    "clusters": _Place("clusters_command", "List the clusters of `kubesched up --name`."),
    "down": _Place(
        "clusters_command", "Stop clusters of `kubesched up --name` and remove their files."
    ),
    "logs": _Place("clusters_command", "Show the log of a cluster in the background."),
    "run": _Place("run_command", "Schedule the pods of a cluster, as kube-scheduler does."),
    "config": _Place("config_command", "Check or show a configuration file."),
    "node": _Place("node_command", "Add, remove, stop or start nodes of a running cluster."),
    "explain": _Place(
        "explain_command", "Explain why pods are pending, and which changes would help."
    ),
    "fit": _Place("fit_command", "Count the copies of a pod that fit, and explain the limit."),
    "whatif": _Place("whatif_command", "Show the effects of changes to nodes or workloads."),
    "plan": _Place(
        "plan_command", "Plan for the fewest nodes, with a proved bound and rehearsed moves."
    ),
    "dashboard": _Place(
        "dashboard_command", "Show a cluster, a capture or a simulation as a page."
    ),
    "capture": _Place("capture_command", "Write the scheduling state of a cluster to one file."),
    "dump-command": _Place(
        "dump_command", "Print the kubectl command that dumps a cluster for -f."
    ),
    "simulate": _Place(
        "simulate_command", "Run a scenario in virtual time and compare configurations."
    ),
    "record": _Place(
        "record_command", "Record the pods of a live cluster as a trace for simulation."
    ),
    "replay": _Place(
        "replay_command", "Make the decisions of a flight recording again, and compare."
    ),
    "shadow": _Place("shadow_command", "Show how `kubesched run --shadow` compares."),
    "tune": _Place(
        "tune_command", "Search over weights, strategies and thresholds for an objective."
    ),
    "check": _Place("check_command", "Run placement tests."),
    "benchmark": _Place("benchmark_command", "Measure what a plugin or a configuration costs."),
}


class _Commands(click.Group):
    """A group that imports a command only when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = COMMANDS.get(cmd_name)
        if place is None:
            return super().get_command(ctx, cmd_name)
        command = getattr(
            importlib.import_module(f"kubesched.cli.{place.module}"), cmd_name.replace("-", "_")
        )
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            similar = difflib.get_close_matches(args[0], self.list_commands(ctx), n=1)
            if not similar:
                raise
            message = f"no such command {args[0]!r}; did you mean {similar[0]!r}?"
            raise click.UsageError(message, ctx) from error

    def format_commands(self, _ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.short_help) for name, place in COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: kubesched up -f nodes.yaml -f pods.yaml",
)
@click.version_option(kubesched.__version__, prog_name="kubesched")
@click.option("--verbose", is_flag=True, help="Show the traceback of an error.")
def cli(verbose: bool) -> None:
    """The Kubernetes scheduler, in Python."""


def main() -> None:
    """Run the command line; errors become one line (or one per problem) and an exit code."""
    try:
        # The exit code, if a command ended with one.
        if exit_code := cli.main(prog_name="kubesched", standalone_mode=False):
            sys.exit(exit_code)
    except click.ClickException as exc:
        _report_usage(exc)
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except KubeschedError as exc:
        _report(exc)
        sys.exit(2 if isinstance(exc, ConfigError) else 1)
    except BrokenPipeError:
        # The reader of the output has closed the pipe: end without a message.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except MemoryError:
        # The usual cause is a much larger file than expected.
        _report(KubeschedError("not enough memory to process the input"))
        sys.exit(1)
    except OSError as exc:
        # A file or an address that no command has checked.
        where = f"{exc.filename}: " if exc.filename else ""
        _report(KubeschedError(f"{where}{exc.strerror or exc}"))
        sys.exit(1)
    except BaseExceptionGroup as group:
        # The failure of a component of a running cluster; a bug is shown with its traceback.
        expected, bugs = group.split(KubeschedError)
        if expected is None or bugs is not None:
            raise
        for error in _leaves(expected):
            _report(error)
        sys.exit(1)


def _report_usage(error: click.ClickException) -> None:
    """Print a line about a wrong command line, and a hint to its help."""
    ctx = error.ctx if isinstance(error, click.UsageError) else None
    command = "kubesched" if ctx is None else ctx.command_path
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return
    message = printable(" ".join(error.format_message().split()))
    click.echo(f"{command}: {message[:1].lower()}{message[1:].rstrip('.')}", err=True)
    click.echo(f"  {command} --help shows how it is used", err=True)


def _leaves(group: BaseExceptionGroup[KubeschedError]) -> Iterator[KubeschedError]:
    for exc in group.exceptions:
        if isinstance(exc, BaseExceptionGroup):
            yield from _leaves(exc)
        else:
            yield exc


def _report(error: KubeschedError) -> None:
    if "--verbose" in sys.argv:
        traceback.print_exception(error)
        return
    # Messages quote arguments and names, which may contain escape sequences of a terminal.
    for line in map(printable, str(error).splitlines()):
        click.echo(f"kubesched: {line}" if _is_plain(line) else line, err=True)
    for note in getattr(error, "__notes__", ()):
        for line in str(note).splitlines():
            click.echo(f"  {printable(line)}", err=True)


def _is_plain(line: str) -> bool:
    """Whether a line needs the command's name in front: it does not start with `FILE:LINE:`."""
    parts = line.split(":", 2)
    return len(parts) < 3 or not parts[1].isdigit()


if __name__ == "__main__":
    main()
