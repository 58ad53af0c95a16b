"""Port forwarding over channels of a WebSocket, which the official Python client uses.

The client names the ports in the request. Port number `n` of the request has two channels: `2n` for
data and `2n + 1` for an error. The first message on each of them is the port, in two bytes.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence
from typing import Final

from kubesched.cluster.apiserver.http.port_forwarding import ConnectPort
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import Query, WebSocket

__all__ = ["ChannelForwarding", "forwarded_ports"]

_PORT: Final = re.compile("[0-9]{1,5}")
_CHUNK: Final = 32 * 1024
# Each port takes two of the 256 channels.
_MOST_PORTS: Final = 128


def forwarded_ports(query: Query) -> list[int]:
    """Return the ports that a request names. Raises ApiError 400."""
    texts = [each for value in query.all("ports") for each in value.split(",")]
    if not texts:
        raise api_errors.bad_request('query parameter "ports" is required')
    if len(texts) > _MOST_PORTS:
        raise api_errors.bad_request(f"at most {_MOST_PORTS} ports can be forwarded together")
    for text in texts:
        if not _PORT.fullmatch(text) or not 0 < int(text) < 65536:
            raise api_errors.bad_request(f'unable to parse "{text}" as a port')
    return [int(text) for text in texts]


class ChannelForwarding:
    """Forwards one connection for each port until the client or all processes close theirs."""

    protocols: tuple[str, ...] = ("v4.channel.k8s.io",)

    def __init__(self, ports: Sequence[int], connect: ConnectPort) -> None:
        self._ports, self._connect = ports, connect

    async def __call__(self, socket: WebSocket) -> None:
        for number, port in enumerate(self._ports):
            for channel in (2 * number, 2 * number + 1):
                await socket.send(bytes([channel]) + port.to_bytes(2, "little"))
        writers: dict[int, asyncio.StreamWriter] = {}
        try:
            copying = await self._connected(socket, writers)
            tasks = [
                asyncio.create_task(_all(copying), name="port-forward"),
                asyncio.create_task(_receive(socket, writers), name="port-forward"),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            for writer in writers.values():
                writer.close()

    async def _connected(
        self, socket: WebSocket, writers: dict[int, asyncio.StreamWriter]
    ) -> list[tuple[WebSocket, int, asyncio.StreamReader]]:
        """Connect to the processes, and add a writer for the channel of each."""
        readers = []
        for number, port in enumerate(self._ports):
            try:
                reader, writers[2 * number] = await self._connect(port)
            except KubeschedError as failure:
                text = f"error forwarding port {port} to pod: {failure}"
                await socket.send(bytes([2 * number + 1]) + text.encode())
            else:
                readers.append((socket, 2 * number, reader))
        return readers


async def _all(readers: Iterable[tuple[WebSocket, int, asyncio.StreamReader]]) -> None:
    async with asyncio.TaskGroup() as tasks:
        for each in readers:
            tasks.create_task(_copy_to(*each), name="port-forward")


async def _copy_to(socket: WebSocket, channel: int, reader: asyncio.StreamReader) -> None:
    """Send what a process writes, until it closes its connection."""
    try:
        while chunk := await reader.read(_CHUNK):
            await socket.send(bytes([channel]) + chunk)
    except (ConnectionError, TimeoutError):
        pass  # the process or the client has gone


async def _receive(socket: WebSocket, writers: dict[int, asyncio.StreamWriter]) -> None:
    """Write what the client sends to the processes, until it disconnects."""
    while (message := await socket.receive()) is not None:
        writer = writers.get(message[0]) if message else None
        if writer is None or len(message) == 1:
            continue  # nothing listens on this port, or there is no data
        try:
            writer.write(message[1:])
            await writer.drain()
        except ConnectionError:
            del writers[message[0]]
