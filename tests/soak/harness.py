"""The harness of soak tests: a folder with certificates, a server, two schedulers, clients."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import kubesched
from kubesched.foundation.client.http_api import HttpApi
from tests.integration.api_server_process import free_port
from tests.integration.certificates import Authority
from tests.soak.api_server import TOKEN
from tests.soak.processes import Process

__all__ = ["SoakHarness"]

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{{name: c, cluster: {{server: "{url}", certificate-authority: authorities.pem}}}}]
users: [{{name: u, user: {{
  tokenFile: token, client-certificate: client.pem, client-key: client.key}}}}]
contexts: [{{name: c, context: {{cluster: c, user: u}}}}]
current-context: c
"""
CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: "{folder}/kubeconfig", qps: -1}}
leaderElection: {{leaseDuration: 30s, renewDeadline: 20s, retryPeriod: 2s}}
"""


class SoakHarness:
    """The processes of a soak test, and the files that configure them."""

    def __init__(self, folder: Path, logs: Path | None = None) -> None:
        self._folder, self._logs = folder, logs
        self._issued = 0
        self._authority = Authority(folder, "ca-0")
        self._authorities = [self._authority]
        port = free_port()
        self._ports: dict[str, int] = {"server": port}
        (folder / "kubeconfig").write_text(KUBECONFIG.format(url=f"https://127.0.0.1:{port}"))
        (folder / "config.yaml").write_text(CONFIGURATION.format(folder=folder))
        (folder / "token").write_text(TOKEN)
        self.issue()
        python = [sys.executable, "-m"]
        self.server = Process(
            "server", [*python, "tests.soak.api_server", str(folder), str(port)], logs
        )
        self.schedulers = [self._scheduler(python, number) for number in range(2)]

    def _scheduler(self, python: list[str], number: int) -> Process:
        port = self._ports[f"scheduler-{number}"] = free_port()
        serving = ["--tls-cert-file=serving.pem", "--tls-private-key-file=serving.key"]
        command = [
            *python,
            *("kubesched.cli.main", "run", f"--config={self._folder}/config.yaml"),
            *("--bind-address=127.0.0.1", f"--secure-port={port}"),
            *(flag.replace("=", f"={self._folder}/") for flag in serving),
        ]
        return Process(f"scheduler-{number}", command, self._logs)

    @property
    def processes(self) -> list[Process]:
        return [self.server, *self.schedulers]

    def port_of(self, process: Process) -> int:
        return self._ports[process.name]

    def add_authority(self) -> None:
        """Begin a rotation: add an authority that is trusted together with the previous one."""
        self._authority = Authority(self._folder, f"ca-{len(self._authorities)}")
        self._authorities.append(self._authority)
        self._trust()

    def issue(self) -> None:
        """Issue new certificates for all processes, signed by the newest authority."""
        self._trust()
        for role in ("server", "client", "serving"):
            self._issued += 1
            pair = self._authority.issue(f"{role}-{self._issued}")
            for made, name in zip(pair, (f"{role}.pem", f"{role}.key"), strict=True):
                shutil.copyfile(made, self._folder / f"{name}.new")
                os.replace(self._folder / f"{name}.new", self._folder / name)

    def _trust(self) -> None:
        # The last two: a process that has not read the new file yet uses the old authority.
        texts = [each.certificate.read_text() for each in self._authorities[-2:]]
        new = self._folder / "authorities.pem.new"
        new.write_text("".join(texts))
        os.replace(new, self._folder / "authorities.pem")

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[HttpApi]:
        api = kubesched.connect(self._folder / "kubeconfig", qps=-1)
        try:
            yield api
        finally:
            await api.close()

    def leader(self) -> Process | None:
        """The scheduler whose log was the last to report that it leads."""
        leading = [each for each in self.schedulers if each.is_alive and each.led_since_s]
        return max(leading, key=lambda each: each.led_since_s, default=None)
