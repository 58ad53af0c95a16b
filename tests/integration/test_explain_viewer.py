"""`kubesched explain` and `dashboard` for a user who may read only a part of a cluster."""

from __future__ import annotations

import asyncio
import json
import random
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import pytest
import yaml
from msgspec.structs import replace

from kubesched.api import Namespace, ObjectMeta, Pod, PodCondition
from kubesched.cluster.apiserver.http.users import Users
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.explain.clusters.reading_role import reading_role
from kubesched.foundation.util.clock import RealClock
from kubesched.testing import make_node, make_pod
from tests.explain.device_causes import GPU, claim

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "explain.md"

RBAC = "rbac.authorization.k8s.io"
NODES = {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "watch"]}
PODS = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}
FULL = "0/1000 nodes are available: 1000 Insufficient cpu."


def bound(kind: str, user: str, role_kind: str, role: str) -> tuple[str, dict[str, Any]]:
    body = {
        "metadata": {"name": f"{user}-{role}"},
        "roleRef": {"apiGroup": RBAC, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": RBAC, "kind": "User", "name": user}],
    }
    return kind, body


# The viewer may not read volumes and storage classes, and the output must name these. Of the
# others, one may read nodes and the pods of a namespace, one such pods only.
GRANTS: list[tuple[str, dict[str, Any]]] = [
    ("clusterroles", {"metadata": {"name": "nodes"}, "rules": [NODES]}),
    ("namespaces/default/roles", {"metadata": {"name": "pods"}, "rules": [PODS]}),
    bound("clusterrolebindings", "viewer", "ClusterRole", "view"),
    bound("clusterrolebindings", "viewer", "ClusterRole", "nodes"),
    bound("namespaces/default/rolebindings", "tenant", "Role", "pods"),
    bound("clusterrolebindings", "tenant", "ClusterRole", "nodes"),
    bound("namespaces/default/rolebindings", "stranger", "Role", "pods"),
]


async def grant(cluster: EmbeddedCluster, grants: list[tuple[str, dict[str, Any]]]) -> None:
    headers = {"Authorization": f"Bearer {cluster.token}"}
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        for path, body in grants:
            url = f"{cluster.url}/apis/{RBAC}/v1/{path}"
            async with session.post(url, json=body) as answer:
                assert answer.status == 201, await answer.text()


def kubeconfig_of(cluster: EmbeddedCluster, user: str, path: Path) -> Path:
    document = yaml.safe_load(cluster.kubeconfig())
    for each in document["users"]:
        each["user"]["as"] = user
    path.write_text(yaml.safe_dump(document))
    return path


async def explained(kubeconfig: Path) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesched.cli.main", "explain", "pod", "default/small",
        "--kubeconfig", str(kubeconfig), "-o", "json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


class Page(NamedTuple):
    """The first frame, and the explanation of a pod."""

    frame: Any
    explanation: Any


async def page_of(kubeconfig: Path) -> Page:
    """Return the responses of `kubesched dashboard` to a browser that opens its link."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesched.cli.main", "dashboard",
        "--kubeconfig", str(kubeconfig), "--listen", "127.0.0.1:0",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    try:
        link = (await process.stdout.readline()).decode().removeprefix("Dashboard: ").strip()
        assert link, "it ended without a link"
        jar = aiohttp.CookieJar(unsafe=True)
        async with aiohttp.ClientSession(cookie_jar=jar) as session:
            async with session.get(link) as answer:
                assert answer.status == 200
                base = str(answer.url)
            async with session.get(f"{base}api/stream") as stream:
                frame = (await stream.content.readline()).removeprefix(b"data: ")
            explanation = await asked(session, f"{base}api/explanations/default/small")
            return Page(json.loads(frame), explanation)
    finally:
        process.terminate()
        await process.communicate()


async def asked(session: aiohttp.ClientSession, url: str) -> Any:
    """Return a response; at first the page may not have read the cluster yet."""
    for _ in range(200):
        async with session.get(url) as answer:
            if answer.status == 200:
                return await answer.json()
            told = await answer.text()
        await asyncio.sleep(0.1)
    raise AssertionError(told)


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Record the user and the verb of every request to the server."""
    made: list[tuple[str, str]] = []
    authorize = Users.authorize

    def noted(self: Users, user: Any, attributes: Any) -> Any:
        made.append((user.name, attributes.verb))
        return authorize(self, user, attributes)

    monkeypatch.setattr(Users, "authorize", noted)
    return made


def told(pod: Pod) -> Pod:
    condition = PodCondition(
        type="PodScheduled", status="False", reason="Unschedulable", message=FULL
    )
    return replace(pod, status=replace(pod.status, conditions=(condition,)))


async def fill(cluster: EmbeddedCluster) -> None:
    """A thousand nodes, full with pods of another namespace, and a pod that waits."""
    await cluster.api.create(Namespace(metadata=ObjectMeta(name="other")))
    nodes = [make_node(f"n{number}", cpu="4") for number in range(1000)]
    busy = [
        make_pod(f"b{n}", namespace="other", node_name=f"n{n}", images=["b"], requests={"cpu": "4"})
        for n in range(1000)
    ]
    small = told(make_pod("small", images=["small"], requests={"cpu": "1"}))
    for made in (*nodes, *busy, small):
        unborn = replace(made.metadata, uid="", resource_version="")
        await cluster.api.create(replace(made, metadata=unborn))
    stored = await cluster.api.get(Pod, "small", "default")
    await cluster.api.update(replace(stored, status=small.status), subresource="status")


def documented_role() -> dict[str, Any]:
    """The role that docs/explain.md shows."""
    text = DOCUMENT.read_text()
    (block,) = re.findall(r"^<!-- role -->\n```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    role: dict[str, Any] = yaml.safe_load(block)
    return role


def test_the_documented_role_has_every_kind_that_is_read() -> None:
    assert documented_role() == reading_role()


def test_with_exactly_the_documented_role_nothing_is_unknown(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(RealClock(), random.Random(0), listen=Listen(), rbac=True)
        async with cluster:
            pod = make_pod("small", images=["small"], resource_claims={"gpu": "gpu"})
            made: list[Any] = [make_node("n0", cpu="4"), GPU, claim("gpu", "gpu"), pod]
            for each in made:
                metadata = replace(each.metadata, uid="", resource_version="")
                if metadata.namespace:
                    metadata = replace(metadata, namespace="default")
                await cluster.api.create(replace(each, metadata=metadata))
            role = documented_role()
            name = role["metadata"]["name"]
            await grant(
                cluster,
                [("clusterroles", role), bound("clusterrolebindings", "sre", "ClusterRole", name)],
            )
            answer = await explained(kubeconfig_of(cluster, "sre", tmp_path / "sre"))
            assert answer["unknown"] == []
            assert answer["partial"] == []
            assert answer["verdict"] == "pending"
            assert "no node offers any device" in answer["summary"]

    asyncio.run(main())


def test_viewers_are_answered_by_reading_alone(
    tmp_path: Path, requests: list[tuple[str, str]]
) -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(RealClock(), random.Random(0), listen=Listen(), rbac=True)
        async with cluster:
            await fill(cluster)
            await grant(cluster, GRANTS)
            before = cluster.store.revision
            files = {
                user: kubeconfig_of(cluster, user, tmp_path / user)
                for user in ("viewer", "tenant", "stranger")
            }
            viewer, tenant, page, other_page = await asyncio.gather(
                explained(files["viewer"]),
                explained(files["tenant"]),
                page_of(files["tenant"]),
                page_of(files["stranger"]),
            )
            assert viewer["summary"].startswith("Insufficient cpu: asks 1, and none is free")
            assert viewer["nodes"] == 1000
            assert "StorageClass" in viewer["unknown"]
            assert "Pod" not in (*viewer["unknown"], *viewer.get("partial", ()))
            for answer in (tenant, page.explanation):
                assert answer["verdict"] == "pending"
                assert answer["partial"] == ["Pod"]
                assert answer["summary"].startswith(f"the scheduler said: {FULL}")
                assert "you may read those of namespace default" in answer["summary"]
            assert page.frame["limits"]["partial"] == ["Pod"]
            assert page.frame["limits"]["namespace"] == "default"
            assert "Node" in other_page.frame["limits"]["unknown"]
            assert other_page.explanation["summary"].startswith("you may not read nodes")
            assert FULL in other_page.explanation["summary"]
            assert cluster.store.revision == before
        verbs = {verb for user, verb in requests if user in files}
        assert {"list", "watch"} <= verbs <= {"get", "list", "watch"}

    asyncio.run(main())
