"""A cluster with exactly the permissions of deploy/, and a scheduler as deployed there."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import yaml

from kubesched.api import Node, Pod
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.users import ADMIN, Attributes, Requester, Users
from kubesched.foundation.util.clock import RealClock
from tests.integration.api_server_process import free_port

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
SCHEDULER, MONITOR, STRANGER, ROOT = "scheduler-token", "monitor-token", "stranger-token", "root"
KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
users: [{{name: u, user: {{token: "{token}"}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
"""
# A role that every cluster has.
READER = {
    "apiGroups": [""],
    "resources": ["configmaps"],
    "resourceNames": ["extension-apiserver-authentication"],
    "verbs": ["get", "list", "watch"],
}

Right = tuple[str, str, str]
"""Group, resource with its subresource, verb."""


def documents() -> Iterator[dict[str, Any]]:
    for path in sorted(DEPLOY.glob("*.yaml")):
        yield from yaml.safe_load_all(path.read_text())


def rules(kind: str, name: str) -> list[dict[str, Any]]:
    (found,) = [d for d in documents() if d["kind"] == kind and d["metadata"]["name"] == name]
    return list(found["rules"])


def rights(of: list[dict[str, Any]]) -> set[Right]:
    return {
        (group, resource, verb)
        for rule in of
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


class DeployedUsers(Users):
    """Authorizes the users of the cluster by the manifests, and records their requests."""

    def __init__(self, everywhere: list[dict[str, Any]] | None = None) -> None:
        """`everywhere` replaces the rules of the scheduler's ClusterRole."""
        account = "system:serviceaccount:kube-system"
        super().__init__(
            {
                SCHEDULER: Requester(f"{account}:kubesched", groups=("scheduler",)),
                MONITOR: Requester(f"{account}:kubesched-metrics", groups=("monitor",)),
                STRANGER: Requester("stranger"),
                ROOT: ADMIN,
            }
        )
        self._everywhere = rules("ClusterRole", "kubesched")
        self._in_kube_system = [*rules("Role", "kubesched-leader-election"), READER]
        if everywhere is not None:
            self._everywhere, self._in_kube_system = everywhere, [READER]
        self._pages = rules("ClusterRole", "kubesched-metrics")
        self.used: set[Right] = set()
        self.refused: list[Attributes] = []

    def authorize(self, user: Requester, wanted: Attributes) -> None:
        if "scheduler" in user.groups and wanted.plural:
            self.used.add((wanted.group, _resource(wanted), wanted.verb))
        try:
            super().authorize(user, wanted)
        except ApiError:
            self.refused.append(wanted)
            raise

    def allows(self, groups: tuple[str, ...], wanted: Attributes, name: str = "") -> bool:
        if "system:masters" in groups:
            return True
        if "scheduler" in groups:
            # Every authenticated user may use discovery.
            return not wanted.plural or any(self._matching(wanted))
        return "monitor" in groups and any(
            wanted.path in rule["nonResourceURLs"] and wanted.verb in rule["verbs"]
            for rule in self._pages
        )

    def _matching(self, wanted: Attributes) -> Iterator[bool]:
        local = self._in_kube_system if wanted.namespace == "kube-system" else []
        for rule in [*self._everywhere, *local]:
            names = rule.get("resourceNames")
            # As in a real cluster: a list restricted to one name is authorized for that name.
            named = names is None or wanted.name in names or wanted.verb in ("list", "watch")
            yield (
                named
                and wanted.group in rule["apiGroups"]
                and _resource(wanted) in rule["resources"]
                and wanted.verb in rule["verbs"]
            )


def _resource(wanted: Attributes) -> str:
    return wanted.plural + (f"/{wanted.subresource}" if wanted.subresource else "")


class Deployed:
    """The cluster and the scheduler's endpoints."""

    def __init__(self, store: Store, users: DeployedUsers, port: int) -> None:
        self.users, self.port = users, port
        self.api = LocalApi(store, RealClock())
        self.url = f"https://127.0.0.1:{port}"

    async def create(self, made: Node | Pod) -> None:
        metadata = msgspec.structs.replace(made.metadata, resource_version="", uid="")
        await self.api.create(msgspec.structs.replace(made, metadata=metadata))

    async def until_ready(self) -> None:
        connector = aiohttp.TCPConnector(ssl=False)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                with contextlib.suppress(aiohttp.ClientError):
                    async with session.get(f"{self.url}/readyz") as response:
                        if response.status == 200:
                            return
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def deployed(
    folder: Path, *flags: str, everywhere: list[dict[str, Any]] | None = None
) -> AsyncIterator[Deployed]:
    """Run `kubesched run` with the deployed configuration against the deployed permissions."""
    store, users = Store(random.Random(0)), DeployedUsers(everywhere)
    config = (DEPLOY / "config.yaml").read_text()
    async with ApiServer(ApiService(store, RealClock(), users=users)) as server:
        kubeconfig, config_file, port = folder / "kubeconfig", folder / "config", free_port()
        kubeconfig.write_text(KUBECONFIG.format(url=server.url, token=SCHEDULER))
        document = yaml.safe_load(config)
        document["clientConnection"]["kubeconfig"] = str(kubeconfig)
        config_file.write_text(yaml.safe_dump(document))
        with (folder / "log").open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "kubesched.cli.main", "run", f"--config={config_file}"),
                f"--authentication-kubeconfig={kubeconfig}",
                f"--authorization-kubeconfig={kubeconfig}",
                *("--bind-address=127.0.0.1", f"--secure-port={port}", *flags),
                env={**os.environ, "PYTHONWARNINGS": "error"},
                stderr=log,
            )
        cluster = Deployed(store, users, port)
        try:
            async with asyncio.timeout(60):
                await cluster.until_ready()
                yield cluster
                process.terminate()
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
