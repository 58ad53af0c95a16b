"""`kubesched run` inside this process, on an embedded cluster.

The equivalent of the reference's `testserver`: the command line, the clients, leader election and
the endpoints are the real ones. Only signals and logging are left out.
"""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import Sequence
from pathlib import Path

from kubesched.cluster.apiserver.http.client_kubeconfig import write_private
from kubesched.cluster.embedded_cluster import EmbeddedCluster
from kubesched.errors import KubeschedError
from kubesched.foundation.client.credentials import Credential, FixedCredentials
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.tls import TlsOptions
from kubesched.foundation.client.transport import OutgoingRequest
from kubesched.foundation.util.bounded_file import MOST_SETTINGS_BYTES, read_bounded
from kubesched.foundation.util.clock import MILLISECOND, SECOND
from kubesched.scheduler.process.add_ons import ProcessAddOns
from kubesched.scheduler.process.process_setup import run_command_line
from kubesched.scheduler.process.scheduler_process import SchedulerProcess
from kubesched.scheduler.process.shadow_process import build_process

__all__ = ["SchedulerCommand"]

_LOCALHOST = "127.0.0.1"
# The kubeconfig counts even if this process runs in a pod.
_NO_SERVICE_ACCOUNT = {"KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""}
_POLL_NS = 20 * MILLISECOND
_REQUEST_TIMEOUT_NS = 10 * SECOND


class SchedulerCommand:
    """A component: runs a scheduler process with the flags of `kubesched run`.

    The process gets a kubeconfig of the cluster's administrator for all its clients, and serves its
    endpoints on a free port of the loopback interface, unless a flag says otherwise.
    """

    def __init__(
        self, cluster: EmbeddedCluster, flags: Sequence[str], add_ons: ProcessAddOns | None = None
    ) -> None:
        """Prepare the command. It needs a cluster that is served."""
        self._cluster, self._flags, self._add_ons = cluster, tuple(flags), add_ons
        self._process: SchedulerProcess | None = None
        self._stopping = False
        self._has_stopped = asyncio.Event()
        self._port = 0
        # The exit code that the command would end with; None while it runs.
        self.exit_code: int | None = None

    @property
    def url(self) -> str:
        """The URL of the endpoints."""
        return f"https://{_LOCALHOST}:{self._port}"

    async def run(self) -> None:
        """Run the process until `stop`.

        Raises:
            KubeschedError: the flags are wrong, or the process cannot be set up.
        """
        try:
            with tempfile.TemporaryDirectory(prefix="kubesched-") as folder:
                kubeconfig = Path(folder) / "kubeconfig"
                write_private(kubeconfig, self._cluster.kubeconfig())
                self.exit_code = await self._run(kubeconfig)
        finally:
            self._has_stopped.set()

    async def _run(self, kubeconfig: Path) -> int:
        self._port = _free_port()
        flags = [
            f"--authentication-kubeconfig={kubeconfig}",
            f"--authorization-kubeconfig={kubeconfig}",
            f"--bind-address={_LOCALHOST}",
            f"--secure-port={self._port}",
            *self._flags,
        ]
        outcome = run_command_line(
            flags,
            read_file=lambda path: read_bounded(path, MOST_SETTINGS_BYTES),
            # Not by a flag: --kubeconfig has no effect together with a --config among the flags.
            environment={**os.environ, "KUBECONFIG": str(kubeconfig), **_NO_SERVICE_ACCOUNT},
        )
        if outcome.process is None:
            failure = outcome.failure
            raise KubeschedError("no process to run" if failure is None else failure.text)
        self._port = outcome.process.config.options.secure_serving.port
        self._process = build_process(
            outcome.process, self._cluster.clock, 0, "localhost", add_ons=self._add_ons
        )
        if self._stopping:
            self._process.stop()
        return await self._process.run()

    def stop(self) -> None:
        """Stop the process as a signal does: it releases its lease."""
        self._stopping = True
        if self._process is not None:
            self._process.stop()

    async def wait_until_stopped(self) -> None:
        """Wait until `run` has ended, after `stop` or a lost lease."""
        await self._has_stopped.wait()

    async def get(self, path: str) -> tuple[int, str]:
        """Request a path of the endpoints as the administrator; return the status and the body.

        Raises:
            TransportError: the endpoints are not served yet, or no longer.
        """
        authorization = {"Authorization": f"Bearer {self._cluster.token}"}
        connection = Connection(
            server=self.url,
            tls=TlsOptions(insecure=True),  # the certificate is self-signed
            credentials=FixedCredentials(Credential(headers=authorization)),
        )
        transport = HttpTransport(connection)
        try:
            request = OutgoingRequest("GET", path, timeout_ns=_REQUEST_TIMEOUT_NS)
            answer = await transport.send(request)
        finally:
            await transport.close()
        return answer.status, answer.body.decode()

    async def wait_until_ready(self) -> None:
        """Wait until `/readyz` returns 200: the caches have synced."""
        while True:
            try:
                status, _ = await self.get("/readyz")
            except KubeschedError:
                status = 0
            if status == 200:
                return
            await self._cluster.clock.sleep(_POLL_NS)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOCALHOST, 0))
        port: int = probe.getsockname()[1]
        return port
