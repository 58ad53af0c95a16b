"""A real control plane: etcd, kube-apiserver and kube-controller-manager from the path."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import kubesched
from kubesched.api import Namespace
from kubesched.api.access import ApiError
from kubesched.foundation.client.http_api import HttpApi
from tests.integration.api_server_process import free_port
from tests.integration.certificates import Authority
from tests.soak.processes import Process

__all__ = ["NEEDED", "ControlPlane", "missing_programs"]

Json = dict[str, Any]
NEEDED = ("etcd", "kube-apiserver", "kube-controller-manager", "openssl")
_STARTED_WITHIN_S = 120
# Bodies of lease requests contain the holder of the lease; of other requests only the sender
# matters.
_AUDIT_POLICY = """\
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  verbs: [get, list, watch]
- level: Request
  resources: [{group: coordination.k8s.io, resources: [leases]}]
- level: Metadata
"""
_KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{server}", certificate-authority: "{authority}"}}}}]
users: [{{name: u, user: {{client-certificate: "{certificate}", client-key: "{key}"}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
"""
# Pods need no accounts. A new node is not tainted as not ready: the controller that removes the
# taint does not run.
_DISABLED_ADMISSION = "ServiceAccount,TaintNodesByCondition"
# There are no kubelets, so nodes do not report that they are alive.
_CONTROLLERS = "*,-node-lifecycle-controller,-taint-eviction-controller,-node-ipam-controller"


def missing_programs() -> list[str]:
    """Return the programs that are not on the path."""
    return [name for name in NEEDED if shutil.which(name) is None]


class ControlPlane:
    """The processes of a control plane, with their files in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority(folder)
        self._port = free_port()
        self.audit_log = folder / "audit.log"
        etcd, peer = free_port(), free_port()
        (folder / "audit.yaml").write_text(_AUDIT_POLICY)
        accounts = folder / "accounts.key"
        subprocess.run(
            ["openssl", "genrsa", "-out", str(accounts), "2048"], check=True, capture_output=True
        )
        certificate, key = self._authority.issue("server", hosts="IP:127.0.0.1,IP:10.0.0.1")
        self.etcd = Process(
            "etcd",
            [
                "etcd",
                f"--data-dir={folder}/etcd",
                f"--listen-client-urls=http://127.0.0.1:{etcd}",
                f"--advertise-client-urls=http://127.0.0.1:{etcd}",
                f"--listen-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
                f"--initial-cluster=default=http://127.0.0.1:{peer}",
            ],
        )
        self.api_server = Process(
            "kube-apiserver",
            [
                "kube-apiserver",
                f"--etcd-servers=http://127.0.0.1:{etcd}",
                "--bind-address=127.0.0.1",
                f"--secure-port={self._port}",
                f"--tls-cert-file={certificate}",
                f"--tls-private-key-file={key}",
                f"--client-ca-file={self._authority.certificate}",
                "--authorization-mode=RBAC",
                "--service-cluster-ip-range=10.0.0.0/24",
                "--service-account-issuer=https://kubernetes.default.svc",
                f"--service-account-key-file={accounts}",
                f"--service-account-signing-key-file={accounts}",
                f"--disable-admission-plugins={_DISABLED_ADMISSION}",
                f"--audit-policy-file={folder}/audit.yaml",
                f"--audit-log-path={self.audit_log}",
                "--audit-log-mode=blocking",
            ],
        )
        self.controllers = Process(
            "kube-controller-manager",
            [
                "kube-controller-manager",
                f"--kubeconfig={self.kubeconfig('controllers')}",
                f"--service-account-private-key-file={accounts}",
                f"--root-ca-file={self._authority.certificate}",
                f"--controllers={_CONTROLLERS}",
                "--leader-elect=false",
                f"--secure-port={free_port()}",
            ],
        )

    @property
    def processes(self) -> list[Process]:
        return [self.etcd, self.api_server, self.controllers]

    def kubeconfig(self, user: str) -> Path:
        """Return the kubeconfig of a user who may do everything."""
        certificate, key = self._authority.issue(user, group="system:masters")
        path = self._folder / f"{user}.kubeconfig"
        path.write_text(
            _KUBECONFIG.format(
                server=f"https://127.0.0.1:{self._port}",
                authority=self._authority.certificate,
                certificate=certificate,
                key=key,
            )
        )
        return path

    def connect(self, user: str) -> HttpApi:
        return kubesched.connect(self.kubeconfig(user), qps=-1)

    async def start(self) -> None:
        """Start all processes, and wait until the API server has its namespaces.

        Raises:
            TimeoutError: it did not start. The last lines of its log are printed.
        """
        await self.etcd.start()
        await self.api_server.start()
        api = self.connect("starter")
        try:
            async with asyncio.timeout(_STARTED_WITHIN_S):
                await _until_it_has_namespaces(api)
        except TimeoutError:
            for line in self.api_server.last_lines:
                print(line.decode(errors="replace").rstrip())
            raise
        finally:
            await api.close()
        await self.controllers.start()

    async def stop(self) -> None:
        for process in reversed(self.processes):
            await process.end()

    def audit_events(self) -> list[Json]:
        """Return the audit log; a line that a kill has cut off is left out."""
        events = []
        for line in self.audit_log.read_text().splitlines():
            try:
                events.append(json.loads(line))
            except ValueError:
                continue
        return events


async def _until_it_has_namespaces(api: HttpApi) -> None:
    while True:
        with contextlib.suppress(ApiError):
            names = {each.metadata.name for each in (await api.list(Namespace)).items}
            if {"default", "kube-system"} <= names:
                return
        await asyncio.sleep(0.5)
