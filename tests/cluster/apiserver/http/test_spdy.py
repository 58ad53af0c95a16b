"""SPDY frames, and sessions of exec and port forwarding with a client of the test."""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping

import pytest

from kubesched.cluster.apiserver.http.port_forwarding import PortForwarding
from kubesched.cluster.apiserver.http.remote_commands import (
    STDERR,
    STDOUT,
    Emit,
    Produce,
    ReadInput,
    SpdyCommand,
)
from kubesched.cluster.apiserver.http.spdy_frames import (
    DATA,
    FINISHES,
    PING,
    SYN_REPLY,
    SpdyError,
    SpdyFrame,
    SpdyReader,
    SpdyWriter,
)
from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import Query, RawConnection


class Pipe:
    """Both ends of a connection: the server's, and methods of the client."""

    def __init__(self) -> None:
        self._to_server: asyncio.Queue[bytes] = asyncio.Queue()
        self._frames: asyncio.Queue[SpdyFrame] = asyncio.Queue()
        self._reader, self.writer = SpdyReader(), SpdyWriter()
        self._next = 1

    async def read(self) -> bytes:
        return await self._to_server.get()

    async def write(self, data: bytes) -> None:
        for frame in self._reader.feed(data):
            self._frames.put_nowait(frame)

    def send(self, data: bytes) -> None:
        # One byte per read: frames arrive in pieces.
        for number in range(len(data)):
            self._to_server.put_nowait(data[number : number + 1])

    def close(self) -> None:
        self._to_server.put_nowait(b"")

    def open(self, **headers: str) -> int:
        stream, self._next = self._next, self._next + 2
        self.send(self.writer.open(stream, headers))
        return stream

    async def frame(self) -> SpdyFrame:
        return await self._frames.get()

    async def contents(self, *streams: int) -> dict[int, bytes]:
        """Return what the server sends on some streams until it has finished all of them."""
        found = dict.fromkeys(streams, b"")
        open_streams = set(streams)
        while open_streams:
            frame = await self.frame()
            if frame.kind == DATA:
                found[frame.stream] += frame.payload
                if frame.flags & FINISHES:
                    open_streams.discard(frame.stream)
        return found


def converse(
    session: Callable[[RawConnection], Awaitable[None]], client: Callable[[Pipe], Awaitable[None]]
) -> None:
    async def main() -> None:
        pipe = Pipe()
        serving = asyncio.ensure_future(session(pipe))
        await client(pipe)
        pipe.close()
        await serving

    asyncio.run(main())


def test_the_dictionary_is_that_of_the_protocol() -> None:
    """A compressed block names the checksum of its dictionary: e3c6a7c2 for version 3."""
    # 8 bytes of the frame, 10 of the stream, 2 of the zlib header.
    assert SpdyWriter().open(1, {"a": "b"})[20:24] == bytes.fromhex("e3c6a7c2")


def test_frames_survive_any_split() -> None:
    writer, reader = SpdyWriter(), SpdyReader()
    sent = writer.open(1, {"StreamType": "error"}) + writer.open(3, {"streamtype": "stdout"})
    sent += writer.data(3, b"text", finishes=True) + writer.ping(b"\0\0\0\1")
    frames = [frame for byte in sent for frame in reader.feed(bytes([byte]))]
    assert [(each.kind, each.stream) for each in frames] == [(1, 1), (1, 3), (DATA, 3), (PING, 0)]
    assert [each.headers for each in frames[:2]] == [
        {"streamtype": "error"},
        {"streamtype": "stdout"},
    ]
    assert (frames[2].payload, frames[2].flags) == (b"text", FINISHES)


