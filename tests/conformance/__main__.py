"""Compare kubesched with the recordings of the reference: `python -m tests.conformance`.

Prints a row per family and, last, `N of M identical`. Exits with 0 whatever the numbers, unless a
`--require` is not met (1) or the harness itself cannot run.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from tests.conformance.comparison import count
from tests.conformance.document import write_documents
from tests.conformance.families import FAMILY_NAMES, run_families
from tests.conformance.goldens import GOLDENS
from tests.conformance.report import as_json, render_steps, render_table, summary
from tests.conformance.requirements import Requirement


@click.command()
@click.option("--goldens", type=click.Path(path_type=Path), help="where the recordings are")
@click.option("--family", "families", multiple=True, help="only this family; may be repeated")
@click.option("--show", help="print one scenario, expected and got side by side")
@click.option("--require", "requirements", multiple=True, help="FAMILY[:field,...] must match")
@click.option("--write", is_flag=True, help="write docs/conformance.md; with all families only")
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table")
def main(
    goldens: Path | None,
    families: tuple[str, ...],
    show: str | None,
    requirements: tuple[str, ...],
    write: bool,
    output: str,
) -> None:
    directory = goldens or GOLDENS
    if not directory.is_dir():
        raise click.ClickException(f"no recordings at {directory}")
    if write and (goldens or families or show):
        raise click.UsageError("--write is about all families of this repository")
    required = [Requirement.parse(text) for text in requirements]
    if show is not None and not families:
        families = (show.rpartition("-")[0],) if show.rpartition("-")[0] in FAMILY_NAMES else ()
    steps = list(run_families(directory, families))
    if show is not None:
        shown = [step for step in steps if step.scenario == show]
        if not shown:
            raise click.ClickException(f"no scenario named {show!r}")
        click.echo(render_steps(shown))
    counts = count(steps)
    if write:
        write_documents(counts)
    if output == "json":
        click.echo(as_json(counts))
    elif show is None:
        click.echo(render_table(counts))
    failures = [failure for requirement in required for failure in requirement.failures(steps)]
    for failure in failures:
        click.echo(f"required and not met: {failure}", err=True)
    if output != "json":
        click.echo(summary(counts))
    if failures:
        sys.exit(1)


if __name__ == "__main__":
    main()
