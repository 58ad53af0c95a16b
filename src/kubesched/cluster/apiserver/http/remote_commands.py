"""The output of commands and containers on a connection, for `kubectl exec` and `attach`.

There are two protocols: a WebSocket whose messages begin with a channel number, and SPDY with a
stream for each channel. Older versions of kubectl support SPDY only.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import msgspec

from kubesched.cluster.apiserver.http.spdy_connection import SpdyConnection, SpdyStream
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.foundation.http.http_messages import Query, RawConnection, Request, WebSocket

__all__ = [
    "STDERR",
    "STDOUT",
    "Emit",
    "Produce",
    "ReadInput",
    "SpdyCommand",
    "WebSocketCommand",
    "spdy_protocol",
]

_STDIN, STDOUT, STDERR, _ERROR, _CLOSE = 0, 1, 2, 3, 255
_PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_SPDY_PROTOCOL = "v4.channel.k8s.io"
_PROTOCOL_HEADER = "X-Stream-Protocol-Version"
# Sends output on a channel.
Emit = Callable[[int, bytes], Awaitable[None]]
# Waits for input and returns it; empty at its end.
ReadInput = Callable[[], Awaitable[bytes]]
# Produces output and returns the exit code; None: the command runs until the client leaves.
Produce = Callable[[Emit, ReadInput], Awaitable[int | None]]


class WebSocketCommand:
    """Sends the output of a command to a client, and its exit code."""

    protocols: tuple[str, ...] = _PROTOCOLS

    def __init__(self, produce: Produce) -> None:
        self._produce = produce

    async def __call__(self, socket: WebSocket) -> None:
        async def emit(channel: int, data: bytes) -> None:
            await socket.send(bytes([channel]) + data)

        async def read() -> bytes:
            while (message := await socket.receive()) is not None:
                if message[:1] == bytes([_STDIN]) and len(message) > 1:
                    return message[1:]
                if message == bytes([_CLOSE, _STDIN]):
                    break
            return b""

        code = await self._produce(emit, read)
        if code is None:
            await socket.wait_closed()
            return
        await socket.send(bytes([_ERROR]) + _status(code))


def spdy_protocol(request: Request) -> Mapping[str, str]:
    """Return the headers that accept a SPDY connection. Raises ApiError 400."""
    offered = [
        each.strip() for value in request.headers.all(_PROTOCOL_HEADER) for each in value.split(",")
    ]
    if _SPDY_PROTOCOL not in offered:
        raise api_errors.bad_request(
            "unable to upgrade: unable to negotiate protocol: client supports "
            f"[{' '.join(offered)}], server accepts [{_SPDY_PROTOCOL}]"
        )
    return {_PROTOCOL_HEADER: _SPDY_PROTOCOL}


class SpdyCommand:
    """The same as `WebSocketCommand` on a SPDY connection."""

    upgrade = "SPDY/3.1"

    def __init__(self, produce: Produce, query: Query, headers: Mapping[str, str]) -> None:
        self.headers = headers
        self._produce = produce
        self._channels = {"error": _ERROR}
        if query.flag("stdin"):
            self._channels["stdin"] = _STDIN
        if query.flag("stdout"):
            self._channels["stdout"] = STDOUT
        if query.flag("stderr") and not query.flag("tty"):
            self._channels["stderr"] = STDERR

    async def __call__(self, connection: RawConnection) -> None:
        async with SpdyConnection(connection.read, connection.write) as spdy:
            streams = await self._opened(spdy)
            if streams is None:
                return

            async def emit(channel: int, data: bytes) -> None:
                if channel in streams:
                    await streams[channel].write(data)

            async def read() -> bytes:
                return await streams[_STDIN].read() if _STDIN in streams else b""

            code = await spdy.while_open(self._produce(emit, read))
            if code is not None:
                for channel, stream in streams.items():
                    if channel not in (_STDIN, _ERROR):
                        await stream.finish()
                await streams[_ERROR].write(_status(code))
                await streams[_ERROR].finish()
            await spdy.wait_closed()

    async def _opened(self, spdy: SpdyConnection) -> dict[int, SpdyStream] | None:
        """Return the streams by channel, or None if the client leaves before it opens all."""
        streams: dict[int, SpdyStream] = {}
        async for stream in spdy.accept():
            channel = self._channels.get(stream.headers.get("streamtype", ""))
            if channel is not None:
                streams[channel] = stream
            if len(streams) == len(self._channels):
                return streams
        return None


def _status(exit_code: int) -> bytes:
    """Return the Status that ends a session."""
    if not exit_code:
        return msgspec.json.encode({"metadata": {}, "status": "Success"})
    text = "command terminated with non-zero exit code"
    return msgspec.json.encode(
        {
            "metadata": {},
            "status": "Failure",
            "message": f"{text}: error executing command, exit code {exit_code}",
            "reason": "NonZeroExitCode",
            "details": {"causes": [{"reason": "ExitCode", "message": str(exit_code)}]},
        }
    )
