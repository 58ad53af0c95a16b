"""Sweeps as processes: the state after a signal, and how a sweep resumes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

SCENARIO = """\
name: many
duration: 1h
step: 10m
cluster: {nodes: [{name: 'n', count: 3, cpu: 4, memory: 8Gi}]}
workloads:
- {name: w, arrivals: {poisson: 30/h}, cpu: 1, duration: 5m}
"""
SIMULATE = (sys.executable, "-m", "kubesched.cli.main", "simulate", "s.yaml")
PATIENCE_S = 120


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "s.yaml").write_text(SCENARIO)
    return tmp_path


@contextlib.contextmanager
def started(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """Start a very long sweep, and wait for its first finished run."""
    process = subprocess.Popen(
        [*SIMULATE, "--seeds", "1-5000", *options],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell starts background processes with interrupts ignored; children inherit that.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not finished(folder):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline, "no run was finished"
            time.sleep(0.05)
        yield process
    finally:
        process.kill()
        process.communicate()


def finished(folder: Path) -> list[int]:
    """Return the seeds of the stored runs."""
    return sorted(int(path.stem.partition("-")[2]) for path in folder.glob("s.yaml.runs/*.json"))


def gone_on(folder: Path, seeds: list[int]) -> list[int]:
    """Return the seeds that the same command runs, to reach these results."""
    before = {seed: (folder / f"s.yaml.runs/default-{seed}.json").stat().st_mtime_ns
              for seed in finished(folder)}  # fmt: skip
    wanted = ",".join(map(str, seeds))
    done = subprocess.run(
        [*SIMULATE, "--seeds", wanted, "--processes", "1", "-o", "json"],
        cwd=folder, capture_output=True, text=True, check=True, timeout=PATIENCE_S,
    )  # fmt: skip
    assert [run["seed"] for run in json.loads(done.stdout)] == seeds
    return [
        seed
        for seed in seeds
        if before.get(seed)
        != (folder / f"s.yaml.runs/default-{seed}.json").stat().st_mtime_ns
    ]  # fmt: skip


@pytest.mark.parametrize("processes", ["1", "2"])
def test_ctrl_c_shows_the_finished_runs_and_the_command_to_resume(
    folder: Path, processes: str
) -> None:
    with started(folder, "--processes", processes) as process:
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, errors
    kept = finished(folder)
    said = f"interrupted: {len(kept)} of 5000 runs are finished; run the same command to go on"
    assert errors.strip() == f"kubesched: {said}"
    assert output.startswith("many: 1h of virtual time, ")
    new = kept[-1] + 1
    assert gone_on(folder, [kept[0], new]) == [new]


def test_a_killed_sweep_leaves_no_process_and_can_be_resumed(folder: Path) -> None:
    with started(folder, "--processes", "2") as process:
        workers = list(children(process.pid))
        assert workers
        process.kill()
    deadline = time.monotonic() + PATIENCE_S
    while any(is_alive(pid) for pid in workers):
        assert time.monotonic() < deadline, "workers outlive the sweep"
        time.sleep(0.05)
    kept = finished(folder)
    new = kept[-1] + 1
    assert gone_on(folder, [kept[0], new]) == [new]


def children(pid: int) -> Iterator[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    if not path.exists():
        pytest.skip("this system does not say which processes belong to which")
    yield from map(int, path.read_text().split())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
