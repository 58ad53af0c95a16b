"""Two versions are measured in turn, and compared by figures that do not depend on the load."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import compare, trees
from benchmarks.compare import Pair, verdict
from benchmarks.measured_run import Meter

RUNNER = Path(compare.__file__).with_name("measured_run.py")
BENCHMARK = """
import time
import click
from benchmarks.measuring import Stopwatch

@click.command()
@click.option("--kind")
@click.option("--nodes", type=int)
@click.option("--pods", type=int)
def main(kind, nodes, pods):
    print(kind, nodes, pods)
    watch = Stopwatch()
    ended = time.process_time() + {seconds}
    while time.process_time() < ended:
        pass
    watch.spent()
    Stopwatch().spent()
"""
MEASURING = """
class Stopwatch:
    def __init__(self):
        pass
    def spent(self):
        return 0
"""


class Case:
    def __init__(self, instructions: Pair | None, cpu: Pair | None, want: str) -> None:
        self.instructions, self.cpu, self.want = instructions, cpu, want


VERDICTS = {
    "a change within the tolerance is the same": Case(Pair([100.0], [102.9]), None, "same"),
    "more instructions are slower, whatever the CPU time": Case(
        Pair([100.0], [104.0]), Pair([10.0, 11.0], [5.0, 6.0]), "slower"
    ),
    "fewer instructions are faster": Case(Pair([100.0], [96.0]), None, "faster"),
    "CPU time alone decides where all rounds agree": Case(
        None, Pair([10.0, 11.0], [12.0, 13.0]), "slower"
    ),
    "CPU time alone is unclear where rounds overlap": Case(
        None, Pair([10.0, 13.0, 11.0], [12.0, 13.0, 14.0]), "unclear"
    ),
    "nothing measured is unclear": Case(None, None, "unclear"),
}


@pytest.mark.parametrize("case", VERDICTS.values(), ids=VERDICTS)
def test_verdict(case: Case) -> None:
    assert verdict(case.instructions, case.cpu, 3.0) == case.want


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def project(folder: Path, seconds: float) -> str:
    """Make a repository whose benchmark takes this much CPU time; return the commit."""
    (folder / "benchmarks").mkdir(parents=True, exist_ok=True)
    (folder / "src").mkdir(exist_ok=True)
    (folder / "benchmarks/__init__.py").write_text("")
    (folder / "benchmarks/measuring.py").write_text(MEASURING)
    (folder / "benchmarks/engine.py").write_text(BENCHMARK.format(seconds=seconds))
    git = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@example.com"]
    subprocess.run([*git, "init", "--quiet"], check=True)
    subprocess.run([*git, "add", "-A"], check=True)
    subprocess.run([*git, "commit", "--quiet", "-m", f"area: take {seconds} s"], check=True)
    done = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def run(*options: str) -> tuple[int, dict[str, Any]]:
    result = CliRunner().invoke(compare.main, options)
    return result.exit_code, json.loads(result.stdout)


@needs_git
def test_a_slower_version_is_found_and_ends_with_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    base, head = project(tmp_path, 0.001), project(tmp_path, 0.2)
    monkeypatch.setattr(trees, "ROOT", tmp_path)
    options = ("--kind", "engine-basic", "--rounds", "2", "--no-count", "-o", "json")
    code, result = run(base, *options)
    assert (code, result["kinds"][0]["verdict"]) == (1, "slower")
    assert result["base"]["commit"] == base[:8]
    assert result["head"]["subject"] == "area: take 0.2 s"
    code, result = run(head, "--head", base, *options)
    assert (code, result["kinds"][0]["verdict"]) == (0, "faster")
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "worktree", "list"], capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == 1  # the temporary worktrees were removed


@needs_git
def test_a_folder_without_a_commit_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trees, "ROOT", tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(trees.click.ClickException) as caught:
        trees.working_tree()
    assert caught.value.message == f"{tmp_path}: no git repository with a commit"


def test_without_git_there_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    result = CliRunner().invoke(compare.main, ["HEAD", "--no-count"])
    assert result.exit_code == 1
    assert result.stderr == "Error: git is needed to find and check out versions\n"


@needs_git
def test_an_unknown_commit_or_kind_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path, 0.0)
    monkeypatch.setattr(trees, "ROOT", tmp_path)
    result = CliRunner().invoke(compare.main, ["nowhere", "--no-count"])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == "Error: nowhere: no such commit"
    result = CliRunner().invoke(compare.main, ["HEAD", "--kind", "engine-basic,fancy"])
    assert result.exit_code == 2
    assert "fancy: not among engine-basic" in result.stderr


@needs_git
def test_a_benchmark_that_fails_is_reported_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = project(tmp_path, 0.0)
    (tmp_path / "benchmarks/engine.py").write_text("raise OSError('no such benchmark')\n")
    monkeypatch.setattr(trees, "ROOT", tmp_path)
    with pytest.raises(trees.click.ClickException) as caught:
        trees.working_tree().cpu_seconds("benchmarks.engine", ())
    assert caught.value.message == (
        f"benchmarks.engine failed on {commit[:8]}: OSError: no such benchmark"
    )


def test_only_the_first_interval_is_measured() -> None:
    meter = Meter("-")
    meter.stop()
    assert meter.cpu_s is None
    meter.start()
    meter.stop()
    first = meter.cpu_s
    meter.start()
    meter.stop()
    assert meter.cpu_s == first is not None


def test_an_import_is_measured_in_a_separate_process() -> None:
    done = subprocess.run(
        [sys.executable, "-P", str(RUNNER), "-", "import:decimal"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout)["cpu_s"] > 0


def test_instructions_are_counted_where_valgrind_is_installed(tmp_path: Path) -> None:
    counter = trees.Counter.built(tmp_path)
    if counter is None:
        pytest.skip("needs valgrind, its headers and a C compiler")
    tree = trees.Tree(trees.ROOT, "0" * 40, "2026-01-01", "")
    first, second = (tree.instructions(counter, "import:this", ()) for _ in range(2))
    assert first > 100_000
    assert abs(first - second) < first / 50


def test_the_table_has_a_line_per_kind() -> None:
    side = {"commit": "0123abcd", "date": "2026-01-01", "subject": "area: change"}
    line = {
        "kind": "engine-basic",
        "kilo_instructions": Pair([200.0], [150.0]).document(),
        "cpu_us": None,
        "verdict": "faster",
    }
    table = compare.render({"base": side, "head": side, "kinds": [line]})
    assert table.splitlines()[-1].split() == (
        ["engine-basic", "200.0", "->", "150.0", "-25.0", "%", "-", "faster"]
    )
