"""Addresses of pods and nodes are unique, also after a restart of the cluster."""

from __future__ import annotations

import random
from pathlib import Path

from kubesched.api import Node, Pod
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.foundation.util.clock import SECOND, current_clock
from kubesched.foundation.util.components import running
from kubesched.foundation.util.virtual_loop import run


def addresses(data: Path, pods: list[str], nodes: list[str]) -> set[str]:
    """Start a cluster with a data file, add objects, and return all addresses in it."""

    async def main() -> set[str]:
        clock = current_clock()
        cluster = EmbeddedCluster(clock, random.Random(0), data=data)
        async with cluster, running(*cluster.parts):
            for name in nodes:
                await cluster.api.create_document(Node, None, {"metadata": {"name": name}})
            for name in pods:
                spec = {"nodeName": "n0", "containers": [{"name": "c", "image": "pause"}]}
                document = {"metadata": {"name": name}, "spec": spec}
                await cluster.api.create_document(Pod, "default", document)
            await clock.sleep(5 * SECOND)
            if "n0" in nodes:
                await cluster.api.delete(Node, "n1")
            found = {pod.status.pod_ip or "" for pod in (await cluster.api.list(Pod)).items}
            for node in (await cluster.api.list(Node)).items:
                found.add(node.status.addresses[0].address)
            return found

    return run(main)


def test_addresses_are_not_allocated_twice_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "cluster.db"
    first = addresses(data, ["a", "b"], ["n0", "n1", "n2"])
    assert len(first) == 4
    second = addresses(data, ["c"], ["n3"])
    assert len(second) == 6
    assert first < second