def _bomb() -> bytes:
    """Return a frame whose headers are much larger than the frame."""
    block = zlib.compress(b"\0\0\0\1" + bytes(10_000_000))
    payload = struct.pack(">IIH", 1, 0, 0) + block
    return struct.pack(">II", 0x80030001, len(payload)) + payload


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", 0x80020001, 4) + bytes(4),  # version 2
        struct.pack(">II", 0x80030001, 2) + bytes(2),  # too short
        struct.pack(">II", 0x80030001, 20) + bytes(20),  # no compressed headers
        struct.pack(">II", 1, 0xFFFFFF),  # too large
        _bomb(),
    ],
)
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(SpdyError):
        list(SpdyReader().feed(data))


def command(produce: Produce, **query: str) -> SpdyCommand:
    return SpdyCommand(produce, Query(query.items()), {})


def test_a_command_writes_to_its_streams_and_ends_with_a_status() -> None:
    async def produce(emit: Emit, _read: ReadInput) -> int:
        await emit(STDOUT, b"x" * 40_000)
        await emit(STDERR, b"bad")
        return 3

    async def client(pipe: Pipe) -> None:
        error, out, wrong = (pipe.open(streamtype=each) for each in ("error", "stdout", "stderr"))
        assert [(await pipe.frame()).kind for _ in range(3)] == [SYN_REPLY] * 3
        pipe.send(pipe.writer.ping(b"\0\0\0\7"))
        found = await pipe.contents(error, out, wrong)
        assert (len(found[out]), found[wrong]) == (40_000, b"bad")
        assert b'"reason":"ExitCode","message":"3"' in found[error]

    converse(command(produce, stdout="1", stderr="1"), client)


def test_a_command_reads_the_input_of_the_client() -> None:
    async def produce(emit: Emit, read: ReadInput) -> int:
        received = b""
        while chunk := await read():
            received += chunk
        await emit(STDOUT, received.upper())
        return 0

    async def client(pipe: Pipe) -> None:
        error, given, out = (pipe.open(streamtype=each) for each in ("error", "stdin", "stdout"))
        pipe.send(pipe.writer.data(given, b"some "))
        pipe.send(pipe.writer.data(given, b"text", finishes=True))
        found = await pipe.contents(error, out)
        assert found[out] == b"SOME TEXT"

    converse(command(produce, stdin="1", stdout="1"), client)


def test_a_client_that_leaves_ends_the_command() -> None:
    cancelled: list[bool] = []

    async def produce(_emit: Emit, _read: ReadInput) -> int:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise
        return 0

    async def client(pipe: Pipe) -> None:
        pipe.open(streamtype="error")
        await pipe.frame()
        await asyncio.sleep(0)

    converse(command(produce), client)
    assert cancelled == [True]


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send everything back in capital letters, and close."""
    writer.write((await reader.read()).upper())
    await writer.drain()
    writer.close()


def test_connections_to_ports_run_side_by_side() -> None:
    async def main() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        local = server.sockets[0].getsockname()[1]

        async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if port != 80:
                raise KubeschedError(f"nothing listens on port {port}")
            return await asyncio.open_connection("127.0.0.1", local)

        pipe = Pipe()
        serving = asyncio.ensure_future(PortForwarding(connect).over_spdy()(pipe))

        def open_pair(port: str, request: str) -> tuple[int, int]:
            common: Mapping[str, str] = {"port": port, "requestID": request}
            error = pipe.open(streamtype="error", **common)
            return error, pipe.open(streamtype="data", **common)

        pairs = [open_pair("80", str(number)) for number in range(5)]
        for number, (error, data) in enumerate(pairs):
            pipe.send(pipe.writer.data(error, b"", finishes=True))
            pipe.send(pipe.writer.data(data, b"message %d" % number, finishes=True))
        found = await pipe.contents(*(stream for pair in pairs for stream in pair))
        assert [found[data] for _, data in pairs] == [b"MESSAGE %d" % each for each in range(5)]
        assert [found[error] for error, _ in pairs] == [b""] * 5
        error, data = open_pair("81", "x")
        found = await pipe.contents(error, data)
        text = b"error forwarding port 81 to pod: nothing listens on port 81"
        assert found == {error: text, data: b""}
        pipe.close()
        await serving
        server.close()
        await server.wait_closed()

    asyncio.run(main())
