"""Persistent connections to one server, each for one request at a time.

A scheduler sends thousands of small requests to an API server. This client supports only what
they need, at a third of the cost of a general HTTP client
(docs/decisions/0008-own-request-pool.md).
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
import select
import socket
import ssl
from collections.abc import Callable
from typing import cast

from kubesched.foundation.client.http1 import AnswerReader, HttpError
from kubesched.foundation.client.transport import ServerResponse
from kubesched.foundation.util.moving_deadline import MovingDeadline

__all__ = ["RequestPool", "open_socket"]

_CONNECT_S = 30
_NEXT_ADDRESS_S = 1
# A server ends requests after a minute, so a longer silence means a dead connection.
_SILENCE_S = 90
# The limit for a server that sends a few bytes at a time and never completes the response.
_WHOLE_S = 600
# Shorter than the 90 s after which API servers close idle connections, and than the 10 s and more
# of common proxies: a write on a connection that is being closed cannot be repeated.
_IDLE_S = 9
_PEER_GONE_MS = 45_000
# poll() always reports errors; this flag adds the end of the connection. A write on a connection
# that the server has closed would be lost, and the event loop may not have processed the end yet.
_HANGUP = getattr(select, "POLLRDHUP", 0)
# A slower response no longer counts against the limit of requests in flight, up to this many.
_OVERDUE_S = 2.0
_OVERDUE_PER_SLOT = 8
# After a refused connection, other requests fail for this long without an attempt to connect.
_REFUSED_S = 0.1


class RequestPool:
    """Sends requests to a host and port; at most a fixed number is in flight."""

    def __init__(self, host: str, port: int, *, parallel: int) -> None:
        self._host, self._port = host, port
        self._slots = _Slots(parallel)
        self._refused_until_s = 0.0
        self._address: object = None
        self._idle: list[_Connection] = []  # ordered by last use

    @property
    def overdue(self) -> int:
        """The number of requests in flight that no longer count against the limit."""
        return self._slots.overdue

    async def send(
        self,
        encode: Callable[[], bytes],
        *,
        context: ssl.SSLContext | None = None,
        server_name: str = "",
        timeout_s: float | None = None,
        may_repeat: bool = False,
    ) -> ServerResponse:
        """Send the result of `encode`, which is called when a connection is available.

        With `may_repeat` the request is sent a second time if the server has closed an idle
        connection. Without a timeout only a silent server ends the wait.

        Raises:
            OSError: there is no connection, or it broke; TimeoutError is one.
            HttpError: the response is not HTTP.
        """
        if timeout_s is None:
            return await self._send(encode, context, server_name, may_repeat, True)
        async with asyncio.timeout(timeout_s):
            return await self._send(encode, context, server_name, may_repeat, False)

    async def _send(
        self,
        encode: Callable[[], bytes],
        context: ssl.SSLContext | None,
        server_name: str,
        may_repeat: bool,
        ends_with_silence: bool,
    ) -> ServerResponse:
        slot = await self._slots.acquire()
        try:
            while True:
                kept = self._kept(context)
                connection = kept or await self._connect(context, server_name)
                try:
                    return await self._exchange(connection, encode, ends_with_silence)
                except ConnectionError:
                    if kept is None or not may_repeat or connection.has_answered:
                        raise
        finally:
            self._slots.release(slot)

    def close(self) -> None:
        """Close all idle connections."""
        self._slots.close()
        while self._idle:
            self._idle.pop().close()

    async def _exchange(
        self, connection: _Connection, encode: Callable[[], bytes], ends_with_silence: bool
    ) -> ServerResponse:
        try:
            request = encode()
        except BaseException:
            self._return_connection(connection)  # nothing was sent
            raise
        try:
            answer = await connection.send(request, ends_with_silence)
        except BaseException:
            connection.close()
            raise
        self._return_connection(connection)
        return answer

    def _kept(self, context: ssl.SSLContext | None) -> _Connection | None:
        """Return the idle connection that was used last, so that the others expire."""
        self._close_old()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable() and connection.context is context:
                return connection
            connection.close()
        return None

    def _return_connection(self, connection: _Connection) -> None:
        if connection.is_spent:
            connection.close()
        else:
            connection.idle_since_s = asyncio.get_running_loop().time()
            self._idle.append(connection)

    def _close_old(self) -> None:
        long_ago_s = asyncio.get_running_loop().time() - _IDLE_S
        while self._idle and self._idle[0].idle_since_s < long_ago_s:
            self._idle.pop(0).close()

    async def _connect(self, context: ssl.SSLContext | None, server_name: str) -> _Connection:
        loop = asyncio.get_running_loop()
        if loop.time() < self._refused_until_s:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        async with asyncio.timeout(_CONNECT_S):
            try:
                connecting = await self._connected_socket()
            except ConnectionRefusedError:
                self._refused_until_s = loop.time() + _REFUSED_S
                raise
            name = server_name or self._host
            _, connection = await loop.create_connection(
                lambda: _Connection(context),
                sock=connecting,
                ssl=context,
                server_hostname=name if context is not None else None,
            )
        return connection

    async def _connected_socket(self) -> socket.socket:
        """Return a socket to the first address of the host that accepts a connection.

        The last successful address is tried first, because others may be unreachable.
        """
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        found.sort(key=lambda each: each[4] != self._address)
        failure: OSError | None = None
        for left, (family, kind, protocol, _, address) in enumerate(found, start=1 - len(found)):
            connecting = open_socket(family, kind, protocol)
            try:
                async with asyncio.timeout(_NEXT_ADDRESS_S if left else None):
                    await loop.sock_connect(connecting, address)
            except OSError as exc:
                connecting.close()
                failure = exc
            except BaseException:
                connecting.close()
                raise
            else:
                self._address = address
                return connecting
        raise failure or OSError(f"{self._host} has no address")


class _Slots:
    """Limits the number of requests in flight. A slow response returns its slot early.

    Otherwise a few bindings that wait for a slow webhook would block all other requests for a
    minute and a half.
    """

    def __init__(self, parallel: int) -> None:
        self._free = asyncio.Semaphore(parallel)
        self._most_overdue = _OVERDUE_PER_SLOT * parallel
        self._numbers = itertools.count()
        self._held: dict[int, float] = {}  # when the slot becomes overdue, the first one first
        self._overdue: set[int] = set()
        self._deadline = MovingDeadline(self._return_overdue)

    @property
    def overdue(self) -> int:
        return len(self._overdue)

    async def acquire(self) -> int:
        """Wait for a slot, and return its number."""
        await self._free.acquire()
        number = next(self._numbers)
        self._held[number] = due_s = asyncio.get_running_loop().time() + _OVERDUE_S
        if len(self._held) == 1:
            self._deadline.move(due_s)
        return number

    def release(self, number: int) -> None:
        self._held.pop(number, None)
        if number in self._overdue:
            self._overdue.remove(number)
        else:
            self._free.release()

    def close(self) -> None:
        self._deadline.close()

    def _return_overdue(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for number, due_s in [*self._held.items()]:
            if due_s > now_s:
                self._deadline.move(due_s)
                break
            del self._held[number]
            if len(self._overdue) < self._most_overdue:
                self._overdue.add(number)
                self._free.release()


class _Connection(asyncio.Protocol):
    """One connection, with one request at a time."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_since_s = 0.0
        self._transport: asyncio.Transport | None = None
        self._reader = AnswerReader()
        self._answer: asyncio.Future[ServerResponse] | None = None
        self._silence = MovingDeadline(self._end_silence)
        self._whole_until_s: float | None = None
        self._news = select.poll()
        # Whether the event loop has processed the end of the connection.
        self.is_spent = False

    @property
    def has_answered(self) -> bool:
        """Whether a part of the response to the last request has arrived."""
        return self._reader.has_begun

    def is_usable(self) -> bool:
        """Whether the server has not closed its end, including an end not yet processed."""
        return not self.is_spent and not self._news.poll(0)

    async def send(self, request: bytes, ends_with_silence: bool) -> ServerResponse:
        """Send a request and return the response. TimeoutError: the server was silent."""
        if self._transport is None or self.is_spent:
            raise ConnectionResetError("server disconnected")
        loop = asyncio.get_running_loop()
        self._reader = AnswerReader()
        self._answer = loop.create_future()
        self._transport.write(request)
        if ends_with_silence:
            self._whole_until_s = loop.time() + _WHOLE_S
            self._limit_silence()
        try:
            return await self._answer
        finally:
            self._answer = self._whole_until_s = None
            self._silence.lift()

    def close(self) -> None:
        self.is_spent = True
        self._silence.close()
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._news.register(transport.get_extra_info("socket"), _HANGUP)

    def data_received(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.close()  # bytes without a request
            return
        try:
            answer = self._reader.feed(data)
        except HttpError as exc:
            self._fail(exc)
            self.close()
            return
        if answer is None:
            self._limit_silence()
            return
        self.is_spent = self.is_spent or not self._reader.keeps_connection
        self._answer.set_result(answer)

    def eof_received(self) -> None:
        self.is_spent = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_spent = True
        self._silence.close()
        if self._answer is None or self._answer.done():
            return
        answer = self._reader.end() if exc is None else None
        if answer is not None:
            self._answer.set_result(answer)
        else:
            # After any error of TLS or the network, the request may have been executed.
            self._fail(ConnectionResetError(str(exc or "server disconnected")))

    def _limit_silence(self) -> None:
        """Wait for more bytes from now on, until the limit of the whole response."""
        if self._whole_until_s is not None:
            now_s = asyncio.get_running_loop().time()
            self._silence.move(min(now_s + _SILENCE_S, self._whole_until_s))

    def _end_silence(self) -> None:
        self._fail(TimeoutError("the server was silent"))

    def _fail(self, exc: Exception) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc)


def open_socket(family: int, kind: int, protocol: int) -> socket.socket:
    """Open a socket that detects a lost peer within a minute."""
    opened = socket.socket(family, kind, protocol)
    opened.setblocking(False)
    opened.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 30),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _PEER_GONE_MS),
    ):
        if hasattr(socket, name):
            opened.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return opened
