"""`kubectl port-forward`: connections to ports of a pod, over SPDY or SPDY inside a WebSocket.

A client opens two streams for each connection: one for data, one for an error.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kubesched.cluster.apiserver.http.spdy_connection import SpdyConnection, SpdyStream
from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import (
    RawConnection,
    UpgradedSession,
    WebSocket,
    WebSocketSession,
)

__all__ = ["ConnectPort", "PortForwarding"]

_PROTOCOL: Final = "portforward.k8s.io"
_CHUNK: Final = 32 * 1024
# Opens a connection to a port of the pod. Raises KubeschedError.
ConnectPort = Callable[[int], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


class _OverSpdy:
    upgrade = "SPDY/3.1"
    headers: Mapping[str, str] = {"X-Stream-Protocol-Version": _PROTOCOL}

    def __init__(self, serve: Callable[[SpdyConnection], Awaitable[None]]) -> None:
        self._serve = serve

    async def __call__(self, connection: RawConnection) -> None:
        async with SpdyConnection(connection.read, connection.write) as spdy:
            await self._serve(spdy)


class _OverWebSocket:
    protocols: tuple[str, ...] = (f"SPDY/3.1+{_PROTOCOL}",)

    def __init__(self, serve: Callable[[SpdyConnection], Awaitable[None]]) -> None:
        self._serve = serve

    async def __call__(self, socket: WebSocket) -> None:
        async def read() -> bytes:
            # Clients send empty messages, too; they do not end the connection.
            while (message := await socket.receive()) == b"":
                pass
            return message or b""

        async with SpdyConnection(read, socket.send) as spdy:
            await self._serve(spdy)


class PortForwarding:
    """Forwards the connections of a client to ports of a pod."""

    def __init__(self, connect: ConnectPort) -> None:
        self._connect = connect

    def over_spdy(self) -> UpgradedSession:
        return _OverSpdy(self.serve)

    def over_websocket(self) -> WebSocketSession:
        return _OverWebSocket(self.serve)

    async def serve(self, spdy: SpdyConnection) -> None:
        waiting: dict[str, SpdyStream] = {}
        async with asyncio.TaskGroup() as tasks:
            async for stream in spdy.accept():
                key = stream.headers.get("requestid", "")
                other = waiting.pop(key, None)
                if other is None:
                    waiting[key] = stream
                    continue
                is_data = stream.headers.get("streamtype") == "data"
                data, error = (stream, other) if is_data else (other, stream)
                tasks.create_task(self._forward(spdy, data, error), name="port-forward")

    async def _forward(self, spdy: SpdyConnection, data: SpdyStream, error: SpdyStream) -> None:
        port = data.headers.get("port", "")
        try:
            if not port.isdecimal():
                raise KubeschedError(f"{port!r} is not a port")
            reader, writer = await self._connect(int(port))
        except KubeschedError as failure:
            await error.write(f"error forwarding port {port} to pod: {failure}".encode())
            await error.finish()
            await data.finish()
            return
        try:
            await spdy.while_open(_copy(data, reader, writer))
        finally:
            writer.close()
        await data.finish()
        await error.finish()
        spdy.drop(data)
        spdy.drop(error)


async def _copy(
    stream: SpdyStream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copy bytes in both directions until the process closes its side."""

    async def send() -> None:
        try:
            while chunk := await stream.read():
                writer.write(chunk)
                await writer.drain()
            writer.write_eof()
        except ConnectionError:
            pass  # the other direction ends, too

    sending = asyncio.ensure_future(send())
    try:
        while chunk := await reader.read(_CHUNK):
            await stream.write(chunk)
    except ConnectionError:
        pass
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
