"""Run a benchmark, and store its output in a result file.

    python -m benchmarks.record NAME [--append] MODULE [OPTION]...

NAME is a file in benchmarks/results/ without `.json`; its question, columns and notes are kept.
With --append the lines are added, as further runs of the same command on the same commit.
`python -m benchmarks.performance_page` then writes docs/performance.md.
"""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from benchmarks.measuring import machine
from benchmarks.results_file import RESULTS
from benchmarks.trees import working_tree

__all__ = ["recorded"]


def recorded(
    before: dict[str, Any], output: str, command: str, commit: str, *, append: bool
) -> dict[str, Any]:
    """Return the content of a result file with the lines that a benchmark printed."""
    lines = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    if append:
        if (before["commit"], before["command"]) != (commit, command):
            raise click.ClickException("the file has lines of another command or commit")
        lines = [*before["lines"], *lines]
    load = os.getloadavg()[0]
    return {
        **before,
        "command": command,
        "commit": commit,
        "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "load": "quiet" if load < 1.5 else f"busy, load {load:.0f} on {os.cpu_count()} cores",
        "machine": machine(),
        "lines": lines,
    }


@click.command(help=__doc__, context_settings={"ignore_unknown_options": True})
@click.argument("name")
@click.option("--append", is_flag=True)
@click.argument("arguments", nargs=-1, required=True, type=click.UNPROCESSED)
def main(name: str, append: bool, arguments: tuple[str, ...]) -> None:
    path = Path(RESULTS, f"{name}.json")
    if not path.exists():
        raise click.ClickException(f"{path}: no such file; write its question and columns first")
    tree = working_tree()
    if tree.subject == "with uncommitted changes":
        raise click.ClickException("there are uncommitted changes: a result names its commit")
    done = subprocess.run(
        [sys.executable, "-m", *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    command = " ".join(["python -m", *arguments])
    before = json.loads(path.read_text())
    after = recorded(before, done.stdout, command, tree.commit[:8], append=append)
    path.write_text(json.dumps(after, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
