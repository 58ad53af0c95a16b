"""`kubesched up --plugin`: the example plugin, from a file, with its configuration."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: small}
status: {allocatable: {cpu: "1", memory: 4Gi, pods: "10"}}
---
apiVersion: v1
kind: Node
metadata: {name: spare, labels: {example.com/reserve: "true"}}
status: {allocatable: {cpu: "8", memory: 4Gi, pods: "10"}}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {containers: [{name: c, image: app, resources: {requests: {cpu: "2"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: asks, labels: {example.com/reserve: "yes"}}
spec: {containers: [{name: c, image: app, resources: {requests: {cpu: "2"}}}]}
"""


def up(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    (folder / "cluster.yaml").write_text(CLUSTER)
    command = [sys.executable, "-m", "kubesched.cli.main", "up", *argv, "-o", "json"]
    command += ["-f", str(folder / "cluster.yaml")]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, cwd=ROOT
    )


def test_a_plugin_from_a_file_takes_part(tmp_path: Path) -> None:
    done = up(
        tmp_path,
        "--plugin=examples/spare_nodes.py",
        "--config=examples/spare_nodes_config.yaml",
    )
    assert done.returncode == 0, done.stderr
    summary: dict[str, Any] = json.loads(done.stdout)
    assert summary["bound"] == 1
    [pending] = summary["pending"]
    assert pending["name"] == "plain"
    assert "1 node(s) were held as spare" in pending["message"]


def test_without_a_configuration_a_named_plugin_runs_with_its_defaults(tmp_path: Path) -> None:
    done = up(tmp_path, "--plugin=examples/spare_nodes.py:SpareNodes")
    assert done.returncode == 0, done.stderr
    # The default label differs, so no node is reserved.
    assert json.loads(done.stdout)["bound"] == 2


def test_a_plugin_that_cannot_be_loaded_is_reported_in_one_line(tmp_path: Path) -> None:
    done = up(tmp_path, "--plugin=examples/nope.py")
    assert done.returncode == 2
    assert done.stderr == "kubesched: plugin examples/nope.py: no such file\n"


def test_a_configuration_needs_the_plugin_that_it_enables(tmp_path: Path) -> None:
    done = up(tmp_path, "--config=examples/spare_nodes_config.yaml")
    assert done.returncode == 2
    assert done.stderr == (
        "examples/spare_nodes_config.yaml:9: initializing profiles: creating profile for scheduler "
        "name "
        'default-scheduler: PreFilterPlugin "SpareNodes" does not exist\n'
    )


LYING = """\
from kubesched.framework import Plugin, PodPart, Reads


class Lying(Plugin):
    name = "Lying"
    reads = Reads(pod=PodPart.TEMPLATE, other_nodes=False)

    def score(self, state, pod, node):
        everywhere = sum(len(each.pods) for each in self.handle.snapshot.nodes)
        return max(0, 100 - everywhere) if node.name < "node-10" else 100
"""


def test_a_plugin_that_reads_more_than_it_declares_stops_a_verified_run(tmp_path: Path) -> None:
    plugin = tmp_path / "lying.py"
    plugin.write_text(LYING)
    done = subprocess.run(
        [sys.executable, "-m", "kubesched.cli.main", "up", "--verify-engine", f"--plugin={plugin}"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 1
    assert "the engine and a full evaluation differ in totals" in done.stderr
    assert "Traceback" not in done.stderr
