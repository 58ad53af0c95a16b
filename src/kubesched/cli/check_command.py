"""`kubesched check`: placement tests in YAML, for CI of cluster configuration."""

from __future__ import annotations

import sys

import click
import msgspec

from kubesched.sim.checks import load_checks

__all__ = ["check"]


@click.command(
    short_help="Run placement tests.",
    epilog="Example: kubesched check placement/*.yaml",
)
@click.argument("files", nargs=-1, required=True, metavar="FILES...")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
def check(files: tuple[str, ...], output: str) -> None:
    """Run the placement tests in FILES or folders: given nodes, when pods come, then claims.

    docs/placement-tests.md documents the form. Exit codes: 0 all claims hold, 1 some do not, 2 a
    file cannot be used.
    """
    results = [each.result() for each in load_checks(files)]
    failed = [each for each in results if each.problems]
    if output == "json":
        click.echo(msgspec.json.encode(results).decode())
    else:
        for each in results:
            click.echo(f"{'FAIL' if each.problems else 'ok  '} {each.name}")
            for problem in each.problems:
                click.echo(f"     {problem}")
        click.echo(f"{len(results) - len(failed)} of {len(results)} tests hold")
    if failed:
        sys.exit(1)
