"""Compare the speed of two versions of the project, kind by kind, in one run.

    python -m benchmarks.compare BASE [--head COMMIT] [--kind engine-basic,loop-basic] [-o json]

BASE is checked out into a temporary worktree and measured in turn with this working tree, or with
the commit of --head. Both use the packages of this environment, and their own benchmarks and
compiled loops. Instructions are counted with valgrind; they do not depend on the load of the
machine and decide the verdict. CPU time is the median of several rounds. Without valgrind it
decides, and a kind whose ranges overlap is `unclear`. The exit code is 1 if a kind is slower.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from benchmarks.measuring import machine, say
from benchmarks.trees import Counter, Tree, checked_out, working_tree

__all__ = ["KINDS", "MeasuredKind", "chosen_kinds", "count_instructions", "verdict"]


class MeasuredKind(NamedTuple):
    """A benchmark, with a small size to count instructions and a larger one for CPU time."""

    module: str
    options: tuple[str, ...] = ()
    counted: tuple[int, int] = (1000, 500)
    """Nodes and pods while instructions are counted."""
    timed: tuple[int, int] = (5000, 3000)

    def sized(self, size: tuple[int, int]) -> tuple[str, ...]:
        if not self.pods(size):
            return ()
        return (*self.options, "--nodes", str(size[0]), "--pods", str(size[1]))

    def pods(self, size: tuple[int, int]) -> int:
        """Return the number of pods of a run; 0 if the kind has none."""
        return 0 if self.module.startswith("import:") else size[1]

    def exists_in(self, tree: Tree) -> bool:
        """Whether this version of the project has the benchmark."""
        is_import = self.module.startswith("import:")
        return is_import or (tree.folder / f"{self.module.replace('.', '/')}.py").exists()


def _engine(kind: str) -> MeasuredKind:
    return MeasuredKind("benchmarks.engine", ("--kind", kind))


_ENGINE = ("basic", "spread", "affinity", "hetero", "mixed", "volumes", "local-pv", "dra")
KINDS: Mapping[str, MeasuredKind] = {
    **{f"engine-{kind}": _engine(kind) for kind in _ENGINE},
    "loop-basic": MeasuredKind("benchmarks.loop", ("--kind", "basic")),
    "loop-mixed": MeasuredKind("benchmarks.loop", ("--kind", "mixed")),
    "preemption": MeasuredKind("benchmarks.preemption", (), (300, 100), (1000, 300)),
    "requests": MeasuredKind("benchmarks.requests"),
    "import-app": MeasuredKind("import:kubesched.app"),
    "import-cli": MeasuredKind("import:kubesched.cli.main"),
}


class Pair(NamedTuple):
    """The measurements of two versions."""

    base: list[float]
    head: list[float]

    @property
    def change_percent(self) -> float:
        return 100 * (statistics.median(self.head) / statistics.median(self.base) - 1)

    @property
    def overlaps(self) -> bool:
        return min(self.head) <= max(self.base) and min(self.base) <= max(self.head)

    def document(self) -> dict[str, Any]:
        return {
            "base": [round(each, 3) for each in self.base],
            "head": [round(each, 3) for each in self.head],
            "change_percent": round(self.change_percent, 2),
        }


def verdict(instructions: Pair | None, cpu: Pair | None, tolerance_percent: float) -> str:
    """Return same, faster or slower; unclear if only CPU time was measured and ranges overlap."""
    pair = instructions or cpu
    if pair is None:
        return "unclear"
    change = pair.change_percent
    if abs(change) <= tolerance_percent:
        return "same"
    if instructions is None and pair.overlaps:
        return "unclear"
    return "slower" if change > 0 else "faster"


def count_instructions(tree: Tree, counter: Counter, kind: MeasuredKind) -> float:
    """Return thousands of instructions: per pod, or for the whole of a kind without pods."""
    count = tree.instructions(counter, kind.module, kind.sized(kind.counted))
    return count / 1000 / (kind.pods(kind.counted) or 1)


def _compare(
    trees: tuple[Tree, Tree], kind: MeasuredKind, counter: Counter | None, rounds: int
) -> tuple[Pair | None, Pair | None]:
    """Measure both trees: thousands of instructions and microseconds of CPU time, per pod."""
    instructions = cpu = None
    if counter is not None:
        base, head = (count_instructions(tree, counter, kind) for tree in trees)
        instructions = Pair([base], [head])
    if rounds:
        cpu = Pair([], [])
        for number in range(rounds):
            order = tuple(zip(trees, cpu, strict=True))
            for tree, measured in order if number % 2 == 0 else reversed(order):
                seconds = tree.cpu_seconds(kind.module, kind.sized(kind.timed))
                measured.append(seconds * 1e6 / (kind.pods(kind.timed) or 1))
    return instructions, cpu


def _document(tree: Tree) -> dict[str, str]:
    return {"commit": tree.commit[:8], "date": tree.date, "subject": tree.subject}


def render(result: Mapping[str, Any]) -> str:
    """Return the result as a table for people."""
    lines = [
        f"{side}: {tree['commit']} {tree['date']} {tree['subject']}"
        for side in ("base", "head")
        for tree in [result[side]]
    ]
    head = ("thousand instructions", "CPU µs, median")
    lines += ["", f"{'':16}{head[0]:>30}  {head[1]:>28}"]
    for line in result["kinds"]:
        cells = [_cell(line[unit]) for unit in ("kilo_instructions", "cpu_us")]
        lines.append(f"{line['kind']:16}{cells[0]:>30}  {cells[1]:>28}  {line['verdict']}")
    return "\n".join(lines)


def _cell(pair: Mapping[str, Any] | None) -> str:
    if pair is None:
        return "-"
    base, head = (statistics.median(pair[side]) for side in ("base", "head"))
    return f"{base:,.1f} -> {head:,.1f} {pair['change_percent']:+6.1f} %"


def chosen_kinds(_: object, __: object, text: str) -> Sequence[str]:
    """Return the kinds of an option's value."""
    names = tuple(KINDS) if text == "all" else tuple(text.split(","))
    if unknown := set(names) - set(KINDS):
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: not among {', '.join(KINDS)}")
    return names


