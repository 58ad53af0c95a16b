"""The page on a socket of its own, for clusters that are not served by this process."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType

from aiohttp import web

from kubesched.cluster.apiserver.http.connection_guard import ConnectionGuard, GuardedServer
from kubesched.cluster.apiserver.http.limits import Limits
from kubesched.dashboard.dashboard import PREFIX, Dashboard
from kubesched.dashboard.wire import aiohttp_handler
from kubesched.errors import KubeschedError
from kubesched.foundation.util.accept_failures import AcceptFailures

__all__ = ["PageServer"]

_SHUTDOWN_SECONDS = 1.0


class PageServer:
    """Serves a dashboard while its block runs; port 0 takes a free one.

    `path` is what a proxy puts before every path; requests may come with it or without.
    """

    def __init__(self, dashboard: Dashboard, host: str, port: int, *, path: str = "") -> None:
        self._answer = aiohttp_handler(dashboard.answer, path)
        self._host, self._port = host, port
        self._guard = ConnectionGuard(Limits())
        self._path = path
        self._runner: web.ServerRunner | None = None

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def __aenter__(self) -> PageServer:
        AcceptFailures.sum_up(asyncio.get_running_loop())
        server = GuardedServer(self._handle, self._guard, access_log=None)
        self._runner = web.ServerRunner(server, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        # Out of descriptors, asyncio tries in vain for each of a backlog.
        site = web.TCPSite(self._runner, self._host, self._port, backlog=128)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            where = f"{self._host} port {self._port}"
            # Without the words around it that asyncio has, unless the name is not known.
            number = error.errno or 0
            why = os.strerror(number) if number > 0 else error.strerror
            raise KubeschedError(f"cannot listen on {where}: {why}") from error
        if not self._port:
            self._port = self._runner.addresses[0][1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self._guard.note_request(request.protocol)
        path = request.path.removeprefix(self._path) if self._path else request.path
        if path != PREFIX and not path.startswith(f"{PREFIX}/"):
            if path.strip("/"):
                return web.Response(status=404, text="no such page\n")
            return web.Response(status=303, headers={"Location": f".{PREFIX}/"})
        return await self._answer(request)
