"""Versions of the project to measure: the working tree, or a commit in a temporary worktree."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import click

__all__ = ["Counter", "Tree", "checked_out", "working_tree"]

ROOT = Path(__file__).resolve().parents[1]
_RUNNER = Path(__file__).with_name("measured_run.py")
_COUNTER_SOURCE = Path(__file__).with_name("instructions.c")
_TIMEOUT_S = 1800


class Tree(NamedTuple):
    """A version of the project, ready to run."""

    folder: Path
    commit: str
    date: str
    """The day of the commit."""
    subject: str
    number: int = 0
    """The number of commits up to this one."""

    def cpu_seconds(self, module: str, options: Sequence[str]) -> float:
        """Run a benchmark once, and return the CPU time of its measured part."""
        return self._run([], "-", module, options)

    def instructions(self, counter: Counter, module: str, options: Sequence[str]) -> int:
        """Run a benchmark once under valgrind, and count instructions of its measured part."""
        return counter.count(lambda prefix: self._run(prefix, counter.library, module, options))

    def _run(self, prefix: list[str], library: str, module: str, options: Sequence[str]) -> float:
        command = [*prefix, sys.executable, "-P", str(_RUNNER), library, module, *options]
        path = os.pathsep.join([str(self.folder), str(self.folder / "src")])
        # Hashes of strings decide the order of sets, and with it the number of instructions.
        environment = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "0"}
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no output"])[-1]
            raise click.ClickException(f"{module} failed on {self.commit[:8]}: {last}")
        return float(json.loads(done.stdout.splitlines()[-1])["cpu_s"])


class Counter:
    """Counts instructions with valgrind, independent of the load of the machine."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.library = str(folder / "instructions.so")

    @classmethod
    def built(cls, folder: Path) -> Counter | None:
        """Build the counter; None without valgrind, its headers or a compiler."""
        counter = cls(folder)
        compiler = shutil.which("cc")
        if compiler is None or shutil.which("valgrind") is None:
            return None
        command = [compiler, "-shared", "-fPIC", "-O1", "-o", counter.library, str(_COUNTER_SOURCE)]
        done = subprocess.run(command, capture_output=True, check=False)
        return counter if done.returncode == 0 else None

    def count(self, run: Callable[[list[str]], object]) -> int:
        """Run a command behind this prefix, and return the number of instructions."""
        output = self._folder / "callgrind.out"
        run(
            [
                *("valgrind", "-q", "--tool=callgrind", "--instr-atstart=no"),
                f"--callgrind-out-file={output}",
            ]
        )
        (total,) = (
            line.split()[1] for line in output.read_text().splitlines() if line[:7] == "totals:"
        )
        return int(total)


def working_tree() -> Tree:
    """Return this checkout with uncommitted changes, except those of documents and results."""
    _build(ROOT)
    tree = _described(ROOT)
    code = (".", ":!docs", ":!*.md", ":!benchmarks/results")
    is_changed = bool(_git(ROOT, "status", "--porcelain", "--untracked-files=no", "--", *code))
    return tree._replace(subject="with uncommitted changes") if is_changed else tree


@contextlib.contextmanager
def checked_out(revision: str) -> Iterator[Tree]:
    """Check a commit out into a temporary worktree, and build its compiled loops."""
    commit = _git(ROOT, "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if not commit:
        raise click.ClickException(f"{revision}: no such commit")
    with tempfile.TemporaryDirectory(prefix="kubesched-compare-") as parent:
        folder = Path(parent) / commit[:8]
        _git(ROOT, "worktree", "add", "--quiet", "--detach", str(folder), commit)
        try:
            _build(folder)
            yield _described(folder)
        finally:
            _git(ROOT, "worktree", "remove", "--force", str(folder))


def _build(folder: Path) -> None:
    """Build the compiled loops and the bytecode, so that no version is measured without them."""
    if (folder / "setup.py").exists():
        command = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace"]
        subprocess.run(command, cwd=folder, capture_output=True, check=True)
    command = [sys.executable, "-m", "compileall", "-q", "src", "benchmarks"]
    subprocess.run(command, cwd=folder, capture_output=True, check=True)


def _described(folder: Path) -> Tree:
    described = _git(folder, "log", "-1", "--format=%H%n%cs%n%s")
    if not described:
        raise click.ClickException(f"{folder}: no git repository with a commit")
    commit, date, subject = described.splitlines()
    number = int(_git(folder, "rev-list", "--count", commit))
    return Tree(folder, commit, date, subject, number)


def _git(folder: Path, *arguments: str) -> str:
    """Run git, and return its output; empty if it failed."""
    if shutil.which("git") is None:
        raise click.ClickException("git is needed to find and check out versions")
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""
