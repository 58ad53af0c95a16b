"""The manifests as `kubectl kustomize deploy/` renders them, on an API server that enforces roles.

The scheduler runs in this process with the rendered account, configuration and flags. `KUBECTL`
names the program that renders; the default is the one on the path.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
import yaml

from kubesched.api import ApiError, Lease, Pod
from kubesched.cluster.embedded_cluster import ClusterPart, EmbeddedCluster, Listen
from kubesched.foundation.client.credentials import Credential, FixedCredentials
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.tls import TlsOptions
from kubesched.foundation.client.transport import OutgoingRequest, TransportError
from kubesched.foundation.util.clock import SECOND, RealClock
from kubesched.scheduler.process.process_setup import run_command_line
from kubesched.scheduler.process.scheduler_process import SchedulerProcess
from kubesched.testing import make_node, make_pod
from tests.integration.api_server_process import free_port

Json = dict[str, Any]

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
KUBECTL = os.environ.get("KUBECTL") or shutil.which("kubectl")
NAMESPACE = "kube-system"
READER = "extension-apiserver-authentication-reader"
# What the first API server of every real cluster creates, and deploy/ refers to.
EVERYWHERE = (
    {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "extension-apiserver-authentication", "namespace": NAMESPACE},
        "data": {},
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "Role",
        "metadata": {"name": READER, "namespace": NAMESPACE},
        "rules": [
            {
                "apiGroups": [""],
                "resources": ["configmaps"],
                "resourceNames": ["extension-apiserver-authentication"],
                "verbs": ["get", "list", "watch"],
            }
        ],
    },
)
# Every real cluster has this binding for the user of kube-scheduler.
KUBE_SCHEDULER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "RoleBinding",
    "metadata": {
        "name": "system::extension-apiserver-authentication-reader",
        "namespace": NAMESPACE,
    },
    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": READER},
    "subjects": [
        {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "system:kube-scheduler"}
    ],
}
PLURALS = {
    "ServiceAccount": ("", "v1", "serviceaccounts"),
    "ConfigMap": ("", "v1", "configmaps"),
    "Deployment": ("apps", "v1", "deployments"),
    "PodDisruptionBudget": ("policy", "v1", "poddisruptionbudgets"),
    "Role": ("rbac.authorization.k8s.io", "v1", "roles"),
    "ClusterRole": ("rbac.authorization.k8s.io", "v1", "clusterroles"),
    "RoleBinding": ("rbac.authorization.k8s.io", "v1", "rolebindings"),
    "ClusterRoleBinding": ("rbac.authorization.k8s.io", "v1", "clusterrolebindings"),
}

pytestmark = pytest.mark.skipif(
    KUBECTL is None, reason="kubectl is not installed (Debian: apt-get install kubernetes-client)"
)


@pytest.fixture(scope="module")
def manifests() -> str:
    assert KUBECTL is not None
    answer = subprocess.run(
        [KUBECTL, "kustomize", str(DEPLOY)], capture_output=True, text=True, check=True, timeout=60
    )
    return answer.stdout


@pytest.fixture
def objects(manifests: str) -> list[Json]:
    return list(yaml.safe_load_all(manifests))


def of_kind(objects: list[Json], kind: str) -> list[Json]:
    return [each for each in objects if each["kind"] == kind]


def named(objects: list[Json], kind: str, name: str) -> Json:
    (found,) = [each for each in of_kind(objects, kind) if each["metadata"]["name"] == name]
    return found


def pod_spec(objects: list[Json]) -> Json:
    (found,) = of_kind(objects, "Deployment")
    spec: Json = found["spec"]["template"]["spec"]
    return spec


class Installation(NamedTuple):
    """What a pod runs: the flags of its container, its files, and the account that it uses."""

    flags: list[str]
    files: dict[str, bytes]
    account: str = ""  # of the namespace; empty for the user of kube-scheduler


def deployment(objects: list[Json], edit: Callable[[str], str] = str) -> Installation:
    """Return what the Deployment runs, with an edited configuration."""
    spec = pod_spec(objects)
    (container,) = spec["containers"]
    assert container["args"][0] == "run"
    files = {}
    for mount in container["volumeMounts"]:
        (volume,) = [each for each in spec["volumes"] if each["name"] == mount["name"]]
        if "configMap" in volume:
            content = named(objects, "ConfigMap", volume["configMap"]["name"])["data"]
            for name, text in content.items():
                files[f"{mount['mountPath']}/{name}"] = edit(text).encode()
    return Installation(container["args"][1:], files, spec["serviceAccountName"])


def static_pod() -> Installation:
    """Return what deploy/static-pod.yaml runs with the configuration of docs/operating.md."""
    (container,) = yaml.safe_load((DEPLOY / "static-pod.yaml").read_text())["spec"]["containers"]
    assert container["args"][0] == "run"
    document = (ROOT / "docs" / "operating.md").read_text()
    (text,) = re.findall(r"```yaml\n# (/etc/kubernetes/\S+)\n(.*?)```", document, re.DOTALL)
    return Installation(container["args"][1:], {text[0]: text[1].encode()})


class RoleCluster:
    """An API server with roles that holds the rendered objects, and a scheduler for it."""

    def __init__(self, embedded: EmbeddedCluster, objects: list[Json], folder: Path) -> None:
        self.api, self._embedded = embedded.api, embedded
        self._kubeconfig, self._port = folder / "kubeconfig", free_port()
        store, now_ns = embedded.store, embedded.clock.now_ns()
        for each in (*EVERYWHERE, *objects):
            resource = store.catalog.by_url(*PLURALS[each["kind"]])
            store.create(resource, each["metadata"].get("namespace"), each, now_ns)

    async def scheduler(self, installation: Installation) -> SchedulerProcess:
        """Build the process that a pod runs."""
        access = yaml.safe_load(self._embedded.kubeconfig())
        if installation.account:
            token = await self._token(installation.account)
            access["users"][0]["user"] = {"token": token}
        else:
            access["users"][0]["user"]["as"] = "system:kube-scheduler"
        self._kubeconfig.write_text(yaml.safe_dump(access))
        place, here = "/etc/kubernetes/scheduler.conf", str(self._kubeconfig)
        outcome = run_command_line(
            [
                # A pod has the address and the credentials of its cluster in files.
                f"--authentication-kubeconfig={here}",
                f"--authorization-kubeconfig={here}",
                *(each.replace(place, here) for each in installation.flags),
                "--bind-address=127.0.0.1",
                f"--secure-port={self._port}",
            ],
            read_file=lambda path: (
                installation.files.get(path) or Path(path).read_bytes()
            ).replace(place.encode(), here.encode()),
            environment={**os.environ, "KUBECONFIG": here},
        )
        assert outcome.process is not None, outcome.failure
        return SchedulerProcess(outcome.process, RealClock(), 0, "host")

    async def _token(self, account: str) -> str:
        path = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{account}/token"
        server, body = self._embedded.url, b'{"spec": {}}'
        status, answer = await self._send(server, "POST", path, self._embedded.token, body)
        assert status == 201, answer
        return str(msgspec.json.decode(answer)["status"]["token"])

    async def get(self, path: str) -> tuple[int, str]:
        """Request a path of the scheduler as the administrator."""
        url = f"https://127.0.0.1:{self._port}"
        try:
            status, body = await self._send(url, "GET", path, self._embedded.token)
        except TransportError:
            return 0, ""
        return status, body.decode()

    async def until_status(self, path: str, wanted: int) -> str:
        while True:
            status, body = await self.get(path)
            if status == wanted:
                return body
            await asyncio.sleep(0.02)

    async def _send(
        self, server: str, method: str, path: str, token: str, body: bytes = b""
    ) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {token}"}
        connection = Connection(
            server=server,
            tls=TlsOptions(insecure=True),  # both certificates are self-signed
            credentials=FixedCredentials(Credential(headers=headers)),
        )
        transport = HttpTransport(connection)
        try:
            request = OutgoingRequest(method, path, body, "application/json", 10 * SECOND)
            answer = await transport.send(request)
        finally:
            await transport.close()
        return answer.status, answer.body


@contextlib.asynccontextmanager
async def installed(
    installation: Installation, objects: list[Json], folder: Path
) -> AsyncIterator[RoleCluster]:
    """Run a scheduler on a cluster with the rendered objects while the block runs."""
    embedded = EmbeddedCluster(
        RealClock(), random.Random(0), listen=Listen(), rbac=True, parts=ClusterPart.NONE
    )
    async with embedded:
        cluster = RoleCluster(embedded, objects, folder)
        process = await cluster.scheduler(installation)
        running = asyncio.create_task(process.run(), name="scheduler")
        try:
            async with asyncio.timeout(60):
                yield cluster
        finally:
            process.stop()
            await running


async def create(cluster: RoleCluster, made: Any) -> None:
    metadata = msgspec.structs.replace(made.metadata, resource_version="", uid="")
    await cluster.api.create(msgspec.structs.replace(made, metadata=metadata))


async def until_bound(cluster: RoleCluster) -> None:
    while True:
        if (await cluster.api.get(Pod, "p", "default")).spec.node_name:
            return
        await asyncio.sleep(0.02)


async def lead_and_bind(cluster: RoleCluster, lease: str, profile: str, probes: Json) -> None:
    await create(cluster, make_node("n", cpu="4", memory="8Gi"))
    await create(cluster, make_pod("p", scheduler_name=profile, images=["i"]))
    await until_bound(cluster)
    found = await cluster.api.get(Lease, lease, NAMESPACE)
    assert (found.spec.holder_identity or "").startswith("host_")
    # The probes of the container, as the kubelet calls them.
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = probes[probe]["httpGet"]
        assert asked["port"] in ("https", 10259)
        assert asked["scheme"] == "HTTPS"
        assert await cluster.get(asked["path"]) == (200, "ok"), probe
    verbose = await cluster.until_status("/readyz?verbose", 200)
    assert verbose.startswith("[+]leaderElection ok\n")
    metrics = await cluster.until_status("/metrics", 200)
    assert "kubesched_leader_election_failing 0\n" in metrics


def test_the_rendered_scheduler_leads_and_binds_a_pod(objects: list[Json], tmp_path: Path) -> None:
    async def main() -> None:
        (container,) = pod_spec(objects)["containers"]
        async with installed(deployment(objects), objects, tmp_path) as cluster:
            await lead_and_bind(cluster, "kubesched", "kubesched", container)

    asyncio.run(main())


def test_the_scheduler_that_replaces_kube_scheduler_leads(
    objects: list[Json], tmp_path: Path
) -> None:
    """The steps of docs/operating.md change the profile, and delete the name of the lease."""

    def edit(text: str) -> str:
        text = text.replace("  resourceName: kubesched\n", "")
        return text.replace("schedulerName: kubesched", "schedulerName: default-scheduler")

    async def main() -> None:
        (container,) = pod_spec(objects)["containers"]
        async with installed(deployment(objects, edit), objects, tmp_path) as cluster:
            await lead_and_bind(cluster, "kube-scheduler", "default-scheduler", container)

    asyncio.run(main())


def test_the_static_pod_leads_with_the_account_of_kube_scheduler(tmp_path: Path) -> None:
    async def main() -> None:
        pod = yaml.safe_load((DEPLOY / "static-pod.yaml").read_text())
        (container,) = pod["spec"]["containers"]
        async with installed(static_pod(), [KUBE_SCHEDULER], tmp_path) as cluster:
            await lead_and_bind(cluster, "kube-scheduler", "default-scheduler", container)

    asyncio.run(main())


def test_a_replica_that_may_not_write_its_lease_is_not_ready(
    objects: list[Json], tmp_path: Path
) -> None:
    async def main() -> None:
        rules = named(objects, "Role", "kubesched-leader-election")["rules"]
        rules[1]["resourceNames"] = ["another"]
        async with installed(deployment(objects), objects, tmp_path) as cluster:
            body = await cluster.until_status("/readyz/leaderElection", 500)
            assert 'leases.coordination.k8s.io "kubesched" is forbidden' in body
            body = await cluster.until_status("/readyz?verbose", 500)
            assert body.startswith("[-]leaderElection failed: reason withheld\n")
            metrics = await cluster.until_status("/metrics", 200)
            assert "kubesched_leader_election_failing 1\n" in metrics
            # No reason to restart it: a new process would be refused, too.
            assert (await cluster.get("/livez"))[0] == 200
            with pytest.raises(ApiError):
                await cluster.api.get(Lease, "kubesched", NAMESPACE)

    asyncio.run(main())


def test_objects_that_rendered_objects_refer_to_are_rendered(objects: list[Json]) -> None:
    assert {each["kind"] for each in objects} == PLURALS.keys()
    everything = [*objects, *EVERYWHERE]
    for binding in (*of_kind(objects, "RoleBinding"), *of_kind(objects, "ClusterRoleBinding")):
        assert named(everything, binding["roleRef"]["kind"], binding["roleRef"]["name"])
        for subject in binding["subjects"]:
            account = named(objects, subject["kind"], subject["name"])
            assert account["metadata"]["namespace"] == subject["namespace"] == NAMESPACE
    spec = pod_spec(objects)
    assert named(objects, "ServiceAccount", spec["serviceAccountName"])
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    (container,) = spec["containers"]
    for mount in container["volumeMounts"]:
        volume = volumes.pop(mount["name"])
        if "configMap" in volume:
            assert named(objects, "ConfigMap", volume["configMap"]["name"])
    assert not volumes
    assert container["image"] == "kubesched:dev", "docs/operating.md builds this image"
    (template,) = of_kind(objects, "Deployment")
    (budget,) = of_kind(objects, "PodDisruptionBudget")
    labels = template["spec"]["template"]["metadata"]["labels"]
    assert template["spec"]["selector"]["matchLabels"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert all(
        each["metadata"]["namespace"] == NAMESPACE
        for each in objects
        if not each["kind"].startswith("ClusterRole")
    )
