"""The drain benchmark: its configuration of the scheduler, its counts, and one run over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from benchmarks.drain import Binds, Target, Used, chart, cpu_seconds, summary, write_files
from kubesched.scheduler.config.load import load_configuration_file

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_scheduler_gets_the_address_of_the_server(tmp_path: Path) -> None:
    names = write_files(Target("https://127.0.0.1:6443", "secret"), tmp_path)
    kubeconfig = yaml.safe_load(Path(names["{kubeconfig}"]).read_text())
    assert kubeconfig["clusters"][0]["cluster"] == {
        "server": "https://127.0.0.1:6443",
        "insecure-skip-tls-verify": True,
    }
    assert kubeconfig["users"][0]["user"] == {"token": "secret"}
    configuration = load_configuration_file(Path(names["{config}"]))
    assert configuration.client_connection.kubeconfig == names["{kubeconfig}"]
    assert configuration.leader_election.leader_elect is False


@pytest.fixture
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    yield process
    process.kill()
    process.wait()


def pod(name: str, node: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"nodeName": node} if node else {}}


def test_a_pod_counts_once_and_only_when_it_has_a_node(sleeping: subprocess.Popen[bytes]) -> None:
    binds = Binds(sleeping)
    for name, node in [("a", ""), ("a", "n1"), ("a", "n1"), ("b", "n1"), ("c", "n2")]:
        binds.note(pod(name, node))
    binds.at_s = [10.0, 10.5, 11.0]
    binds.cpu_at_first_s = 1.0
    line = summary(binds, Used(1.3, 90, cpu_with_events_s=1.6), started_s=8.0)
    assert line == {
        "bound": 3,
        "ready_s": 2.0,
        "pods_per_s": 2.0,
        "cpu_s_per_1000": 100.0,
        "cpu_s_per_1000_with_events": 200.0,
        "cpu_total_s": 1.3,
        "peak_rss_mib": 90,
        "nodes_used": 2,
        "max_on_a_node": 2,
    }


def test_a_run_that_binds_no_pod_has_a_result(sleeping: subprocess.Popen[bytes]) -> None:
    line = summary(Binds(sleeping), Used(0.1, 10), started_s=0.0)
    assert (line["bound"], line["ready_s"], line["pods_per_s"]) == (0, None, 0.0)
    assert line["cpu_s_per_1000_with_events"] is None


def test_cpu_seconds_of_this_process_do_not_go_back() -> None:
    before = cpu_seconds(os.getpid())
    assert 0 < before <= cpu_seconds(os.getpid()) <= time.process_time() + 600


def test_the_chart_ends_with_the_last_pod() -> None:
    line = {"pods": 3, "nodes": 1, "kind": "basic"}
    assert chart(line, [5.0, 5.5, 6.0]).count("<circle") == 3


@pytest.mark.slow
def test_a_small_backlog_is_bound_over_http() -> None:
    options = ["--nodes", "4", "--pods", "12", "--kind", "basic,mixed"]
    ended = subprocess.run(
        [sys.executable, "-m", "benchmarks.drain", *options],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [line["kind"] for line in lines] == ["basic", "mixed"]
    for line in lines:
        assert (line["bound"], line["nodes_used"]) == (12, 4)
        assert line["cpu_total_s"] > 0
