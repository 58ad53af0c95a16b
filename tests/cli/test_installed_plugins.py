"""A plugin of an installed package is available in every command, without an option."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubesched.cli.main import cli

PLUGIN = '''
from kubesched.framework import Plugin, Status


class RejectsSecondFloor(Plugin):
    """Rejects every node of the second floor."""

    name = "RejectsSecondFloor"

    def filter(self, state, pod, node_info):
        if node_info.node.metadata.name.startswith("second"):
            return Status.unschedulable("the floor is being renovated")
        return Status.success()
'''
CONFIG = "profiles: [{plugins: {multiPoint: {enabled: [{name: RejectsSecondFloor}]}}}]"
FILE = f"""\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
{CONFIG}
"""
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: second-1}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: default}
spec: {containers: [{name: c, image: c}]}
"""
SCENARIO = f"""\
name: floors
duration: 10m
seeds: 1
cluster:
  nodes: [{{name: second, count: 2, cpu: 4, memory: 8Gi}}]
workloads: [{{name: w, kind: Deployment, replicas: 3, cpu: 1}}]
configurations: [{{name: house, config: {{{CONFIG}}}}}]
"""
CHECK = f"""\
name: nothing is placed
given: {{nodes: [{{name: second, cpu: 4, memory: 8Gi}}]}}
configuration: {{config: {{{CONFIG}}}}}
when: [{{pods: {{name: w, cpu: 1, labels: {{app: w}}}}}}]
then: [{{pending: {{pods: {{app: w}}, reason: the floor is being renovated}}}}]
"""


@pytest.fixture(autouse=True)
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a package `house` with the plugin into a folder on the import path."""
    site = tmp_path / "site"
    info = site / "house-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "house_of_plugins.py").write_text(PLUGIN)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: house\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[kubesched.plugins]\nrenovation = house_of_plugins:RejectsSecondFloor\n"
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "house_of_plugins", raising=False)
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "config.yaml": FILE,
        "cluster.yaml": CLUSTER,
        "scenario.yaml": SCENARIO,
        "check.yaml": CHECK,
    }.items():
        (tmp_path / name).write_text(text)
    return site


def invoke(*arguments: str, code: int = 0) -> str:
    done = CliRunner().invoke(cli, list(arguments))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.stdout


def test_config_validate_finds_it() -> None:
    invoke("config", "validate", "config.yaml")


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "pod", "default/p", "-f", "cluster.yaml", "--config", "config.yaml"),
        ("fit", "-f", "cluster.yaml", "--config", "config.yaml"),
        ("up", "-f", "cluster.yaml", "--config", "config.yaml", "--exit"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_commands_on_objects_run_it(arguments: tuple[str, ...]) -> None:
    assert "the floor is being renovated" in invoke(*arguments)


def test_whatif_runs_it() -> None:
    Path("change.yaml").write_text(CLUSTER.split("---")[1].replace("name: p", "name: q"))
    change = ("whatif", "-f", "cluster.yaml", "--changes", "change.yaml", "-o", "json")
    (without,) = json.loads(invoke(*change))["groups"]
    (with_plugin,) = json.loads(invoke(*change, "--config", "config.yaml"))["groups"]
    assert (without["pods_after"], with_plugin["pods_after"]) == (2, 1)


def test_simulate_runs_it() -> None:
    (run,) = json.loads(invoke("simulate", "scenario.yaml", "--processes", "1", "-o", "json"))
    assert run["pending"] == {"the floor is being renovated": 3}


def test_check_runs_it() -> None:
    assert invoke("check", "check.yaml").endswith("1 of 1 tests hold\n")
