"""How many connections there may be, and how long one may say nothing.

aiohttp waits for the first request of a connection for ever, and takes as many as come: strangers
could so use up the descriptors and the memory of a process.
"""

from __future__ import annotations

import asyncio
import resource
import ssl
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError, LineTooLong
from aiohttp.web_protocol import RequestHandler

from kubesched.cluster.apiserver.http.limits import Limits
from kubesched.foundation.util.logging import get_logger

__all__ = ["ConnectionGuard", "GuardedServer", "GuardedSite"]

log = get_logger(__name__)

# Descriptors that are left to files, databases and outgoing connections.
_RESERVED = 64


class ConnectionGuard:
    """Counts connections, and closes those that are too many or too slow."""

    def __init__(self, limits: Limits) -> None:
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        room = max(_RESERVED, soft - _RESERVED)
        self._most = limits.connections if soft < 0 else min(limits.connections, room)
        self._header_seconds = limits.header_seconds
        self._waiting: dict[Any, asyncio.TimerHandle] = {}
        self.count = 0

    def enter(self, protocol: Any, transport: asyncio.BaseTransport) -> None:
        self.count += 1
        if self.count > self._most:
            transport.close()
            return
        loop = asyncio.get_running_loop()
        self._waiting[protocol] = loop.call_later(self._header_seconds, transport.close)

    def note_request(self, protocol: Any) -> None:
        """A connection has come to its first request; from then on it may be idle for a while."""
        timer = self._waiting.pop(protocol, None)
        if timer is not None:
            timer.cancel()

    def leave(self, protocol: Any) -> None:
        self.count -= 1
        self.note_request(protocol)


class _GuardedHandler(RequestHandler):
    """aiohttp's protocol, whose connections a guard knows of."""

    __slots__ = ("_guard",)

    def __init__(self, server: GuardedServer, **options: Any) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), **options)
        self._guard = server.guard

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._guard.enter(self, transport)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._guard.leave(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what is no request. Strangers may send as much of that as they like: no log."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        if isinstance(exc, LineTooLong):
            status, reason = 431, "Request Header Fields Too Large"
        else:
            status, reason = 400, "Bad Request"
        log.detail(3, "Connection with something that is no request", why=type(exc).__name__)
        answer = web.Response(status=status, text=f"{status} {reason}")
        answer.force_close()
        return answer


class GuardedServer(web.Server):
    """aiohttp's server, with a guard at its door."""

    def __init__(self, handler: Any, guard: ConnectionGuard, **options: Any) -> None:
        super().__init__(handler, handler_cancellation=True, **options)
        self.guard = guard
        self._options = options

    def __call__(self) -> RequestHandler:
        return _GuardedHandler(self, **self._options)


class GuardedSite(web.BaseSite):
    """An address of a server, where a TLS handshake takes no longer than a first request may."""

    def __init__(
        self,
        runner: web.ServerRunner,
        address: tuple[str, int],
        tls: ssl.SSLContext | None,
        limits: Limits,
    ) -> None:
        # Out of descriptors, asyncio tries in vain for each of the backlog.
        super().__init__(runner, ssl_context=tls, backlog=128)
        self._address, self._limits = address, limits

    @property
    def name(self) -> str:
        return "{}:{}".format(*self._address)

    async def start(self) -> None:
        await super().start()
        assert self._runner.server is not None
        host, port = self._address
        tls, seconds = self._ssl_context, self._limits.header_seconds
        self._server = await asyncio.get_running_loop().create_server(
            self._runner.server,
            host,
            port,
            ssl=tls,
            backlog=self._backlog,
            ssl_handshake_timeout=None if tls is None else seconds,
        )
