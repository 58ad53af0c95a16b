"""A plugin of a user is explained like the in-tree ones: details, causes and verified remedies."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubesched.api import Pod
from kubesched.cli.main import cli
from kubesched.explain import Snapshot
from kubesched.framework import (
    SUCCESS,
    Cause,
    CycleState,
    Detail,
    Explaining,
    NodeInfo,
    Plugin,
    RejectedNodes,
    Remedy,
    Status,
    extension_points,
)
from kubesched.scheduler.config.configuration_completion import (
    IN_TREE_EXTENSION_POINTS,
    complete_configuration,
)
from kubesched.scheduler.config.load import load_configuration
from kubesched.scheduler.plugins.registry import IN_TREE_PLUGINS
from kubesched.testing import make_node, make_pod

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
KEY = "example.com/reserve"
CLUSTER = f"""\
apiVersion: v1
kind: List
items:
- {{apiVersion: v1, kind: Node, metadata: {{name: a, labels: {{{KEY}: "true"}}}},
   status: {{allocatable: {{cpu: "4", memory: 8Gi, pods: "10"}}}}}}
- {{apiVersion: v1, kind: Node, metadata: {{name: b, labels: {{{KEY}: "true"}}}},
   status: {{allocatable: {{cpu: "4", memory: 8Gi, pods: "10"}}}}}}
- {{apiVersion: v1, kind: Node, metadata: {{name: small}},
   status: {{allocatable: {{cpu: "1", memory: 8Gi, pods: "10"}}}}}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: web, namespace: shop}}
  spec: {{containers: [{{name: c, resources: {{requests: {{cpu: "2"}}}}}}]}}
"""
ALL_SPARE = CLUSTER.replace("name: small", f'name: small, labels: {{{KEY}: "true"}}')


def explain(tmp_path: Path, objects: str, *options: str) -> str:
    """The output of `kubesched explain pod` with the example plugin, given as a file."""
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(objects)
    done = CliRunner().invoke(
        cli,
        [
            *("explain", "pod", "shop/web", f"--filename={cluster}"),
            f"--plugin={EXAMPLES / 'spare_nodes.py'}",
            f"--config={EXAMPLES / 'spare_nodes_config.yaml'}",
            *options,
        ],
    )
    assert done.exit_code == 0, done.output
    return done.stdout


def test_the_text_shows_the_cause_and_the_verified_remedies(tmp_path: Path) -> None:
    text = " ".join(explain(tmp_path, ALL_SPARE).split())
    assert f"PENDING: 3 spare nodes accept only pods with the label {KEY}." in text
    assert f"To fix it: add the label {KEY}=true to the pod, or make a an ordinary node" in text


def test_the_json_has_the_cause_as_data(tmp_path: Path) -> None:
    answer = json.loads(explain(tmp_path, CLUSTER, "-o", "json"))
    rejections = {
        rejection["plugin"]: rejection
        for group in answer["groups"]
        for rejection in group["rejections"]
    }
    assert rejections["SpareNodes"]["cause"] == {"type": "HeldAsSpare"}
    assert rejections["SpareNodes"]["detail"] == "spare: a, b"
    assert rejections["NodeResourcesFit"]["cause"] == {
        "type": "InsufficientResource",
        "resource": "cpu",
        "asked": 2000,
        "free": 1000,
    }
    changes = {each["change"]: each for each in answer["suggestions"]}
    own = changes[f"add the label {KEY}=true to the pod"]
    assert (own["verified"], own["kind"], own["node"] in ("a", "b")) == (True, "pod", True)
    relabelled = changes["make a an ordinary node"]
    assert (relabelled["verified"], relabelled["kind"], relabelled["node"]) == (
        True,
        "cluster",
        "a",
    )


class Broken(Explaining):
    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        raise ValueError("a mistake")

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        yield Remedy("wait", 1.0, rejected.pod)
        raise ValueError("another mistake")


class Refusing(Plugin):
    name = "Refusing"
    part: Explaining | None = None

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if pod.metadata.labels else Status.unschedulable("node(s) refuse")

    def explaining(self) -> Explaining | None:
        return self.part


def rejection_of_refusing(part: Explaining | None, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(Refusing, "part", part)
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- plugins: {filter: {enabled: [{name: Refusing}]}}\n"
    )
    configuration = complete_configuration(
        load_configuration(text),
        {**IN_TREE_EXTENSION_POINTS, "Refusing": extension_points(Refusing)},
    )
    snapshot = Snapshot(
        [make_node("a"), make_pod("p")],
        configuration=configuration,
        plugins={**IN_TREE_PLUGINS, "Refusing": Refusing},
    )
    answer = snapshot.explain("p")
    assert "node(s) refuse" in answer.summary
    return answer.groups[0].rejections[0]


def test_a_plugin_without_an_explaining_part_has_its_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rejection = rejection_of_refusing(None, monkeypatch)
    assert (rejection.reason, rejection.detail, rejection.cause) == ("node(s) refuse", "", None)


def test_a_mistake_in_an_explaining_part_does_not_hide_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rejection = rejection_of_refusing(Broken(), monkeypatch)
    assert rejection.reason == "node(s) refuse"
    assert "a mistake" in rejection.detail


def test_a_scheduler_does_not_import_explaining_parts() -> None:
    program = (
        "import sys, kubesched.scheduler.scheduler, kubesched.scheduler.plugins.registry as r\n"
        "loaded = [each for each in sys.modules if each.endswith('.explaining')]\n"
        "assert loaded == ['kubesched.framework.explaining'], loaded\n"
        "assert not any(each.startswith('kubesched.explain') for each in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
