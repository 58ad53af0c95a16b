"""An API server as a process of its own, to be stopped, killed and started again.

`python api_server_process.py DATA PORT` stores its objects in DATA and prints `ready`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path

from kubesched.cluster.embedded_cluster import EmbeddedCluster, Listen
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.util.clock import RealClock

_PORTS = iter(range(20_000 + os.getpid() % 1_000 * 12, 32_768))
"""Ports below the ephemeral range, and different ones in each process, so that a free port stays
free until the server binds it.
"""


def free_port() -> int:
    for port in _PORTS:
        with contextlib.suppress(OSError), socket.socket() as listener:
            listener.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class ServerProcess:
    """The process, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self._data, self.port = folder / "cluster.db", free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, __file__, str(self._data), str(self.port)),
            stdout=asyncio.subprocess.PIPE,
        )
        assert self._process.stdout is not None
        assert await self._process.stdout.readline() == b"ready\n"

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            await process.wait()

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    @contextlib.asynccontextmanager
    async def client(self) -> AsyncIterator[HttpApi]:
        transport = HttpTransport(Connection(server=self.url))
        api = HttpApi(transport, RealClock(), random.Random(0), qps=-1, burst=0)
        try:
            yield api
        finally:
            await api.close()


async def _serve(data: Path, port: int) -> None:
    listen = Listen(port=port, tls=False)
    async with EmbeddedCluster(RealClock(), random.Random(0), listen=listen, data=data):
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2])))
