"""Plain requests and answers on aiohttp, for the servers of this project that are built on it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

from aiohttp import web

from kubesched.scheduler.server.endpoints.http_messages import (
    BadRequest,
    Headers,
    Request,
    Response,
    parse_target,
    text_error,
)

__all__ = ["aiohttp_handler"]

_MOST_BODY: Final = 1 << 20
_STALLED_S: Final = 60.0


def aiohttp_handler(
    answer: Callable[[Request], Awaitable[Response]], strip: str = ""
) -> Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]:
    """Have requests answered by `answer`, without a prefix of their path if they have it."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        try:
            response = await answer(_plain(request, strip))
        except BadRequest as error:
            response = text_error(str(error), error.status)
        headers = {**response.headers, "Content-Type": response.content_type}
        if response.stream is None:
            return web.Response(status=response.status, body=response.body, headers=headers)
        streamed = web.StreamResponse(status=response.status, headers=headers)
        await _send(request, streamed, response.stream)
        return streamed

    return handle


async def _send(
    request: web.BaseRequest, response: web.StreamResponse, parts: AsyncGenerator[bytes, None]
) -> None:
    """Send parts as long as they are taken; whoever does not read for a minute is let go."""
    try:
        async with aclosing(parts):
            await response.prepare(request)
            async for part in parts:
                async with asyncio.timeout(_STALLED_S):
                    await response.write(part)
    except (ConnectionError, TimeoutError):
        pass  # the viewer went away, or does not read


def _plain(request: web.BaseRequest, strip: str) -> Request:
    target = request.raw_path
    if strip and target.startswith(f"{strip}/"):
        target = target.removeprefix(strip)
    path, query = parse_target(target)
    return Request(
        method=request.method,
        target=target,
        path=path,
        query=query,
        headers=Headers(request.headers.items()),
        read_body=lambda: _body(request),
    )


async def _body(request: web.BaseRequest) -> bytes:
    raw = bytearray()
    while chunk := await request.content.readany():
        raw += chunk
        if len(raw) > _MOST_BODY:
            raise BadRequest("the request is too large", 413)
    return bytes(raw)
