"""The permissions of deploy/rbac.yaml are those that the scheduler uses, and documented others.

A scheduler process with the deployed account uses all its features on an embedded cluster that
enforces roles. The requests that the server authorized are compared with the rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import re
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kubesched.api import (
    DeviceClass,
    Lease,
    Node,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    PriorityClass,
    ResourceClaimTemplate,
    StorageClass,
)
from kubesched.api.access import ApiError
from kubesched.api.events import Event
from kubesched.api.time import format_micro_time
from kubesched.cluster.apiserver.http.users import Attributes, Requester, Users
from kubesched.cluster.controllers.device_driver import DEVICES
from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.foundation.client.credentials import Credential, FixedCredentials
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.tls import TlsOptions
from kubesched.foundation.client.transport import OutgoingRequest, ServerResponse
from kubesched.foundation.util.clock import SECOND, RealClock
from kubesched.foundation.util.components import running
from kubesched.scheduler.process.process_setup import run_command_line
from kubesched.scheduler.process.scheduler_process import SchedulerProcess
from tests.integration.api_server_process import free_port

Json = dict[str, Any]
Right = tuple[str, str, str]  # group, resource with its subresource, verb

ROOT = Path(__file__).resolve().parents[2]
ACCOUNT = "system:serviceaccount:kube-system:kubesched"
ROLES = ("kubesched", "kubesched-leader-election", "extension-apiserver-authentication-reader")
DRIVER, RESOURCE = "gpu.example.com", "example.com/gpu"
WATCHES_LEASE = ("coordination.k8s.io", "leases", "watch")
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
leaderElection: {resourceName: kubesched}
profiles:
  - schedulerName: kubesched
    pluginConfig:
      - name: PodTopologySpread
        args:
          defaultingType: List
          defaultConstraints:
            - {maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}
"""
# A role that every cluster has, which a binding of deploy/rbac.yaml names.
READER = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "Role",
    "metadata": {"name": "extension-apiserver-authentication-reader", "namespace": "kube-system"},
    "rules": [
        {
            "apiGroups": [""],
            "resources": ["configmaps"],
            "resourceNames": ["extension-apiserver-authentication"],
            "verbs": ["get", "list", "watch"],
        }
    ],
}
GATES = {
    "GenericWorkload": True,
    "GangScheduling": True,
    "DRAExtendedResource": True,
    "DRADeviceTaints": True,
    "DRADeviceTaintRules": True,
    "WatchListClient": False,  # so that the informers list
}


def manifests() -> Iterator[Json]:
    yield from yaml.safe_load_all((ROOT / "deploy" / "rbac.yaml").read_text())


