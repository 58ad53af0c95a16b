"""Reads JSON documents from HTTP servers that are not API servers, for plugins."""

from __future__ import annotations

import asyncio
from typing import Final
from urllib.parse import urlsplit

from kubesched.errors import WebPageError
from kubesched.foundation.client.credentials import Credential, FixedCredentials
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.tls import TlsOptions
from kubesched.foundation.client.transport import OutgoingRequest, TransportError
from kubesched.foundation.util.clock import SECOND

__all__ = ["WebPages"]

_OK: Final = 200


class WebPages:
    """Sends GET requests; connections stay open until `close`."""

    def __init__(self) -> None:
        self._transports: dict[tuple[str, str, bool], HttpTransport] = {}

    async def read(
        self, url: str, *, token: str = "", verify_tls: bool = True, timeout_ns: int = 10 * SECOND
    ) -> bytes:
        """Return the body of a successful response.

        Raises:
            WebPageError: there is no successful response in time.
        """
        parts = urlsplit(url)
        server = f"{parts.scheme}://{parts.netloc}"
        target = parts.path or "/"
        if parts.query:
            target = f"{target}?{parts.query}"
        transport = self._transport(server, token, verify_tls)
        try:
            # The transport measures real time. On a virtual loop this timeout applies.
            async with asyncio.timeout(timeout_ns / SECOND):
                answer = await transport.send(OutgoingRequest("GET", target, timeout_ns=timeout_ns))
        except (TimeoutError, TransportError) as exc:
            reason = str(exc) or f"no response within {timeout_ns // SECOND} s"
            raise WebPageError(f"{server}: {reason}") from exc
        if answer.status != _OK:
            raise WebPageError(f"{server}{parts.path}: the response has status {answer.status}")
        return answer.body

    def _transport(self, server: str, token: str, verify_tls: bool) -> HttpTransport:
        key = server, token, verify_tls
        found = self._transports.get(key)
        if found is None:
            headers = {"Authorization": f"Bearer {token}"} if token else {}
            found = self._transports[key] = HttpTransport(
                Connection(
                    server=server,
                    tls=TlsOptions(insecure=not verify_tls),
                    credentials=FixedCredentials(Credential(headers=headers)),
                ),
                parallel=1,
            )
        return found

    async def close(self) -> None:
        for transport in self._transports.values():
            await transport.close()
