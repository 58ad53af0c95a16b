"""The `kubesched` command.

Exit codes: 0 done, 1 it failed, 2 what was given cannot be used, 130 interrupted.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator

import click

import kubesched
from kubesched.cli.capture_command import capture
from kubesched.cli.check_command import check
from kubesched.cli.config_command import config
from kubesched.cli.dashboard_command import dashboard
from kubesched.cli.explain_command import explain
from kubesched.cli.fit_command import fit
from kubesched.cli.node_command import node
from kubesched.cli.record_command import record
from kubesched.cli.run import run
from kubesched.cli.simulate_command import simulate
from kubesched.cli.tune_command import tune
from kubesched.cli.up import up
from kubesched.cli.whatif_command import whatif
from kubesched.util.errors import ConfigError, KubeschedError

__all__ = ["cli", "main"]


@click.group(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: kubesched up -f nodes.yaml -f pods.yaml",
)
@click.version_option(kubesched.__version__, prog_name="kubesched")
@click.option("--verbose", is_flag=True, help="Show the traceback of an error.")
def cli(verbose: bool) -> None:
    """The Kubernetes scheduler, in Python."""


cli.add_command(up)
cli.add_command(run)
cli.add_command(config)
cli.add_command(node)
cli.add_command(explain)
cli.add_command(fit)
cli.add_command(whatif)
cli.add_command(dashboard)
cli.add_command(capture)
cli.add_command(simulate)
cli.add_command(record)
cli.add_command(tune)
cli.add_command(check)


def main() -> None:
    """Run the command line; errors become one line (or one per problem) and an exit code."""
    try:
        # The exit code, if a command ended with one.
        if exit_code := cli.main(prog_name="kubesched", standalone_mode=False):
            sys.exit(exit_code)
    except click.ClickException as exc:
        exc.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(130)
    except KubeschedError as exc:
        _report(exc)
        sys.exit(2 if isinstance(exc, ConfigError) else 1)
    except BaseExceptionGroup as group:
        # What a part of the running cluster died of; a bug keeps its traceback.
        expected, bugs = group.split(KubeschedError)
        if expected is None or bugs is not None:
            raise
        for error in _leaves(expected):
            _report(error)
        sys.exit(1)


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
    for line in str(error).splitlines():
        click.echo(f"kubesched: {line}" if _is_plain(line) else line, err=True)
    for note in getattr(error, "__notes__", ()):
        click.echo(f"  {note}", err=True)


def _is_plain(line: str) -> bool:
    """Whether a line needs the command's name in front: `FILE:LINE:` speaks for itself."""
    parts = line.split(":", 2)
    return len(parts) < 3 or not parts[1].isdigit()


if __name__ == "__main__":
    main()
