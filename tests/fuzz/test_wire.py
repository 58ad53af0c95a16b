"""Arbitrary bytes on a connection: the result is a response or a known error, without a hang."""

from __future__ import annotations

import asyncio
import contextlib
import random

from hypothesis import example, given
from hypothesis import strategies as st

from kubesched.api import Pod
from kubesched.api.access import ApiError
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.foundation.client.http1 import AnswerReader, HttpError
from kubesched.foundation.client.watch_stream import WatchDecoder
from kubesched.foundation.util.clock import RealClock
from tests.fuzz.effort import effort

PIECES = st.lists(
    st.sampled_from(
        [
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 ",
            b"200",
            b"\r\n",
            b"\r\n\r\n",
            b":",
            b"\n",
            *(
                b"Content-Length: 3\r\n",
                b"Content-Length: -1\r\n",
                b"Content-Length: 99999999999\r\n",
            ),
            b"Content-Length: " + b"9" * 5000 + b"\r\n",
            b"Transfer-Encoding: chunked\r\n",
            *(
                b"3\r\nabc\r\n",
                b"0\r\n\r\n",
                b"ffffffffffffffffffff\r\n",
                b"-1\r\n",
                b"zz\r\n",
                b"\x00\xff",
            ),
            b"HTTP/2 200\r\n",
            b"HTTP/1.1 \xb2\xb2\xb2\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n",
        ]
    )
    | st.binary(max_size=12),
    max_size=10,
)


@effort(300)
@given(pieces=PIECES)
@example(pieces=[b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n"])
@example(pieces=[b"HTTP/1.1 \xb2\xb2\xb2 OK\r\n\r\n"])
def test_invalid_extender_responses_are_errors(pieces: list[bytes]) -> None:
    reader = AnswerReader()
    with contextlib.suppress(HttpError):
        for piece in pieces:
            if reader.feed(piece) is not None:
                return
        reader.end()


FRAMES = st.lists(
    st.sampled_from(
        [
            b'{"type":"ADDED","object":',
            b'{"metadata":{"name":"a","uid":"u"}}',
            b"}\n",
            b"\n",
            b'{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"5"}}}\n',
            b"null\n",
            b'{"type":"ERROR","object":{"code":410}}\n',
            b'{"type":5,"object":[]}\n',
            b"[]\n",
            *(
                b'{"type":"ADDED","object":{"spec":5}}\n',
                b'{"type":"X"}\n',
                b"{" * 300,
                b"[" * 3000,
            ),
            b'{"type":"MODIFIED","object":null}\n',
            b"\xff\xfe\n",
            b'"' + b"x" * 5000,
        ]
    )
    | st.binary(max_size=10),
    max_size=8,
)


@effort(300)
@given(frames=FRAMES)
@example(frames=[b"[" * 3000 + b'"' + b"x" * 5000 + b"\xff\n"])  # found by coverage
@example(frames=[b"[" * 3000 + b'"\xff"' + b"]" * 3000 + b"\n"])
def test_watch_frames(frames: list[bytes]) -> None:
    decoder = WatchDecoder(Pod)
    with contextlib.suppress(ApiError):
        for frame in frames:
            for event in decoder.feed(frame):
                assert event.type in ("ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR")


REQUESTS = st.lists(
    st.sampled_from(
        [
            *(
                b"GET /api/v1/pods HTTP/1.1\r\n",
                b"POST /api/v1/namespaces/default/pods HTTP/1.1\r\n",
            ),
            *(
                b"Host: x\r\n",
                b"\r\n",
                b"Content-Length: 2\r\n",
                b"{}",
                b"Content-Encoding: gzip\r\n",
            ),
            *(
                b"Authorization: Bearer \xff\r\n",
                b"Content-Type: application/yaml\r\n",
                b"[" * 2000,
            ),
            *(
                b"Transfer-Encoding: chunked\r\n",
                b"2\r\n{}\r\n0\r\n\r\n",
                b"GET /%ff%00 HTTP/1.1\r\n",
            ),
            *(
                b"Connection: close\r\n",
                b"GET /?\xff=\xff HTTP/1.1\r\n",
                b"X: " + b"y" * 9000 + b"\r\n",
            ),
            b"Expect: 100-continue\r\n",
            b"Upgrade: websocket\r\n",
            b"Accept: \xff;;q=x\r\n",
        ]
    )
    | st.binary(max_size=10),
    max_size=8,
)


@effort(40)
@given(requests=st.lists(REQUESTS, min_size=1, max_size=3))
def test_invalid_requests_are_refused(requests: list[list[bytes]]) -> None:
    async def main() -> None:
        service = ApiService(Store(random.Random(0)), RealClock())
        limits = ApiLimits(header_seconds=0.5, body_seconds=0.1)
        async with ApiServer(service, limits=limits) as server:
            port = int(server.url.rpartition(":")[2])
            for pieces in requests:
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"".join(pieces))
                writer.write_eof()
                with contextlib.suppress(ConnectionError):
                    answer = await reader.read()
                    assert not answer.startswith(b"HTTP/1.1 500"), answer
                writer.close()
                with contextlib.suppress(ConnectionError):
                    await writer.wait_closed()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"ok")
            writer.close()
            await writer.wait_closed()

    asyncio.run(main())