@click.command(help=__doc__)
@click.argument("base")
@click.option("--head", help="Commit to measure instead of the working tree.")
@click.option("--kind", default="all", show_default=True, callback=chosen_kinds, help="By comma.")
@click.option("--rounds", default=3, show_default=True, help="Of CPU time; 0 leaves it out.")
@click.option("--no-count", is_flag=True, help="Do not count instructions.")
@click.option("--tolerance", default=3.0, show_default=True, help="Per cent that are `same`.")
@click.option("-o", "output", type=click.Choice(["table", "json"]), default="table")
def main(
    base: str,
    head: str | None,
    kind: Sequence[str],
    rounds: int,
    no_count: bool,
    tolerance: float,
    output: str,
) -> None:
    lines = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        counter = None if no_count else Counter.built(folder)
        if counter is None and not no_count:
            say("instructions are not counted: valgrind, its headers or a C compiler is missing")
        trees = (
            stack.enter_context(checked_out(base)),
            stack.enter_context(checked_out(head)) if head else working_tree(),
        )
        for name in kind:
            if not all(KINDS[name].exists_in(tree) for tree in trees):
                say(f"{name} is left out: one of the versions has no {KINDS[name].module}")
                continue
            say(f"measuring {name} ...")
            instructions, cpu = _compare(trees, KINDS[name], counter, rounds)
            lines.append(
                {
                    "kind": name,
                    "kilo_instructions": instructions.document() if instructions else None,
                    "cpu_us": cpu.document() if cpu else None,
                    "verdict": verdict(instructions, cpu, tolerance),
                }
            )
    result = {
        "benchmark": "compare",
        "measured": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "base": _document(trees[0]),
        "head": _document(trees[1]),
        "kinds": lines,
    }
    click.echo(json.dumps(result, indent=1) if output == "json" else render(result))
    sys.exit(any(line["verdict"] == "slower" for line in lines))


if __name__ == "__main__":
    main()