def granted() -> set[Right]:
    """Return what the account of deploy/rbac.yaml may do."""
    return {
        (group, resource, verb)
        for document in (READER, *manifests())
        if document["kind"] in ("ClusterRole", "Role") and document["metadata"]["name"] in ROLES
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class RecordedUsers:
    """The requests of the account, and those that were refused."""

    def __init__(self) -> None:
        self.used: set[Right] = set()
        self.refused: list[Attributes] = []

    @contextlib.contextmanager
    def recording(self, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
        authorize = Users.authorize

        def record(users: Users, user: Requester, wanted: Attributes) -> None:
            is_account = user.name == ACCOUNT and bool(wanted.plural)
            if is_account:
                subresource = f"/{wanted.subresource}" if wanted.subresource else ""
                self.used.add((wanted.group, wanted.plural + subresource, wanted.verb))
            try:
                authorize(users, user, wanted)
            except ApiError:
                if is_account:
                    self.refused.append(wanted)
                raise

        with monkeypatch.context() as patch:
            patch.setattr(Users, "authorize", record)
            yield


class EveryFeature:
    """A cluster, and objects that make the scheduler use each of its features."""

    def __init__(self, cluster: EmbeddedCluster) -> None:
        self.cluster, self.api = cluster, cluster.api
        self.port = free_port()
        self.process: SchedulerProcess
        self.config: Path

    async def create(
        self, kind: type[Any], name: str, namespace: str | None, **fields: Any
    ) -> None:
        notes = fields.pop("notes", {})
        metadata = {"name": name, "annotations": notes}
        await self.api.create_document(kind, namespace, {"metadata": metadata, **fields})

    async def node(self, name: str, cpu: str) -> None:
        amounts = {"cpu": cpu, "memory": "64Gi", "pods": "100"}
        notes = {DEVICES: json.dumps([{"driver": DRIVER, "count": 4}])}
        status = {"capacity": amounts, "allocatable": amounts}
        await self.create(Node, name, None, notes=notes, status=status)

    async def pod(self, name: str, cpu: str = "10m", **spec: Any) -> None:
        amounts = {"cpu": cpu, **spec.pop("amounts", {})}
        limits = {key: value for key, value in amounts.items() if key != "cpu"}
        resources = {"requests": amounts, "limits": limits, **spec.pop("resources", {})}
        container = {"name": "c", "image": "pause", "resources": resources}
        whole = {"schedulerName": "kubesched", "containers": [container], **spec}
        await self.create(Pod, name, "default", spec=whole)

    async def until_bound(self, *names: str) -> None:
        while True:
            pods = {pod.metadata.name: pod for pod in (await self.api.list(Pod)).items}
            if all(name in pods and pods[name].spec.node_name for name in names):
                return
            await asyncio.sleep(0.05)

    async def hold_lease(self) -> None:
        """Let another replica hold the lease for a second."""
        spec = {"holderIdentity": "other", "leaseDurationSeconds": 1}
        await self.create(Lease, "kubesched", "kube-system", spec=spec)

    async def renew_lease(self) -> None:
        now = format_micro_time(self.cluster.clock.now_ns())
        patch = {"spec": {"renewTime": now}}
        await self.api.patch(Lease, "kubesched", "kube-system", patch, patch_type="merge")

    async def has_happened(self, reason: str, times: int = 1, note: str = "") -> bool:
        """Whether one event with this reason has happened so often; it is patched if it repeats."""
        for each in (await self.api.list(Event)).items:
            count = each.series.count if each.series else each.deprecated_count or 1
            if each.reason == reason and note in each.note and count >= times:
                return True
        return False

    async def until_happened(self, reason: str, times: int = 1, note: str = "") -> None:
        while True:
            if await self.has_happened(reason, times, note):
                return
            await asyncio.sleep(0.05)

    async def use(self) -> None:
        await self.node("n0", "4")
        await asyncio.gather(self.volumes(), self.devices(), self.group())
        await self.pod("low", "3")
        await self.until_bound("low")
        await self.create(PriorityClass, "high", None, value=1000)
        await self.pod("high", "3", priorityClassName="high", terminationGracePeriodSeconds=0)
        await self.until_happened("Preempted")
        await self.until_bound("high")
        await self.pod("huge", "64")
        await self.until_happened("FailedScheduling")
        # Rejected pods are retried. The first failure changes the pod, so the second failure is a
        # new event, and only the third one repeats it.
        seconds = 5
        while not await self.has_happened("FailedScheduling", 2):
            seconds += 1
            text = self.reload(f"podMaxBackoffSeconds: {seconds}")
            await self.until_happened("ConfigurationReloaded", note=sha256(text).hexdigest())
        for times in (1, 2):
            self.reload("parallelism: 3")
            await self.until_happened("ConfigurationRejected", times)
        stranger = await self.token("default")
        assert (await self.send(self.url, "GET", "/metrics", token=stranger)).status == 403

    async def volumes(self) -> None:
        kept = {"provisioner": "kubernetes.io/no-provisioner"}
        await self.create(
            StorageClass, "kept", None, volumeBindingMode="WaitForFirstConsumer", **kept
        )
        amount = {"storage": "1Gi"}
        volume = {
            "capacity": amount,
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "kept",
            "hostPath": {"path": "/tmp"},
        }
        await self.create(PersistentVolume, "v", None, spec=volume)
        for name, storage in (("found", "kept"), ("made", "standard")):
            claim = {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": storage,
                "resources": {"requests": amount},
            }
            await self.create(PersistentVolumeClaim, name, "default", spec=claim)
            source = {"claimName": name}
            await self.pod(name, volumes=[{"name": "v", "persistentVolumeClaim": source}])
        await self.until_bound("found", "made")

    async def devices(self) -> None:
        # A fake driver creates the class when the first node appears.
        classes: list[str] = []
        while DRIVER not in classes:
            await asyncio.sleep(0.05)
            listed = await self.api.list(DeviceClass)
            classes = [each.metadata.name for each in listed.items]
        patch = {"spec": {"extendedResourceName": RESOURCE}}
        await self.api.patch(DeviceClass, DRIVER, None, patch, patch_type="merge")
        requests = [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]
        spec = {"spec": {"devices": {"requests": requests}}}
        await self.create(ResourceClaimTemplate, "one", "default", spec=spec)
        claims = [{"name": "gpu", "resourceClaimTemplateName": "one"}]
        await self.pod("claims", resourceClaims=claims, resources={"claims": [{"name": "gpu"}]})
        await self.pod("extended", amounts={RESOURCE: "1"})
        await self.until_bound("claims", "extended")

    async def group(self) -> None:
        policy = {"schedulingPolicy": {"gang": {"minCount": 2}}}
        await self.create(PodGroup, "gang", "default", spec=policy)
        for name in ("g0", "g1"):
            await self.pod(name, schedulingGroup={"podGroupName": "gang"})
        await self.until_bound("g0", "g1")

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def send(
        self, server: str, method: str, path: str, body: bytes = b"", token: str = ""
    ) -> ServerResponse:
        headers = {"Authorization": f"Bearer {token or self.cluster.token}"}
        connection = Connection(
            server=server,
            tls=TlsOptions(insecure=True),  # both certificates are self-signed
            credentials=FixedCredentials(Credential(headers=headers)),
        )
        transport = HttpTransport(connection)
        try:
            request = OutgoingRequest(method, path, body, "application/json", 10 * SECOND)
            return await transport.send(request)
        finally:
            await transport.close()

    async def token(self, account: str) -> str:
        """Return a token of an account of the namespace kube-system."""
        path = f"/api/v1/namespaces/kube-system/serviceaccounts/{account}/token"
        answer = await self.send(self.cluster.url, "POST", path, b'{"spec": {}}')
        assert answer.status == 201, answer.body
        return str(msgspec.json.decode(answer.body)["status"]["token"])

    async def install(self) -> str:
        """Create the objects of deploy/rbac.yaml; return a token of the account."""
        store, now_ns = self.cluster.store, self.cluster.clock.now_ns()
        for document in (READER, *manifests()):
            resource = store.catalog.by_manifest(document["apiVersion"], document["kind"])
            assert resource is not None
            namespace = "kube-system" if resource.namespaced else None
            store.create(resource, namespace, document, now_ns)
        return await self.token("kubesched")

    async def scheduler(self, folder: Path) -> SchedulerProcess:
        access = yaml.safe_load(self.cluster.kubeconfig())
        access["users"][0]["user"] = {"token": await self.install()}
        kubeconfig, config = folder / "kubeconfig", folder / "config.yaml"
        kubeconfig.write_text(yaml.safe_dump(access))
        config.write_text(CONFIGURATION)
        outcome = run_command_line(
            [
                f"--config={config}",
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self.port}",
                f"--feature-gates={','.join(f'{gate}={on}' for gate, on in GATES.items())}",
            ],
            read_file=lambda path: Path(path).read_bytes(),
            environment={**os.environ, "KUBECONFIG": str(kubeconfig)},
        )
        assert outcome.process is not None, outcome.failure
        self.config, self.process = (
            config,
            SchedulerProcess(outcome.process, RealClock(), 0, "host"),
        )
        return self.process

    def reload(self, more: str) -> bytes:
        """Reload the process with another configuration; return its text."""
        text = f"{CONFIGURATION}{more}\n".encode()
        self.config.write_bytes(text)
        self.process.reload()
        return text


@contextlib.asynccontextmanager
async def a_cluster() -> AsyncIterator[EmbeddedCluster]:
    features = frozenset(gate for gate, on in GATES.items() if on)
    cluster = EmbeddedCluster(
        RealClock(), random.Random(0), listen=Listen(), rbac=True, features=features
    )
    async with cluster, running(*cluster.parts):
        yield cluster


def documented() -> set[Right]:
    """Return the surplus rules that docs/operating.md lists."""
    text = (ROOT / "docs" / "operating.md").read_text()
    table = text.partition("## Permissions")[2].partition("\n## ")[0]
    found = set()
    for row in re.findall(r"^\| `([^`]*)` \| `([^`]*)` \| `([^`]*)` \|", table, re.M):
        groups, resources, verbs = (part.split(", ") for part in row)
        found |= {
            ("" if group == "core" else group, resource, verb)
            for group in groups
            for resource in resources
            for verb in verbs
        }
    return found


def test_every_rule_is_used_or_documented(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    users = RecordedUsers()

    async def main() -> None:
        async with a_cluster() as cluster:
            every = EveryFeature(cluster)
            process = await every.scheduler(tmp_path)
            await every.hold_lease()
            task = asyncio.create_task(process.run(), name="scheduler")
            try:
                async with asyncio.timeout(120):
                    while WATCHES_LEASE not in users.used:  # as a standby
                        await every.renew_lease()
                        await asyncio.sleep(0.05)
                    # The standby creates the lease at its next attempt.
                    await every.api.delete(Lease, "kubesched", "kube-system")
                    await every.use()
            finally:
                process.stop()
                await task

    with users.recording(monkeypatch):
        asyncio.run(main())
    assert users.refused == []
    assert users.used <= granted()
    assert granted() - users.used == documented()
