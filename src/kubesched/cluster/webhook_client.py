"""The client that calls webhooks: HTTPS requests to processes on this machine."""

from __future__ import annotations

import asyncio
import base64
import binascii
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from kubesched.cluster.apiserver.rules.admission.webhook_reviews import WebhookError
from kubesched.cluster.apiserver.store.needed_calls import WebhookCall
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.local_endpoints import LocalAddress, SimulatedPodsError, address_of_service
from kubesched.errors import KubeschedError
from kubesched.foundation.client.tls import TlsOptions
from kubesched.foundation.client.transport import OutgoingRequest, TransportError
from kubesched.foundation.util.clock import SECOND

if TYPE_CHECKING:
    from kubesched.foundation.client.http_transport import HttpTransport

__all__ = ["WebhookClient"]

Json = dict[str, Any]

_JSON = "application/json"
_TOO_SLOW = "context deadline exceeded"
# The number of webhooks whose open connections are reused.
_MOST_SERVERS = 32


class _Target(NamedTuple):
    """The address of a request, and the URL in error messages."""

    address: LocalAddress
    server_name: str
    authority: bytes
    path: str
    url: str


class WebhookClient:
    """Calls webhooks by URL or by Service."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._transports: dict[tuple[LocalAddress, str, bytes], HttpTransport] = {}

    async def call(self, call: WebhookCall) -> bytes:
        """Send a review and return the body of the response.

        Raises:
            WebhookError: there is no response with the status 200 in time.
        """
        target = self._target(call)
        transport = self._transport(target)
        while len(self._transports) > _MOST_SERVERS:
            await self._transports.pop(next(iter(self._transports))).close()
        request = OutgoingRequest("POST", target.path, call.body, _JSON, call.timeout_ns)
        posted = f'failed to call webhook: Post "{target.url}": '
        try:
            async with asyncio.timeout(call.timeout_ns / SECOND):
                response = await transport.send(request)
        except TimeoutError as error:
            raise WebhookError(posted + _TOO_SLOW) from error
        except TransportError as error:
            raise WebhookError(posted + _cause(error, target)) from error
        if response.status != 200:
            shown = response.body.decode("utf-8", "replace").strip()[:200]
            raise WebhookError(
                f"failed to call webhook: the server responded with the status code "
                f"{response.status}" + (f": {shown}" if shown else "")
            )
        return response.body

    async def close(self) -> None:
        """Close all connections."""
        transports, self._transports = self._transports, {}
        for each in transports.values():
            await each.close()

    def _target(self, call: WebhookCall) -> _Target:
        config = call.client_config
        try:
            authority = base64.b64decode(config.get("caBundle") or "", validate=True)
        except binascii.Error as error:
            raise WebhookError(f"caBundle cannot be decoded: {error}") from error
        limit = f"?timeout={call.timeout_ns // SECOND}s"
        try:
            if url := config.get("url"):
                parts = urlsplit(url)
                host = parts.hostname or ""
                address = LocalAddress(host, parts.port or 443).check()
                return _Target(address, host, authority, (parts.path or "/") + limit, url + limit)
            service = config["service"]
            name, namespace = service["name"], service["namespace"]
            port, path = service.get("port", 443), service.get("path", "/")
            host = f"{name}.{namespace}.svc"
            address = address_of_service(self._store, namespace, name, port)
            return _Target(
                address, host, authority, path + limit, f"https://{host}:{port}{path}{limit}"
            )
        except SimulatedPodsError as error:
            raise WebhookError(str(error), is_simulated=True) from error
        except (KubeschedError, ValueError) as error:
            raise WebhookError(f"failed to call webhook: {error}") from error

    def _transport(self, target: _Target) -> HttpTransport:
        """Return the transport to a webhook, which reuses its connections."""
        key = target.address, target.server_name, target.authority
        transport = self._transports.pop(key, None)
        if transport is None:
            # Imported here: most clusters call no webhook, and the import takes long.
            from kubesched.foundation.client.http_transport import Connection, HttpTransport

            host, port = target.address
            shown = f"[{host}]" if ":" in host else host
            options = TlsOptions(ca=target.authority, server_name=target.server_name)
            transport = HttpTransport(Connection(server=f"https://{shown}:{port}", tls=options))
        self._transports[key] = transport
        return transport


def _cause(error: TransportError, target: _Target) -> str:
    host, port = target.address
    match error.kind:
        case "timeout":
            return _TOO_SLOW
        case "refused":
            return f"dial tcp {host}:{port}: connect: connection refused"
        case "reset":
            return "EOF"
        case "tls":
            return f"tls: failed to verify certificate: {_certificate_problem(str(error))}"
        case _:
            return str(error)


def _certificate_problem(text: str) -> str:
    if "issuer certificate" in text or "self-signed certificate" in text:
        return "x509: certificate signed by unknown authority"
    return text.rpartition("certificate verify failed: ")[2]
