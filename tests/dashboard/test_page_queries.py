"""The queries of the page: frames, nodes with devices and volumes, the queue, changes."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import msgspec
import pytest

from kubesched.api import (
    Device,
    Node,
    ObjectMeta,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    Pod,
    ResourceClaim,
    ResourceSlice,
    ResourceSliceSpec,
)
from kubesched.api.kinds import by_api_version_kind
from kubesched.cluster.apiserver import LocalApi
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.dashboard.configuration_text import read_configuration
from kubesched.dashboard.embedded_changes import EmbeddedChanges
from kubesched.dashboard.node_detail import node_detail
from kubesched.dashboard.page_queries import PageQueries
from kubesched.foundation.util.clock import RealClock
from kubesched.framework import CycleState, Plugin, Status
from kubesched.testing import make_node, make_pod
from tests.dashboard.page_harness import FixedPageState, PageHarness, run

CLUSTER = (
    make_node("a", allocatable={"cpu": "4", "memory": "8Gi", "pods": "10"}),
    make_pod("r", node_name="a", requests={"cpu": "1"}, phase="Running"),
    make_pod("<b>waits</b>", requests={"cpu": "9"}),
)


def parsed(document: dict[str, Any]) -> Any:
    kind = by_api_version_kind(document.pop("apiVersion"), document.pop("kind"))
    assert kind is not None
    return msgspec.convert(document, kind.type)


def test_a_pending_pod_is_explained() -> None:
    async def work() -> None:
        page = PageHarness(*CLUSTER, make_pod("big", requests={"cpu": "9"}))
        async with page.signed_in_client() as client:
            async with client.get(f"{page.url}api/explanations/default/big") as answer:
                found = await answer.json()
            async with client.get(f"{page.url}api/pods/default/nobody") as answer:
                assert (answer.status, await answer.json()) == (
                    404,
                    {"error": "no pod default/nobody"},
                )
        assert found["verdict"] == "pending"
        assert "Insufficient cpu" in found["summary"]
        assert found["suggestions"][0]["edits"]

    run(work)


class _RejectsAll(Plugin):
    """A user's own plugin, which rejects every node."""

    name = "Shunning"

    def filter(self, state: CycleState, pod: Any, node: Any) -> Status:
        return Status.unschedulable("node(s) are shunned")


def test_user_plugins_contribute_to_explanations() -> None:
    async def work() -> None:
        state = FixedPageState(make_node("a"), make_pod("p"))
        text = (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "profiles:\n- plugins: {filter: {enabled: [{name: Shunning}]}}\n"
        )
        plugins = {"Shunning": _RejectsAll}
        configuration = read_configuration(text, plugins)
        state.configuration = lambda: configuration
        answers = PageQueries(state, now_ns=lambda: 0, plugins=plugins)
        found = msgspec.json.decode(await answers.get("explanations/default/p", {}))
        assert found["verdict"] == "pending"
        assert "shunned" in found["summary"]

    run(work)


def test_the_stream_begins_with_everything() -> None:
    async def work() -> None:
        page = PageHarness(*CLUSTER)
        async with page.signed_in_client() as client:
            async with client.get(f"{page.url}api/stream") as answer:
                line = await answer.content.readline()
            frame = json.loads(line.removeprefix(b"data: "))
        assert frame["nodes"] == [[0, "a", 1000, 0, 1]]
        assert (frame["shapes"][0]["cpu"], frame["shapes"][0]["pods"]) == (4000, 10)
        assert frame["counts"] == {"nodes": 1, "pods": 2, "placed": 1, "waiting": 1}
        assert frame["writable"] is False

    run(work)


def test_waiting_pods_have_reasons_without_a_scheduler_in_the_process() -> None:
    async def work() -> None:
        page = PageHarness(*CLUSTER)
        async with page.signed_in_client() as client, client.get(f"{page.url}api/queue") as answer:
            found = await answer.json()
        assert [pod["key"] for pod in found["pods"]] == ["default/<b>waits</b>"]
        assert found["reasons"][0]["reason"] == "not tried yet"
        assert "lengths" not in found

    run(work)


def test_names_are_searched_those_that_begin_with_the_text_first() -> None:
    async def work() -> None:
        pods = [make_pod(name) for name in ("old-web", "web-1", "db")]
        page = PageHarness(*pods, make_node("Webber"))
        async with (
            page.signed_in_client() as client,
            client.get(f"{page.url}api/search?text=web") as answer,
        ):
            found = await answer.json()
        assert [(each["kind"], each["name"]) for each in found] == [
            ("node", "Webber"),
            ("pod", "default/web-1"),
            ("pod", "default/old-web"),
        ]

    run(work)


def test_a_read_only_page_refuses_changes() -> None:
    async def work() -> None:
        page = PageHarness(*CLUSTER)
        async with page.signed_in_client() as client:
            for path in ("manifests", "apply", "scale", "nodes", "configuration"):
                status, _ = await page.post(client, path, {"text": "kind: Pod"})
                assert status == 403

    run(work)


@pytest.mark.parametrize(
    ("plan", "complaint"),
    [
        ({"add": 1_000_000_000}, "add: 1000000000 nodes, of which 10000 are allowed"),
        ({"add": -1}, "add: -1 nodes, of which 10000 are allowed"),
        (
            {"scale": [["deploy/a", 10**12]]},
            "scale: 1000000000000 replicas of deploy/a, of which 100000 are allowed",
        ),
        ({"scale": "ab"}, "invalid plan: "),
        ({"drain": 5}, "invalid plan: "),
        ({"add": [1]}, "invalid plan: "),
    ],
)
def test_a_plan_has_numbers_that_can_be_played(plan: dict[str, Any], complaint: str) -> None:
    async def work() -> None:
        page = PageHarness(*CLUSTER)
        async with page.signed_in_client() as client:
            status, body = await page.post(client, "whatif", plan)
            assert status == 400
            assert complaint in body["error"]

    run(work)


