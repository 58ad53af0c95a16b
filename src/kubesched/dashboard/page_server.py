"""A separate HTTP server for the page, for clusters that this process does not serve."""

from __future__ import annotations

import asyncio
import os
from types import TracebackType
from typing import Final

from msgspec.structs import replace

from kubesched.dashboard.dashboard import PREFIX, Dashboard
from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import Request, Response, parse_target
from kubesched.foundation.http.http_server import HttpLimits, HttpServer
from kubesched.foundation.util.accept_failures import AcceptFailures

__all__ = ["PageServer"]

_SHUTDOWN_SECONDS: Final = 1.0
_LIMITS: Final = HttpLimits(
    header_seconds=10.0,
    idle_seconds=180.0,
    body_bytes=1 << 20,
    body_seconds=30.0,
)


class PageServer:
    """Serves a dashboard while its `async with` block runs; port 0 selects a free port.

    `path` is the prefix that a proxy adds to every path. Requests with and without it are accepted.
    """

    def __init__(self, dashboard: Dashboard, host: str, port: int, *, path: str = "") -> None:
        self._dashboard = dashboard
        self._host, self._port = host, port
        self._path = path
        self._http = HttpServer(self._answer, _LIMITS)

    @property
    def url(self) -> str:
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def __aenter__(self) -> PageServer:
        AcceptFailures.sum_up(asyncio.get_running_loop())
        try:
            await self._http.listen(self._host, self._port)
        except OSError as error:
            where = f"{self._host} port {self._port}"
            # The system's text without asyncio's prefix; unknown host names have no number.
            number = error.errno or 0
            why = os.strerror(number) if number > 0 else error.strerror
            raise KubeschedError(f"cannot listen on {where}: {why}") from error
        if not self._port:
            self._port = self._http.address[1]
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self._http.close(_SHUTDOWN_SECONDS)

    async def _answer(self, request: Request) -> Response:
        request = self._without_prefix(request)
        path = request.path
        if path == PREFIX or path.startswith(f"{PREFIX}/"):
            return await self._dashboard.answer(request)
        if path.strip("/"):
            return Response(404, b"no such page\n")
        return Response(303, headers={"Location": f".{PREFIX}/"})

    def _without_prefix(self, request: Request) -> Request:
        if not self._path or not request.target.startswith(self._path):
            return request
        target = request.target.removeprefix(self._path)
        if not target.startswith("/"):
            target = f"/{target}"
        path, query = parse_target(target)
        return replace(request, target=target, path=path, query=query)
