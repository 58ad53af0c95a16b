"""A client of a running `kubesched run`: its secure port, with the kubeconfig's credentials."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec
from msgspec.structs import replace

from kubesched.cli.cluster_address import ClusterAddress
from kubesched.explain import ExplainError, Explanation
from kubesched.explain.shadow.shadow_entries import ShadowReport
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.tls import TlsOptions
from kubesched.foundation.client.transport import OutgoingRequest, TransportError
from kubesched.foundation.util.clock import SECOND, RealClock
from kubesched.scheduler.process.api_clients import user_agent

__all__ = ["RunningScheduler"]


_TIMEOUT_NS = 90 * SECOND


class RunningScheduler(NamedTuple):
    """The URL of a running scheduler, and how to verify its certificate."""

    url: str
    ca_file: Path | None
    insecure: bool
    address: ClusterAddress  # of the kubeconfig with the credentials

    async def explain(self, pod: str, *, versus: str, suggest: bool) -> Explanation:
        """Return the explanation of a pod, `[namespace/]name`, with its place in the queue."""
        namespace, _, name = pod.rpartition("/")
        query = {"versus": versus} if versus else {}
        if not suggest:
            query["suggestions"] = "false"
        path = f"/explain/namespaces/{quote(namespace or 'default')}/pods/{quote(name)}"
        body = await self._get(f"{path}?{urlencode(query)}" if query else path)
        return msgspec.json.decode(body, type=Explanation)

    async def queue(self) -> Any:
        """Return all pods of the queue with their places."""
        return msgspec.json.decode(await self._get("/explain/queue"))

    async def shadow(self) -> ShadowReport:
        """Return the ledger of a `kubesched run --shadow`."""
        return msgspec.json.decode(await self._get("/shadow"), type=ShadowReport)

    async def configuration(self) -> Any:
        """Return the scheduler's configuration, in the form of a file."""
        shown = msgspec.json.decode(await self._get("/configz"))["componentconfig"]
        # Leave out how that scheduler connects to its API server.
        return {key: each for key, each in shown.items() if key != "clientConnection"}

    async def _get(self, target: str) -> bytes:
        """Request a path.

        Raises:
            ExplainError: the scheduler refuses the request.
            TransportError: the scheduler does not answer, or its certificate cannot be verified.
        """
        transport = HttpTransport(self._connection())
        try:
            answer = await transport.send(OutgoingRequest("GET", target, timeout_ns=_TIMEOUT_NS))
        except TransportError as exc:
            if exc.kind == "tls" and not self.insecure:
                exc.add_note(
                    "if the scheduler signs its certificate itself, name the authority with "
                    "--scheduler-ca FILE, or do not verify the certificate: --scheduler-insecure"
                )
            raise
        finally:
            await transport.close()
        if answer.status == 200:
            return answer.body
        text = answer.body.decode(errors="replace").strip()
        if answer.status not in (401, 403):
            raise ExplainError(text or f"{self.url}{target}: status {answer.status}")
        error = ExplainError(f"{self.url}: not allowed to get {target.partition('?')[0]}")
        error.add_note(
            "a ClusterRole with nonResourceURLs [/explain/*, /configz, /shadow] and verb get "
            "allows it"
        )
        raise error

    def _connection(self) -> Connection:
        if urlsplit(self.url).scheme != "https":
            raise ExplainError(f"--scheduler {self.url!r}: expected https://HOST:PORT")
        own = self.address.connection(RealClock(), f"{user_agent()}/explain")
        tls = own.tls
        if self.insecure:
            tls = TlsOptions(insecure=True)
        elif self.ca_file is not None:
            tls = TlsOptions(ca=self.ca_file.read_bytes())
        ca_file = None if self.insecure or self.ca_file is not None else own.ca_file
        return replace(own, server=self.url, tls=tls, ca_file=ca_file)
