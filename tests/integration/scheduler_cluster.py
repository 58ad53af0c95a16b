"""Schedulers as processes, on an API server behind a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from pathlib import Path

import msgspec

from kubesched.api import Lease, Node, Pod
from kubesched.cluster.apiserver import LocalApi, Store
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.foundation.util.clock import RealClock
from kubesched.testing import make_node, make_pod

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}"}}}}]
contexts: [{{name: c, context: {{cluster: c}}}}]
current-context: c
"""
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: "{kubeconfig}", qps: -1}}
leaderElection: {{leaseDuration: 3s, renewDeadline: 2s, retryPeriod: 500ms}}
"""


class Cluster:
    """A cluster with nodes, and a way to start schedulers for it."""

    server: ApiServer

    def __init__(self, folder: Path) -> None:
        self._store = Store(random.Random(0))
        self.api = LocalApi(self._store, RealClock())
        self._kubeconfig = folder / "kubeconfig"
        self._config = folder / "config.yaml"
        self.configure()

    async def serve(self, port: int = 0) -> None:
        self.server = ApiServer(ApiService(self._store, RealClock()), port=port)
        await self.server.start()
        self._kubeconfig.write_text(KUBECONFIG.format(url=self.server.url))

    @property
    def port(self) -> int:
        return int(self.server.url.rpartition(":")[2])

    def configure(self, kubeconfig: Path | None = None, more: str = "") -> None:
        text = CONFIGURATION.format(kubeconfig=kubeconfig or self._kubeconfig)
        self._config.write_text(text + more)

    def configure_with(self, text: str) -> None:
        self._config.write_text(text)

    @contextlib.asynccontextmanager
    async def scheduler(self, *flags: str) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "kubesched.cli.main",
            "run",
            f"--config={self._config}",
            "--secure-port=0",
            *flags,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()

    async def create(self, made: Node | Pod) -> None:
        """Store an object of a builder, which has a resource version already."""
        metadata = msgspec.structs.replace(made.metadata, resource_version="", uid="")
        await self.api.create(msgspec.structs.replace(made, metadata=metadata))

    async def create_pods(self, names: Iterable[str]) -> None:
        for name in names:
            await self.create(make_pod(name, requests={"cpu": "10m"}, images=["i"]))

    async def until_bound(self, count: int) -> list[Pod]:
        return await self._until(count, lambda pod: bool(pod.spec.node_name))

    async def until_decided(self, count: int) -> list[Pod]:
        """Wait until a number of pods were tried, with any outcome."""
        return await self._until(count, lambda pod: bool(pod.status.conditions))

    async def _until(self, count: int, is_so: Callable[[Pod], bool]) -> list[Pod]:
        while True:
            pods = (await self.api.list(Pod)).items
            if sum(map(is_so, pods)) >= count:
                return list(pods)
            await asyncio.sleep(0.05)

    async def lease(self) -> Lease:
        return await self.api.get(Lease, "kube-scheduler", "kube-system")

    async def until_led(self) -> str:
        """Wait for a leader and return its identity."""
        while True:
            for lease in (await self.api.list(Lease)).items:
                if lease.spec.holder_identity:
                    return lease.spec.holder_identity
            await asyncio.sleep(0.05)


def run_steps(folder: Path, steps: Callable[[Cluster], Awaitable[None]], nodes: int = 5) -> None:
    """Serve a cluster with some nodes while the block runs."""

    async def main() -> None:
        cluster = Cluster(folder)
        await cluster.serve()
        try:
            for number in range(nodes):
                await cluster.create(make_node(f"n{number}", cpu="8", memory="8Gi"))
            async with asyncio.timeout(60):
                await steps(cluster)
        finally:
            await cluster.server.stop()

    asyncio.run(main())


async def said_until(process: asyncio.subprocess.Process, text: str) -> str:
    """Read the output of the process until a text appears."""
    assert process.stderr is not None
    said = ""
    while text not in said:
        line = await process.stderr.readline()
        assert line, said
        said += line.decode()
    return said


async def ended(process: asyncio.subprocess.Process) -> tuple[int, str]:
    _, said = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()
