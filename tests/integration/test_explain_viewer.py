"""`kubesched explain` as somebody who may only read some kinds: it works, and writes nothing."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import aiohttp
import yaml
from msgspec.structs import replace

from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.testing import make_node, make_pod
from kubesched.util.clock import RealClock

READABLE = {
    "": ["nodes", "pods", "namespaces", "persistentvolumeclaims", "services"],
    "apps": ["deployments", "replicasets", "statefulsets", "daemonsets"],
}


def role(name: str, left_out: str = "") -> dict[str, Any]:
    return {
        "metadata": {"name": name},
        "rules": [
            {
                "apiGroups": [group],
                "resources": [each for each in kinds if each != left_out],
                "verbs": ["get", "list"],
            }
            for group, kinds in READABLE.items()
        ],
    }


def binding(user: str) -> dict[str, Any]:
    api = "rbac.authorization.k8s.io"
    return {
        "metadata": {"name": user},
        "roleRef": {"apiGroup": api, "kind": "ClusterRole", "name": user},
        "subjects": [{"apiGroup": api, "kind": "User", "name": user}],
    }


async def grant(cluster: EmbeddedCluster) -> None:
    headers = {"Authorization": f"Bearer {cluster.token}"}
    connector = aiohttp.TCPConnector(ssl=False)
    async with aiohttp.ClientSession(connector=connector, headers=headers) as session:
        base = f"{cluster.url}/apis/rbac.authorization.k8s.io/v1"
        for path, body in (
            ("clusterroles", role("viewer")),
            ("clusterroles", role("stranger", "nodes")),
            ("clusterrolebindings", binding("viewer")),
            ("clusterrolebindings", binding("stranger")),
        ):
            async with session.post(f"{base}/{path}", json=body) as answer:
                assert answer.status == 201, await answer.text()


def kubeconfig_of(cluster: EmbeddedCluster, user: str, path: Path) -> Path:
    document = yaml.safe_load(cluster.kubeconfig())
    for each in document["users"]:
        each["user"]["as"] = user
    path.write_text(yaml.safe_dump(document))
    return path


async def explained(kubeconfig: Path) -> Any:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "kubesched.cli.main", "explain", "pod", "default/giant",
        "--kubeconfig", str(kubeconfig), "-o", "json",
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, _ = await process.communicate()
    assert process.returncode == 0
    return json.loads(out)


def test_a_viewer_is_answered_and_nothing_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        cluster = EmbeddedCluster(RealClock(), random.Random(0), listen=Listen(), rbac=True)
        async with cluster:
            pods = [make_pod("giant", images=["giant"], requests={"cpu": "64"})]
            for made in (*(make_node(f"n{number}") for number in range(20)), *pods):
                unborn = replace(made.metadata, uid="", resource_version="")
                await cluster.api.create(replace(made, metadata=unborn))
            await grant(cluster)
            before = cluster.store.revision
            answer = await explained(kubeconfig_of(cluster, "viewer", tmp_path / "viewer"))
            assert answer["summary"].startswith("Insufficient cpu: asks 64")
            assert answer["nodes"] == 20
            assert "StorageClass" in answer["unknown"]
            assert "Pod" not in answer["unknown"]
            told = await explained(kubeconfig_of(cluster, "stranger", tmp_path / "stranger"))
            assert told["summary"].startswith("you may not read nodes")
            assert cluster.store.revision == before

    asyncio.run(main())
