"""`kubesched benchmark`: the pods are placed, and both configurations are measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kubesched.cli.main import cli
from kubesched.errors import ConfigError

PLUGIN = """\
from kubesched.framework import CycleState, NodeInfo, Plugin, SUCCESS, Status
from kubesched.api import Pod

LOW = Status.unresolvable("node(s) were expensive")


class Cheap(Plugin):
    name = "Cheap"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if node.label_number("price", 9.0) < 2 else LOW
"""
NODES = """\
apiVersion: v1
kind: Node
metadata: {name: cheap, labels: {price: "1", kubernetes.io/hostname: cheap}}
status: {allocatable: {cpu: "1", memory: 4Gi, pods: "2"}}
---
apiVersion: v1
kind: Node
metadata: {name: dear, labels: {price: "3"}}
status: {allocatable: {cpu: "1", memory: 4Gi, pods: "2"}}
"""
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: shop}
spec: {nodeName: elsewhere, containers: [{name: c, image: x}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
"""


def test_a_plugin_is_compared_with_the_default_configuration(tmp_path: Path) -> None:
    for name, text in (("cheap.py", PLUGIN), ("nodes.yaml", NODES), ("pod.yaml", POD)):
        (tmp_path / name).write_text(text)
    files = [str(tmp_path / name) for name in ("nodes.yaml", "pod.yaml")]
    plugin = str(tmp_path / "cheap.py")
    arguments = ["--plugin", plugin, "-f", files[0], "-f", files[1], "-o", "json"]
    counts = ["--nodes", "4", "--pods", "8", "--repeat", "1"]
    done = CliRunner().invoke(cli, ["benchmark", *arguments, *counts])
    assert done.exit_code == 0, done.output
    default, own = json.loads(done.stdout)["results"]
    # Two nodes of each price, with room for two pods each.
    assert (default["name"], default["placed"], default["pods"]) == ("default configuration", 8, 8)
    assert (own["name"], own["placed"]) == (plugin, 4)
    assert own["podsPerSecond"] > 0


def test_nodes_and_pods_are_there_without_files() -> None:
    counts = ["--nodes", "9", "--pods", "6", "--repeat", "1"]
    done = CliRunner().invoke(cli, ["benchmark", *counts])
    assert done.exit_code == 0, done.output
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[1] == ["CONFIGURATION", "PLACED", "PODS/S", "MS/POD", "COST"]
    assert rows[2][:3] == ["default", "configuration", "6/6"]


def test_a_file_without_nodes_and_pods_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(POD.partition("---")[2])
    with pytest.raises(ConfigError, match=r"no nodes and no pods in .*other\.yaml"):
        CliRunner().invoke(
            cli, ["benchmark", "-f", str(tmp_path / "other.yaml")], catch_exceptions=False
        )
