"""Requests without a response do not block other requests."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from kubesched.foundation.client import request_pool
from kubesched.foundation.client.request_pool import RequestPool

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Server:
    """Responds to /good, and never to other requests."""

    def __init__(self) -> None:
        self.writers: list[asyncio.StreamWriter] = []
        self.asked: list[str] = []
        self.sixth = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                path = head.split(b" ")[1].decode()
                self.asked.append(path)
                if self.asked.count("/bad") == 6:
                    self.sixth.set()
                if path == "/good":
                    writer.write(ANSWER)
        writer.transport.abort()


def test_unanswered_requests_release_their_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_pool, "_OVERDUE_S", 0.01)
    monkeypatch.setattr(request_pool, "_OVERDUE_PER_SLOT", 2)

    async def main() -> None:
        server = Server()
        listener = await asyncio.start_server(server.serve, "127.0.0.1")
        port = listener.sockets[0].getsockname()[1]
        pool = RequestPool("127.0.0.1", port, parallel=2)

        def send(path: str) -> asyncio.Task[object]:
            request = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
            return asyncio.create_task(pool.send(lambda: request))

        hanging = [send("/bad") for _ in range(3)]
        async with asyncio.timeout(20):
            for _ in range(5):
                await send("/good")
            # At most this number of requests waits in addition to the limit.
            hanging += [send("/bad") for _ in range(20)]
            await server.sixth.wait()
        await asyncio.sleep(0.1)
        assert server.asked.count("/bad") == 6
        assert pool.overdue == 4
        for each in hanging:
            each.cancel()
        await asyncio.wait(hanging)
        assert pool.overdue == 0
        async with asyncio.timeout(20):
            await asyncio.gather(*(send("/good") for _ in range(10)))
        pool.close()
        listener.close()
        await listener.wait_closed()
        for writer in server.writers:
            with contextlib.suppress(ConnectionError):
                await writer.wait_closed()

    asyncio.run(main())
