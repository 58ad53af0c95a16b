"""`kubesched node` against a cluster that is being served."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kubesched.api import Node, Taint
from kubesched.cli.node_action import nodes_to_add
from kubesched.testing.cluster import Cluster, cluster_in_thread


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with cluster_in_thread(0) as running:
        yield running


def node(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    config = ["--kubeconfig", str(cluster.kubeconfig_path)]
    return subprocess.run(
        [sys.executable, "-m", "kubesched.cli.main", "node", *arguments, *config],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_nodes_come_and_go(cluster: Cluster) -> None:
    added = node(cluster, "add", "--count", "3", "--cpu", "8", "--memory", "32Gi")
    assert added.stdout.split() == ["node-0", "node-1", "node-2"], added.stderr
    assert node(cluster, "remove", "node-1").stdout.split() == ["node-1"]
    assert node(cluster, "add", "--count", "2").stdout.split() == ["node-1", "node-3"]
    assert node(cluster, "remove", "node-3", "-o", "json").stdout == '["node-3"]\n'
    gone = node(cluster, "remove", "none")
    assert gone.returncode == 1
    assert gone.stderr == 'kubesched: nodes "none" not found\n'


def test_nodes_stop_and_start_by_name_or_label(cluster: Cluster) -> None:
    node(cluster, "add", "--count", "2", "--prefix", "dark", "--zones", "x,y")
    assert node(cluster, "stop", "dark-0").stdout.split() == ["dark-0"]
    zone = "topology.kubernetes.io/zone"
    both = node(cluster, "stop", "dark-0", "-l", f"{zone} in (x,y)")
    assert both.stdout.split() == ["dark-0", "dark-1"]
    stopped = [
        document["metadata"]["annotations"].get("kubesched.io/stopped")
        for name in ("dark-0", "dark-1")
        if (document := cluster.api.document(Node, name))
    ]
    assert stopped == ["true", "true"]
    assert node(cluster, "start", "-l", f"{zone}=y").stdout.split() == ["dark-1"]
    annotations = cluster.api.document(Node, "dark-1")["metadata"].get("annotations", {})
    assert "kubesched.io/stopped" not in annotations
    unnamed = node(cluster, "stop")
    assert unnamed.returncode == 2
    assert "name some nodes" in unnamed.stderr
    assert node(cluster, "stop", "none").returncode == 1


def test_nodes_have_devices(cluster: Cluster) -> None:
    options = ["--device", "gpu.example.com:2", "--attribute", "model=a100", "--partitions", "2"]
    added = node(cluster, "add", "--prefix", "gpu", *options)
    assert added.stdout.split() == ["gpu-0"], added.stderr
    text = cluster.api.document(Node, "gpu-0")["metadata"]["annotations"]["kubesched.io/devices"]
    (group,) = json.loads(text)
    assert group == {
        "driver": "gpu.example.com",
        "count": 2,
        "attributes": {"model": "a100"},
        "partitions": 2,
    }
    refused = node(cluster, "add", "--device", "gpu.example.com")
    assert refused.returncode == 2
    assert "is not DRIVER:COUNT" in refused.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["--cpu", "x"],
        ["--label", "a"],
        ["--taint", "a=b"],
        ["--taint", "a:Never"],
        ["--count", "0"],
    ],
)
def test_options_that_lead_to_an_invalid_node_are_refused(
    cluster: Cluster, arguments: list[str]
) -> None:
    refused = node(cluster, "add", *arguments)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


def test_nodes_have_the_requested_amounts() -> None:
    taint = Taint(key="k", value="v", effect="NoSchedule")
    resources = {"cpu": "8", "example.com/gpu": "4"}
    made = nodes_to_add(3, "n", resources, {"a": "b"}, ["x", "y"], (taint,), ["n-1"])
    assert [each.metadata.name for each in made] == ["n-0", "n-2", "n-3"]
    zones = [each.metadata.labels["topology.kubernetes.io/zone"] for each in made]
    assert zones == ["x", "x", "y"]
    for each in made:
        assert each.status.allocatable == resources
        assert each.spec.taints == (taint,)
        assert each.metadata.labels["a"] == "b"
        assert each.metadata.labels["kubernetes.io/hostname"] == each.metadata.name
