"""Action of `kubesched check`: run placement tests, and show the claims that do not hold."""

from __future__ import annotations

import sys

import click
import msgspec

from kubesched.sim.checks import load_checks

__all__ = ["run_check"]


def run_check(files: tuple[str, ...], output: str, run_plugins: bool) -> None:
    results = [each.result() for each in load_checks(files, run_plugins=run_plugins)]
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
