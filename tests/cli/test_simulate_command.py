"""`kubesched simulate`, `check` and `tune`, as a user types them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubesched.cli.main import cli
from kubesched.util.errors import KubeschedError

ROOT = Path(__file__).resolve().parents[2]
SCENARIO = """\
name: tiny
duration: 30m
step: 10m
seeds: 1-2
cluster:
  nodes:
  - {name: n, count: 3, cpu: 4, memory: 8Gi, zones: [a, b, c]}
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


def test_a_summary_a_page_and_runs_that_are_kept(folder: Path) -> None:
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
        "name: fits\ngiven: {nodes: [{name: n, cpu: 4, memory: 8Gi}]}\n"
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


LOSE_A_ZONE = """\
kind: Scenario
name: lose a zone
duration: 2h
step: 10m
cluster:
  capture: cluster.capture
traces:
- file: monday.jsonl
events:
- fail: {zone: zone-a}
  at: 1h
  for: 30m
"""
DUMP = """\
apiVersion: v1
kind: List
items:
"""


def test_from_a_capture_to_a_lost_zone(folder: Path) -> None:
    """The commands of docs/simulate.md; recording needs a live cluster, so its file is made."""
    nodes = "".join(
        f"- {{apiVersion: v1, kind: Node, metadata: {{name: n{n}, labels: "
        f"{{topology.kubernetes.io/zone: zone-{zone}}}}}, status: "
        f"{{allocatable: {{cpu: '4', memory: 8Gi, pods: '20'}}}}}}\n"
        for n, zone in enumerate("abab")
    )
    (folder / "dump.yaml").write_text(DUMP + nodes)
    invoke("capture", "-f", "dump.yaml", "-o", "cluster.capture")
    added = {
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    lines = [
        {"format": "kubesched-trace/1", "start": "2026-01-05T00:00:00Z"},
        {"time": 5, "add": added},
    ]
    (folder / "monday.jsonl").write_text("\n".join(map(json.dumps, lines)))
    (folder / "lose-a-zone.yaml").write_text(LOSE_A_ZONE)
    text = invoke("simulate", "lose-a-zone.yaml", "-o", "report.html")
    assert text.startswith("lose a zone: 2h of virtual time, 1 runs, 1 seed")
    assert (folder / "report.html").exists()


def test_the_documents_show_what_is_tested() -> None:
    text = (ROOT / "docs" / "simulate.md").read_text()
    for command in (
        "kubesched capture -o cluster.capture",
        "kubesched record -o monday.jsonl --for 24h",
        "kubesched simulate lose-a-zone.yaml -o report.html",
    ):
        assert command in text
