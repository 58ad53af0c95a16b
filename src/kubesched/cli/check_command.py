"""`kubesched check`: options and help."""

from __future__ import annotations

import click

from kubesched.cli.schema_option import schema_option
from kubesched.cli.shared_options import output_option, run_plugins_option

__all__ = ["check"]


@click.command(
    short_help="Run placement tests.",
    epilog="Example: kubesched check placement/*.yaml",
)
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@output_option("result")
@run_plugins_option
@schema_option("placement-test")
def check(files: tuple[str, ...], output: str, run_plugins: bool) -> None:
    """Run the placement tests in FILES or folders: nodes, then pods, then expectations.

    docs/placement-tests.md documents the form. Exit codes: 0 all claims hold, 1 some do not, 2 a
    file cannot be used.
    """
    from kubesched.cli.check_action import run_check

    run_check(files, output, run_plugins)
