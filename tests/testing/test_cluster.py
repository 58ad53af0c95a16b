"""`kubesched.testing.Cluster`: pods are scheduled, clients are served, nothing remains."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubesched.api import ApiError, Node, Pod
from kubesched.api.custom_kinds import custom_kind
from kubesched.framework import SUCCESS, CycleState, NodeInfo, Plugin, Status
from kubesched.testing import Cluster, cluster_in_thread, make_node, make_pod
from kubesched.testing.fixtures import cluster_fixture, kubesched_cluster

__all__ = ["kubesched_cluster"]  # pytest finds it here, installed or not

shared = cluster_fixture(scope="module", nodes=2)


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


def test_waiting_for_a_condition_times_out() -> None:
    async def main() -> None:
        async with Cluster(nodes=0, serve=False) as cluster:
            with pytest.raises(TimeoutError):
                await cluster.wait_for(Pod, "none", lambda _: True, timeout_s=0.01)

    asyncio.run(main())


def test_a_timeout_lists_the_existing_pods() -> None:
    async def main() -> None:
        async with Cluster(nodes=0, serve=False) as cluster:
            with pytest.raises(
                TimeoutError, match=r"Pod default/p: not within 0.01 s; there is no"
            ):
                await cluster.wait_for(Pod, "p", "Ready", timeout_s=0.01)
            await cluster.api.create(make_pod("p"))
            with pytest.raises(TimeoutError, match=r'its status is \{"phase": "Pending"'):
                await cluster.wait_for(Pod, "p", "Ready", timeout_s=0.01)

    asyncio.run(main())


def test_a_condition_has_a_name() -> None:
    async def main() -> None:
        async with Cluster(nodes=1, serve=False) as cluster:
            await cluster.api.create(make_pod("p"))
            ready = await cluster.wait_for(Pod, "p", "Ready")
            assert "Ready" in {each.type for each in ready.status.conditions}
            node = await cluster.wait_for(Node, "node-0", "Ready")
            assert node.metadata.name == "node-0", "which is in no namespace"

    asyncio.run(main())


def test_a_cluster_in_a_thread_is_waited_for_with_and_without_asyncio() -> None:
    with cluster_in_thread(1, serve=False) as cluster:
        cluster.run(cluster.api.create(make_pod("p")))
        assert cluster.wait(Pod, "p", "Ready").spec.node_name == "node-0"
        found = asyncio.run(cluster.wait_for(Pod, "p", lambda pod: pod.spec.node_name))
        assert found.spec.node_name == "node-0"


DEFINITION = """\
apiVersion: example.com/v1
kind: Widget
metadata: {name: w}
spec: {size: 3}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
"""


def test_a_cluster_begins_with_what_files_have(tmp_path: Path) -> None:
    path = tmp_path / "widget.yaml"
    path.write_text(DEFINITION)
    widgets = custom_kind("widgets.v1.example.com", "Widget")
    assert widgets is not None

    async def main() -> None:
        for serve in (False, True):
            async with Cluster(nodes=0, serve=serve, files=[path]) as cluster:
                found = await cluster.api.get(widgets.type, "w", "default")
                assert found.spec == {"size": 3}
        async with Cluster(nodes=0, serve=False) as cluster:
            await cluster.apply(path)
            await cluster.apply(path)
            assert len((await cluster.api.list(widgets.type)).items) == 1

    asyncio.run(main())


PROFILES = {"profiles": [{"schedulerName": "mine"}]}
TEXT = (
    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    + json.dumps(PROFILES).strip("{}")
)


@pytest.mark.parametrize("form", ["dict", "text", "file"])
def test_a_configuration_has_several_forms(form: str, tmp_path: Path) -> None:
    given: Any = PROFILES if form == "dict" else TEXT
    if form == "file":
        given = tmp_path / "config.yaml"
        given.write_text(TEXT)

    async def main() -> None:
        async with Cluster(nodes=1, serve=False, configuration=given) as cluster:
            await cluster.api.create(make_pod("p", scheduler_name="mine"))
            await cluster.wait_for(Pod, "p", "Ready")

    asyncio.run(main())


def test_an_exception_in_the_block_propagates_and_stops_components() -> None:
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


class OnlyB(Plugin):
    name = "OnlyB"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if node.name == "b" else Status.unresolvable("not b")


def test_objects_of_builders_can_be_created() -> None:
    async def main() -> Pod:
        async with Cluster(nodes=1, serve=False) as cluster:
            created = await cluster.api.create(make_pod("p"))
            assert created.metadata.uid
            return await cluster.wait_for(Pod, "p", lambda pod: pod.status.phase == "Running")

    assert asyncio.run(main()).spec.containers[0].image


@pytest.mark.parametrize("plugins", [[OnlyB], {"OnlyB": lambda args, handle: OnlyB(args, handle)}])
def test_the_plugins_of_the_caller_are_run(plugins: Any) -> None:
    async def main() -> str:
        nodes = [make_node("a"), make_node("b"), make_node("c")]
        async with Cluster(nodes, serve=False, plugins=plugins) as cluster:
            await cluster.api.create(make_pod("p"))
            pod = await cluster.wait_for(Pod, "p", lambda pod: bool(pod.spec.node_name))
            return pod.spec.node_name

    assert asyncio.run(main()) == "b"


def names(cluster: Cluster) -> list[str]:
    context = ssl._create_unverified_context()
    request = urllib.request.Request(
        f"{cluster.url}/api/v1/nodes", headers={"Authorization": f"Bearer {cluster.token}"}
    )
    with urllib.request.urlopen(request, context=context) as answer:
        return [each["metadata"]["name"] for each in json.load(answer)["items"]]


@pytest.mark.kubesched(nodes=[make_node("mine")])
def test_a_mark_sets_the_options_of_the_fixture(kubesched_cluster: Cluster) -> None:
    assert names(kubesched_cluster) == ["mine"]


def test_a_user_defined_fixture_may_have_another_scope(shared: Cluster) -> None:
    assert names(shared) == ["node-0", "node-1"]


def test_pytest_finds_the_fixtures_where_kubesched_is_installed() -> None:
    root = Path(__file__).resolve().parents[2]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    # Registered under the module's name, so that pytest_plugins may name it as well.
    assert project["entry-points"]["pytest11"] == {
        "kubesched.testing.fixtures": "kubesched.testing.fixtures"
    }
