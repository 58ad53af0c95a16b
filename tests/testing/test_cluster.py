"""The cluster that tests get: pods are scheduled, clients are served, nothing stays."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import urllib.request

import pytest
import yaml

from kubesched.api import ApiError, Pod
from kubesched.testing import Cluster, cluster_in_thread, make_node, make_pod
from kubesched.testing.fixtures import kubesched_cluster

__all__ = ["kubesched_cluster"]  # pytest finds it here


def pod(name: str) -> Pod:
    return make_pod(name, images=["pause"], uid="", resource_version="")


def test_a_pod_is_scheduled_and_runs() -> None:
    async def main() -> None:
        async with Cluster(nodes=[make_node("only")], serve=False) as cluster:
            assert cluster.url == ""
            await cluster.api.create(pod("p"))
            placed = await cluster.wait_for(Pod, "p", lambda pod: pod.status.phase == "Running")
            assert placed.spec.node_name == "only"
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_what_never_happens_is_not_waited_for_for_ever() -> None:
    async def main() -> None:
        async with Cluster(nodes=0, serve=False) as cluster:
            with pytest.raises(TimeoutError):
                await cluster.wait_for(Pod, "none", lambda _: True, timeout_s=0.01)

    asyncio.run(main())


def test_an_error_in_the_block_comes_out_and_everything_ends() -> None:
    async def main() -> None:
        with pytest.raises(ApiError, match="not found"):
            async with Cluster(nodes=1) as cluster:
                await cluster.api.get(Pod, "none", "default")
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_nodes_that_cannot_be_created_fail_the_start() -> None:
    async def main() -> None:
        with pytest.raises(ApiError, match="already exists"):
            async with Cluster(nodes=[make_node("n"), make_node("n")], serve=False):
                raise AssertionError("it began")

    asyncio.run(main())
    with (
        pytest.raises(ApiError, match="already exists"),
        cluster_in_thread([make_node("n"), make_node("n")], serve=False),
    ):
        raise AssertionError("it began")


def test_clients_without_asyncio_find_it_by_its_kubeconfig(kubesched_cluster: Cluster) -> None:
    config = yaml.safe_load(kubesched_cluster.kubeconfig_path.read_text())
    assert config["clusters"][0]["cluster"]["server"] == kubesched_cluster.url
    request = urllib.request.Request(
        f"{kubesched_cluster.url}/api/v1/nodes",
        headers={"Authorization": f"Bearer {kubesched_cluster.token}"},
    )
    unchecked = ssl.create_default_context()
    unchecked.check_hostname, unchecked.verify_mode = False, ssl.CERT_NONE
    with urllib.request.urlopen(request, context=unchecked, timeout=20) as answer:
        assert len(json.load(answer)["items"]) == 3


def test_a_thread_and_its_files_go_with_the_block() -> None:
    with cluster_in_thread(1) as cluster:
        path = cluster.kubeconfig_path
        assert path.exists()
    assert not path.exists()
    assert not [each for each in threading.enumerate() if each.name == "Cluster"]
