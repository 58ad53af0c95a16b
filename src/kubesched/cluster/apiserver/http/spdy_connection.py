"""A SPDY connection of a client: the streams that it opens, and their bytes in both directions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from types import TracebackType
from typing import Final, TypeVar

from kubesched.cluster.apiserver.http.spdy_frames import (
    DATA,
    FINISHES,
    GOAWAY,
    PING,
    RESET,
    SYN_STREAM,
    SpdyError,
    SpdyFrame,
    SpdyReader,
    SpdyWriter,
)

__all__ = ["SpdyConnection", "SpdyStream"]

T = TypeVar("T")

_MOST_STREAMS: Final = 200
_PART: Final = 16 * 1024


class SpdyStream:
    """A stream that a client has opened."""

    def __init__(self, connection: SpdyConnection, number: int, headers: Mapping[str, str]) -> None:
        self._connection, self.number, self.headers = connection, number, headers
        # Received bytes; an empty value ends the stream.
        self._received: asyncio.Queue[bytes] = asyncio.Queue()

    async def read(self) -> bytes:
        """Wait for bytes and return them; empty when the client has finished the stream."""
        return await self._received.get()

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _PART):
            part = data[start : start + _PART]
            await self._connection.send(self._connection.writer.data(self.number, part))

    async def finish(self) -> None:
        """Notify the client that the stream has ended."""
        frame = self._connection.writer.data(self.number, b"", finishes=True)
        await self._connection.send(frame)

    async def reset(self) -> None:
        await self._connection.send(self._connection.writer.reset(self.number))

    def receive(self, data: bytes) -> None:
        self._received.put_nowait(data)


class SpdyConnection:
    """The streams of a connection. It receives frames while its block runs."""

    def __init__(
        self, read: Callable[[], Awaitable[bytes]], write: Callable[[bytes], Awaitable[None]]
    ) -> None:
        """`read` returns empty bytes at the end of the connection."""
        self._read, self.send = read, write
        self._reader, self.writer = SpdyReader(), SpdyWriter()
        self._streams: dict[int, SpdyStream] = {}
        self._new: asyncio.Queue[SpdyStream | None] = asyncio.Queue()
        self._closed = asyncio.Event()
        self._receiving: asyncio.Task[None] | None = None

    async def __aenter__(self) -> SpdyConnection:
        self._receiving = asyncio.create_task(self._receive(), name="spdy")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._receiving is not None
        self._receiving.cancel()
        await asyncio.gather(self._receiving, return_exceptions=True)

    async def accept(self) -> AsyncIterator[SpdyStream]:
        """Yield the streams that the client opens, until the connection ends."""
        while (stream := await self._new.get()) is not None:
            yield stream

    async def while_open(self, work: Awaitable[T]) -> T | None:
        """Return the result of some work, or None if the connection ends before."""
        task = asyncio.ensure_future(work)
        closing = asyncio.ensure_future(self.wait_closed())
        try:
            await asyncio.wait((task, closing), return_when=asyncio.FIRST_COMPLETED)
            return task.result() if task.done() else None
        finally:
            for each in (task, closing):
                each.cancel()
            await asyncio.gather(task, closing, return_exceptions=True)

    async def wait_closed(self) -> None:
        """Wait until the client ends the connection."""
        await self._closed.wait()

    async def _receive(self) -> None:
        try:
            while not self._closed.is_set() and (data := await self._read()):
                for frame in self._reader.feed(data):
                    await self._handle(frame)
        except (SpdyError, ConnectionError, TimeoutError):
            pass  # the client has disconnected, or sends other data
        finally:
            self._close()

    def _close(self) -> None:
        self._closed.set()
        self._new.put_nowait(None)
        for stream in self._streams.values():
            stream.receive(b"")

    async def _handle(self, frame: SpdyFrame) -> None:
        kind = frame.kind
        stream = self._streams.get(frame.stream)
        if kind == SYN_STREAM:
            await self._open(frame)
        elif kind == PING:
            await self.send(self.writer.ping(frame.payload))
        elif kind == GOAWAY:
            self._close()
        elif kind == RESET and stream is not None:
            self.drop(stream)
            stream.receive(b"")
        elif kind == DATA and stream is not None:
            if frame.payload:
                stream.receive(frame.payload)
                await self.send(self.writer.window(frame.stream, len(frame.payload)))
            if frame.flags & FINISHES:
                stream.receive(b"")

    async def _open(self, frame: SpdyFrame) -> None:
        if len(self._streams) >= _MOST_STREAMS:
            await self.send(self.writer.reset(frame.stream))
            return
        stream = SpdyStream(self, frame.stream, frame.headers)
        self._streams[frame.stream] = stream
        await self.send(self.writer.reply(frame.stream))
        if frame.flags & FINISHES:
            stream.receive(b"")
        self._new.put_nowait(stream)

    def drop(self, stream: SpdyStream) -> None:
        """Drop a stream that both sides have finished."""
        self._streams.pop(stream.number, None)
