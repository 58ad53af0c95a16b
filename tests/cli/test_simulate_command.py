"""`kubesched simulate`, `check` and `tune`, as a user types them."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubesched.api import Node, Pod, ReplicaSet
from kubesched.cli.main import cli
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.errors import KubeschedError
from kubesched.foundation.util.clock import RealClock

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """\
name: tiny
duration: 30m
step: 10m
seeds: 1-2
cluster:
  nodes:
  - {name: 'n', count: 3, cpu: 4, memory: 8Gi, zones: [a, b, c]}
workloads:
- name: w
  arrivals: {poisson: 30/h}
  cpu: 1
  duration: 5m
configurations:
- name: default
- name: by name
  config: {profiles: [{tieBreak: NodeName}]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.yaml").write_text(SCENARIO)
    return tmp_path


def invoke(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def test_simulate_writes_a_summary_a_report_and_stored_runs(folder: Path) -> None:
    text = invoke("simulate", "s.yaml", "--processes", "1", "-o", "report.html")
    assert text.startswith("tiny: 30m of virtual time, 4 runs, 2 seeds")
    assert "default" in text
    assert "Where they differ first" in (folder / "report.html").read_text()
    kept = sorted(each.name for each in (folder / "s.yaml.runs").iterdir())
    assert kept == ["by_name-1.json", "by_name-2.json", "default-1.json", "default-2.json"]
    again = invoke("simulate", "s.yaml", "--processes", "1", "-o", "json")
    assert [(run["configuration"], run["seed"]) for run in json.loads(again)] == [
        ("default", 1), ("default", 2), ("by name", 1), ("by name", 2),
    ]  # fmt: skip


def test_seeds_and_configurations_may_be_chosen(folder: Path) -> None:
    text = invoke("simulate", "s.yaml", "--seeds", "7", "--configuration", "default", "-o", "json")
    assert [run["seed"] for run in json.loads(text)] == [7]
    with pytest.raises(KubeschedError, match="no configuration 'x'; there are default, by name"):
        invoke("simulate", "s.yaml", "--configuration", "x")
    with pytest.raises(KubeschedError, match="--seeds: 'x' is not like"):
        invoke("simulate", "s.yaml", "--seeds", "x")


def test_two_scenarios_are_compared_to_the_first_difference(folder: Path) -> None:
    (folder / "b.yaml").write_text(SCENARIO.replace("count: 3", "count: 4"))
    assert invoke("simulate", "--diff", "s.yaml", "s.yaml") == (
        "no difference: every decision is the same\n"
    )
    text = invoke("simulate", "--diff", "s.yaml", "b.yaml")
    assert text.startswith("at 0s: default: created default/w-0; default of tiny: node n-3")
    found = json.loads(invoke("simulate", "--diff", "s.yaml", "b.yaml", "-o", "json"))
    assert found["divergence"]["second"][1:3] == ["node", "n-3"]


def test_check(folder: Path) -> None:
    (folder / "t.yaml").write_text(
        "name: fits\ngiven: {nodes: [{name: 'n', cpu: 4, memory: 8Gi}]}\n"
        "when: [{pods: {name: w, cpu: 1, labels: {app: w}}}]\n"
        "then: [{placed: {pods: {app: w}}}]\n"
    )
    assert invoke("check", "t.yaml") == "ok   fits\n1 of 1 tests hold\n"
    (folder / "t.yaml").write_text((folder / "t.yaml").read_text().replace("cpu: 1", "cpu: 9"))
    text = invoke("check", "t.yaml", code=1)
    assert text.splitlines()[1] == (
        "     t.yaml:4: 0 of 1 pods have a node, not 1; default/w-0: Insufficient cpu"
    )
    assert json.loads(invoke("check", "t.yaml", "-o", "json", code=1))[0]["problems"]


def zone_of(number: int) -> str:
    return f"zone-{'abc'[number % 3]}"


NODES = [
    {
        "metadata": {"name": f"n{n}", "labels": {"topology.kubernetes.io/zone": zone_of(n)}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "20"}},
    }
    for n in range(6)
]
CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
WEB = {
    "metadata": {"name": "web", "namespace": "default", "uid": "web-uid"},
    "spec": {
        "replicas": 9,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [CONTAINER]},
        },
    },
}
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid"}
PODS = [
    {
        "metadata": {
            "name": f"web-{n}",
            "namespace": "default",
            "labels": {"app": "web"},
            "ownerReferences": [{**OWNER, "controller": True}],
        },
        "spec": {"nodeName": f"n{n % 6}", "containers": [CONTAINER]},
        "status": {"phase": "Running"},
    }
    for n in range(9)
]


def commands_of(document: str, heading: str) -> list[str]:
    """Return the commands of the first console of a chapter, with their here-documents."""
    text = (ROOT / "docs" / document).read_text().split(f"\n## {heading}")[1]
    console = text.split("```console\n")[1].split("```")[0]
    return [part.rstrip() for part in console.removeprefix("$ ").split("\n$ ")]


@pytest.mark.slow
def test_from_a_cluster_to_a_lost_zone_as_the_document_types_it(tmp_path: Path) -> None:
    """Four commands against a server.

    The two nodes of the lost zone had three of nine pods. Nodes have room for two, so of three
    evicted pods two find a place elsewhere, and one waits until the zone is back.
    """
    commands = commands_of("simulate.md", "From a cluster to")
    assert len(commands) == 4
    shim = tmp_path / "bin" / "kubesched"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m kubesched.cli.main "$@"\n')
    shim.chmod(0o755)

    async def typed(command: str) -> str:
        environment = {
            **os.environ,
            "PATH": f"{shim.parent}:{os.environ['PATH']}",
            "KUBECONFIG": str(tmp_path / "kubeconfig"),
        }
        process = await asyncio.create_subprocess_shell(
            command, cwd=tmp_path, env=environment, stdout=asyncio.subprocess.PIPE
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, command
        return output.decode()

    async def main() -> list[str]:
        cluster = EmbeddedCluster(RealClock(), random.Random(0), listen=Listen())
        for kind, documents in ((Node, NODES), (ReplicaSet, [WEB]), (Pod, PODS)):
            for document in documents:
                assert cluster.api.load(kind, document)
        async with cluster:
            (tmp_path / "kubeconfig").write_text(cluster.kubeconfig())
            return [await typed(command) for command in commands]

    captured, _, summary, again = asyncio.run(main())
    assert "objects in cluster.capture" in captured
    assert summary.startswith("lose a zone: 12h of virtual time, 1 run, 1 seed")
    rows = {line[:24].strip(): line[24:].split() for line in summary.splitlines() if line}
    assert rows["evicted"] == ["3"]
    assert rows["bound"] == ["3"]
    assert rows["pending at the end"] == ["0"]
    # Unreachable after 50 s, evicted five minutes later: visible in the next sample.
    assert "most pods waited after 8h10m: 1 (1 Insufficient cpu)" in summary
    assert summary.split("digest ")[1][:32] == again.split("digest ")[1][:32]
    assert "lose a zone" in (tmp_path / "report.html").read_text()