def test_objects_are_made_on_an_embedded_cluster() -> None:
    async def work() -> None:
        api = LocalApi(Store(), RealClock())
        page = PageHarness(*CLUSTER, changes=EmbeddedChanges(api, RealClock()))
        text = "apiVersion: v1\nkind: Node\nmetadata: {name: fresh}\n"
        wrong = text + "---\napiVersion: v1\nkind: Nod\n"
        async with page.signed_in_client() as client:
            answers = [
                await page.post(client, "manifests", {"text": each})
                for each in (text, "a: [b", wrong, text, "", "# nothing")
            ]
        assert answers[0] == (200, {"made": ["Node fresh"]})
        assert all(status == 400 for status, _ in answers[1:])
        words = [body["error"] for _, body in answers[1:]]
        assert "not YAML" in words[0]
        assert words[1] == "line 5: no kind 'Nod' in 'v1'"
        assert "already exists" in words[2]
        assert words[3] == words[4] == "the text contains no object"

    run(work)


def test_pods_are_counted_by_a_selector_or_a_part_of_their_names() -> None:
    def pod(name: str, node: str, **labels: str) -> Pod:
        return make_pod(name, node_name=node, labels=labels)

    pods = (pod("web-1", "a", app="web"), pod("web-2", "b", app="web"), pod("db", "b", app="db"))

    async def work() -> None:
        page = PageHarness(*CLUSTER, *pods)

        async def selected(text: str) -> Any:
            path = f"api/selected?text={quote(text)}"
            async with page.signed_in_client() as client, client.get(page.url + path) as answer:
                return await answer.json()

        assert await selected("app in (web,db)") == {"a": 1, "b": 2}
        assert await selected("app,app!=web") == {"b": 1}
        assert await selected("web-") == {"a": 1, "b": 1}
        wrong = await selected("app in (web")
        assert wrong["error"].startswith("selector 'app in (web': ")

    run(work)


def test_nodes_are_cordoned_uncordoned_and_deleted() -> None:
    async def work() -> None:
        api = LocalApi(Store(), RealClock())
        await api.create(Node(metadata=ObjectMeta(name="a")))
        page = PageHarness(*CLUSTER, changes=EmbeddedChanges(api, RealClock()))

        async def change(what: str, *names: str) -> tuple[int, object]:
            async with page.signed_in_client() as client:
                return await page.post(client, "nodes", {"names": names, "what": what})

        assert await change("cordon", "a") == (200, {"nodes": 1, "what": "cordon"})
        assert (await api.get(Node, "a")).spec.unschedulable
        assert (await change("uncordon", "a"))[0] == 200
        assert not (await api.get(Node, "a")).spec.unschedulable
        assert (await change("delete", "a"))[0] == 200
        status, answer = await change("delete", "a")
        assert (status, answer) == (400, {"error": 'nodes "a" not found'})
        assert (await change("paint", "a"))[0] == 400

    run(work)


def test_an_unusable_configuration_is_reported_in_one_line() -> None:
    async def work() -> None:
        page = PageHarness(*CLUSTER)
        text = (
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
            "profiles:\n- plugins: {filter: {enabled: [{name: NodePort}]}}\n"
        )
        async with page.signed_in_client() as client:
            status, body = await page.post(client, "whatif", {"configuration": text})
            assert status == 400
            assert "NodePort" in body["error"]
            assert body["error"].startswith("line 4: ")
            assert "\n" not in body["error"]
            status, body = await page.post(client, "whatif", {})
            assert (status, body["error"][:10]) == (400, "empty plan")

    run(work)


def test_a_node_opens_to_its_devices_and_their_pods() -> None:
    slice_ = ResourceSlice(
        spec=ResourceSliceSpec(
            driver="gpu.example.com",
            node_name="a",
            devices=(Device(name="gpu-0"), Device(name="gpu-1")),
        )
    )
    claim = parsed(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "ml"},
            "status": {
                "allocation": {
                    "devices": {
                        "results": [{"driver": "gpu.example.com", "pool": "", "device": "gpu-1"}]
                    }
                },
                "reservedFor": [{"resource": "pods", "name": "train", "uid": "u"}],
            },
        }
    )
    assert isinstance(claim, ResourceClaim)
    found = node_detail(FixedPageState(make_node("a"), slice_, claim), "a")
    assert found is not None
    assert [(each["name"], each["usedBy"]) for each in found["devices"]] == [
        ("gpu-0", []),
        ("gpu-1", ["ml/train"]),
    ]
    elsewhere = node_detail(FixedPageState(make_node("b"), slice_, claim), "b")
    assert elsewhere is not None
    assert elsewhere["devices"] == []


def test_a_node_opens_to_the_volumes_of_its_pods() -> None:
    pod = parsed(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "db", "namespace": "shop"},
            "spec": {
                "nodeName": "a",
                "volumes": [
                    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
                    {"name": "scratch", "ephemeral": {}},
                    {"name": "none", "emptyDir": {}},
                ],
            },
        }
    )
    claim = parsed(
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "data", "namespace": "shop"},
            "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "10Gi"}}},
            "status": {"phase": "Bound"},
        }
    )
    assert isinstance(claim, PersistentVolumeClaim)
    assert isinstance(claim.spec, PersistentVolumeClaimSpec)
    found = node_detail(FixedPageState(make_node("a"), pod, claim), "a")
    assert found is not None
    rows = [(each["name"], each["phase"], each.get("size")) for each in found["volumes"]]
    assert rows == [("shop/data", "Bound", "10Gi"), ("shop/db-scratch", "missing", None)]
