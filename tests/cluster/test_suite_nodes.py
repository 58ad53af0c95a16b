"""The nodes that the documentation names for the e2e suite."""

from __future__ import annotations

from pathlib import Path

from kubesched.api import Node
from kubesched.cluster.manifests import load_manifests

_FILE = Path(__file__).parents[2] / "examples" / "suite_nodes.yaml"


def test_the_nodes_have_what_specs_require() -> None:
    nodes = [each.object for each in load_manifests([_FILE])]

    assert len(nodes) > 1
    zones = {each.metadata.labels["topology.kubernetes.io/zone"] for each in nodes}
    assert len(zones) > 1
    for node in nodes:
        assert isinstance(node, Node)
        assert node.metadata.labels["kubernetes.io/hostname"] == node.metadata.name
        assert node.metadata.labels["kubernetes.io/os"] == "linux"
        assert "ephemeral-storage" in node.status.allocatable
        assert not node.spec.taints
