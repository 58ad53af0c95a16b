"""Instructions per pod at several commits of the project's history, for the chart of its speed.

    python -m benchmarks.history [--kind engine-basic,loop-basic] COMMIT... > history.json

Each commit is checked out into a temporary worktree, with the packages of this environment and its
own benchmarks and compiled loops, and measured as `benchmarks.compare` does. A kind that a commit
cannot run is left out. Needs valgrind, which makes the figures independent of the machine's load.
"""

from __future__ import annotations

import datetime
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from benchmarks.compare import KINDS, chosen_kinds, count_instructions
from benchmarks.measuring import machine, say
from benchmarks.trees import Counter, Tree, checked_out

__all__ = ["measure_commit"]

_DEFAULT = "engine-basic,engine-spread,engine-affinity,engine-hetero,engine-mixed,loop-basic"


def measure_commit(tree: Tree, counter: Counter, kinds: Sequence[str]) -> dict[str, Any]:
    """Return a line with thousands of instructions per pod, by kind."""
    line: dict[str, Any] = {
        "commit": tree.commit[:8],
        "date": tree.date,
        "number": tree.number,
        "subject": tree.subject,
    }
    for kind in kinds:
        try:
            line[kind] = round(count_instructions(tree, counter, KINDS[kind]), 1)
        except click.ClickException as exc:
            say(f"left out: {exc.message}")
    return line


@click.command(help=__doc__)
@click.argument("commits", nargs=-1, required=True)
@click.option("--kind", default=_DEFAULT, callback=chosen_kinds, help="By comma.")
def main(commits: tuple[str, ...], kind: Sequence[str]) -> None:
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        counter = Counter.built(Path(folder))
        if counter is None:
            raise click.ClickException("valgrind, its headers and a C compiler are needed")
        for commit in commits:
            say(f"measuring {commit} ...")
            with checked_out(commit) as tree:
                lines.append(measure_commit(tree, counter, kind))
    lines.sort(key=lambda line: line["number"])
    result = {
        "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "lines": lines,
    }
    click.echo(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
