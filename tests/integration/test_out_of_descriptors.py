"""A server without free descriptors does not flood its log, and recovers when some are free."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import socket

import pytest

from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.foundation.util.clock import RealClock


def test_connections_beyond_the_last_descriptor_are_logged_in_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def main() -> None:
        service = ApiService(Store(random.Random(0)), RealClock())
        async with ApiServer(service) as server:
            port = int(server.url.rpartition(":")[2])
            loop = asyncio.get_running_loop()
            # Sockets first: their later connections need descriptors of the same process.
            connections = [socket.socket() for _ in range(30)]
            for connection in connections:
                connection.setblocking(False)
            try:
                next_free = os.dup(0)
                os.close(next_free)
                resource.setrlimit(resource.RLIMIT_NOFILE, (next_free, hard))
                async with asyncio.timeout(20):
                    for connection in connections:
                        await loop.sock_connect(connection, ("127.0.0.1", port))
                    # The listener's turns to fail in.
                    for _ in range(1000):
                        if "not accepted" in caplog.text:
                            break
                        await asyncio.sleep(0)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
                for connection in connections:
                    connection.close()
            async with asyncio.timeout(20):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                assert (await reader.read()).startswith(b"HTTP/1.1 200")
                writer.close()

    asyncio.run(main())
    assert len(caplog.records) == 1
    assert "Traceback" not in caplog.text
