"""An API server and its clients on virtual time, with a faulty network between them.

Everything except the sockets is real: `HttpApi` sends the requests, and the `ApiService` of the
embedded server handles them. A sent request continues without its sender, as on a real network: a
client that abandons a request does not undo it.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver import Store
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.served_watch import ServedWatch
from kubesched.cluster.apiserver.store.store_watch import WatchedChange
from kubesched.cluster.apiserver.store.wire_form import status_body
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.transport import (
    OutgoingRequest,
    ResponseStream,
    ServerResponse,
    TransportError,
    with_timeout,
)
from kubesched.foundation.http.http_messages import Query, Request, Response
from kubesched.foundation.util.clock import MILLISECOND, SECOND, Clock, current_clock

TIMED_OUT = ServerResponse(
    504, b'{"kind":"Status","status":"Failure","reason":"Timeout","code":504,"message":"timed out"}'
)


_LATE_S = 0.01
SILENCE_S = 90
"""After which the real transport gives a connection up."""


class Trouble(msgspec.Struct, frozen=True):
    """The fault of one request."""

    refused: bool = False
    queued_ns: int = 0
    """Until the client has a connection."""
    lost: bool = False
    """It never arrives, and the connection breaks."""
    travel_ns: int = MILLISECOND
    server_ns: int = 0
    """The delay of the server before it executes the request."""
    answer: ServerResponse | None = None
    """A response that replaces that of the server."""
    answer_ns: int = 0
    answer_lost: bool = False
    stalls: bool = False
    """No response ever arrives, and the connection stays open."""
    again_ns: int = 0
    """After which the request arrives a second time, as from a proxy that tries again."""
    garbled: bytes = b""
    """Bytes that the client reads instead of the response."""


CALM = Trouble()
Mangled = bytes | TransportError | tuple[bytes, TransportError]
"""Lines as they arrive, a broken connection, or both in this order."""


class Machine:
    """The machine of a client. While it is suspended nothing runs, not even expired timers."""

    def __init__(self, clock: Clock, rate: float = 1.0, awake: asyncio.Event | None = None) -> None:
        self.clock, self.rate = clock, rate
        self.awake = awake or asyncio.Event()
        self.awake.set()
        self.is_dead = False
        """Whether the process was killed: it sends nothing any more."""


class Network:
    """One server, and the requests and responses in flight."""

    def __init__(self, store: Store | None = None) -> None:
        self.clock = current_clock()
        self.store = store or Store(random.Random(0), now_ns=self.clock.now_ns())
        self._service = ApiService(self.store, self.clock)
        self.trouble: Callable[[OutgoingRequest], Trouble | None] = lambda _: None
        self.usual: Callable[[OutgoingRequest], Trouble] = lambda _: CALM
        """What happens to a request without trouble."""
        self.on_sent: Callable[[str, OutgoingRequest], None] = lambda *_: None
        self.on_connecting: Callable[[str, OutgoingRequest], None] = lambda *_: None
        """Called before a request has a connection."""
        self.on_applied: Callable[[str, OutgoingRequest, ServerResponse], None] = lambda *_: None
        self.on_answered: Callable[[str, OutgoingRequest, ServerResponse], None] = lambda *_: None
        """Called when the sender has received the response."""
        self.mangle: Callable[[str, bytes], Mangled] = lambda _, lines: lines
        """What becomes of the lines of a watch, given its target."""
        self.acting = ""
        """Whose request is being carried out."""
        self.skips = False
        """Whether watches merge several changes of an object into one event."""
        self.replays = 0
        """The number of revisions by which a watch begins before the requested one."""
        self.faults: Counter[str] = Counter()
        """How often watches skipped or replayed something that there was."""
        self.chunk_size = 1 << 20
        self.is_up = True
        self.requests: list[tuple[str, OutgoingRequest]] = []
        # In the order in which they began: a run is to repeat itself.
        self._under_way: dict[asyncio.Task[None], None] = {}
        self._streams: dict[_Stream, None] = {}

    def client(self, name: str = "client", machine: Machine | None = None, **more: Any) -> HttpApi:
        clock = self.clock if machine is None else machine.clock
        options: dict[str, Any] = {"qps": -1.0, **more}
        transport = _Transport(self, name, machine or Machine(clock))
        return HttpApi(transport, clock, random.Random(name), **options)

    def count(self, method: str = "", part: str = "") -> int:
        return sum(r.method.startswith(method) and part in r.target for _, r in self.requests)

    def go_down(self) -> None:
        """Kill the server: everything in flight is lost, and connections are refused."""
        self.is_up = False
        for task in list(self._under_way):
            task.cancel()
        self.break_streams()

    def come_up(self, *, forgetful: bool = False) -> None:
        """Start the server with its stored objects, optionally without the history of changes."""
        self.is_up = True
        if forgetful:
            self.compact()

    def restart_on(self, store: Store) -> None:
        """Start the server again on another store, which was read back from a file."""
        self.store = store
        self._service = ApiService(store, self.clock)
        self.is_up = True

    def compact(self) -> None:
        """Drop the whole history: no watch can be resumed from an earlier revision."""
        self.store.compact()

    def break_streams(self, error: TransportError | None = None) -> None:
        for stream in list(self._streams):
            stream.end(error or TransportError("connection lost", "reset"))

    def end_streams(self) -> None:
        """End every watch in an orderly way."""
        for stream in list(self._streams):
            stream.end(None)

    def stall_streams(self) -> None:
        """Leave every open watch without a sign of life for ever."""
        for stream in self._streams:
            stream.is_stalled = True

    @property
    def watches(self) -> int:
        return len(self._streams)

    # The server's side

    def arrive(
        self, name: str, request: OutgoingRequest, trouble: Trouble
    ) -> asyncio.Future[ServerResponse]:
        answered: asyncio.Future[ServerResponse] = asyncio.get_running_loop().create_future()
        self.requests.append((name, request))
        task = asyncio.create_task(self._process(name, request, trouble, answered), name="network")
        self._under_way[task] = None
        task.add_done_callback(lambda done: self._over(done, answered))
        return answered

    def _over(self, task: asyncio.Task[None], answered: asyncio.Future[ServerResponse]) -> None:
        self._under_way.pop(task, None)
        if not answered.done() and task.cancelled():
            answered.set_exception(TransportError("connection lost", "reset"))
            answered.exception()  # its sender may have been cancelled

    async def _process(
        self,
        name: str,
        request: OutgoingRequest,
        trouble: Trouble,
        answered: asyncio.Future[ServerResponse],
    ) -> None:
        await self.clock.sleep(trouble.travel_ns)
        lost = TransportError("connection lost", "reset")
        answer = trouble.answer
        if answer is None and not trouble.lost:
            limit_ns = _limit_ns(request)
            await self.clock.sleep(min(trouble.server_ns, limit_ns))
            answer = TIMED_OUT
            # As real ones do: nothing is stored for a request whose time is over.
            if trouble.server_ns < limit_ns:
                answer = self._carry_out(name, request)
            if trouble.again_ns and trouble.server_ns + trouble.again_ns < limit_ns:
                await self.clock.sleep(trouble.again_ns)
                answer = self._carry_out(name, request)
        await self.clock.sleep(trouble.answer_ns)
        if trouble.stalls:
            await asyncio.Event().wait()
        if answered.done():
            return
        if answer is None or trouble.answer_lost:
            answered.set_exception(lost)
            answered.exception()
        elif trouble.garbled:
            answered.set_result(msgspec.structs.replace(answer, body=trouble.garbled))
        else:
            answered.set_result(answer)

    def _carry_out(self, name: str, request: OutgoingRequest) -> ServerResponse:
        self.acting = name
        try:
            answer = self.answer(request)
            self.on_applied(name, request, answer)
        finally:
            self.acting = ""
        return answer

    def answer(self, request: OutgoingRequest) -> ServerResponse:
        got = self._service.answer(_as_served(request))
        assert isinstance(got, Response)
        return ServerResponse(got.status, got.body, got.headers)

    def open(self, request: OutgoingRequest) -> _Stream:
        served = _as_served(request)
        version = served.query.get("resourceVersion", "")
        if self.replays and version.isdecimal() and "sendInitialEvents" not in served.query:
            earlier = str(max(1, int(version) - self.replays))
            query = {**dict(served.query), "resourceVersion": earlier}
            served = msgspec.structs.replace(served, query=Query(query.items()))
        got = self._service.answer(served)
        is_replay = served.query.get("resourceVersion", "") != version
        self.faults["watches replay"] += is_replay
        if is_replay and isinstance(got, Response):  # it is too old for that
            got = self._service.answer(_as_served(request))
        stream = _Stream(self, request.target, got)
        self._streams[stream] = None
        return stream

    def forget(self, stream: _Stream) -> None:
        self._streams.pop(stream, None)


class _Transport:
    host = "virtual:6443"
    base_url = "https://virtual:6443"

    def __init__(self, network: Network, name: str, machine: Machine) -> None:
        self._network, self._name, self._machine = network, name, machine

    async def send(self, request: OutgoingRequest) -> ServerResponse:
        try:
            limit_s = request.timeout_ns / SECOND / self._machine.rate
            async with asyncio.timeout(limit_s or SILENCE_S) as timer:
                return await self._send(request, timer)
        except TimeoutError:
            raise TransportError("timed out", "timeout") from None

    async def _send(self, request: OutgoingRequest, timer: asyncio.Timeout) -> ServerResponse:
        trouble = self._network.trouble(request) or self._network.usual(request)
        self._network.on_connecting(self._name, request)
        if not self._machine.awake.is_set():
            # A suspended process has no timers either. When it resumes, work that was due runs
            # before timers that are late.
            when = timer.when()
            timer.reschedule(None)
            await self._machine.awake.wait()
            timer.reschedule(max(when or 0.0, asyncio.get_running_loop().time() + _LATE_S))
        await self._connect(trouble)
        if request.before_send is not None:
            target = with_timeout(request.target, request.before_send())
            request = msgspec.structs.replace(request, target=target)
        self._network.on_sent(self._name, request)
        answer = await self._network.arrive(self._name, request, trouble)
        await self._machine.awake.wait()
        self._network.on_answered(self._name, request, answer)
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, request: OutgoingRequest) -> AsyncIterator[ResponseStream]:
        trouble = self._network.trouble(request) or self._network.usual(request)
        await self._connect(trouble)
        self._network.requests.append((self._name, request))
        if trouble.lost:
            raise TransportError("connection lost", "reset")
        await self._network.clock.sleep(trouble.travel_ns)
        if trouble.answer is not None:
            yield _Refused(trouble.answer)
            return
        stream = self._network.open(request)
        stream.awake = self._machine.awake
        try:
            yield stream
        finally:
            stream.close()

    async def close(self) -> None:
        pass

    async def _connect(self, trouble: Trouble) -> None:
        await self._network.clock.sleep(trouble.queued_ns)
        await self._machine.awake.wait()
        if self._machine.is_dead or trouble.refused or not self._network.is_up:
            raise TransportError("connection refused", "refused")


class _Refused:
    def __init__(self, answer: ServerResponse) -> None:
        self.status, self.headers, self._body = answer.status, answer.headers, answer.body

    async def read_chunk(self) -> bytes:
        return b""

    async def read(self) -> bytes:
        return self._body


class _Stream:
    """An open watch."""

    def __init__(
        self,
        network: Network,
        target: str,
        served: Response | ServedWatch,
    ) -> None:
        self._network, self._target = network, target
        self.awake: asyncio.Event | None = None
        self.headers: Mapping[str, str] = {}
        self._body = b""
        self._served: ServedWatch | None = None
        self._waiting = b""
        self._changed = asyncio.Event()
        self._error: TransportError | None = None
        self._is_over = self.is_stalled = False
        if isinstance(served, Response):
            # Also a watch that ends with its first event: all of it is there at once.
            self.status, self._body, self._waiting = served.status, served.body, served.body
            self._is_over = True
            return
        self.status, self._served = 200, served
        self._owes_bookmark = served.initial_events
        loop, seconds = asyncio.get_running_loop(), served.timeout_seconds or 1800
        self._timer = loop.call_later(seconds, self.end, None)

    def end(self, error: TransportError | None) -> None:
        self._is_over, self._error = True, error
        if self._served is not None:
            self._changed.set()

    def close(self) -> None:
        self._network.forget(self)
        if self._served is not None:
            self._timer.cancel()

    async def _wait(self) -> None:
        assert self._served is not None
        collection = self._served.watcher.collection
        collection.call_on_change(self._changed.set)
        try:
            await self._changed.wait()
        finally:
            collection.cancel_call(self._changed.set)

    async def read(self) -> bytes:
        return self._body

    async def read_chunk(self) -> bytes:
        while not self._waiting:
            if self.awake is not None:
                await self.awake.wait()
            self._changed.clear()
            if self._is_over:
                if self._error is not None:
                    raise self._error
                return b""
            lines = b"" if self.is_stalled else self._lines()
            if lines:
                mangled = self._network.mangle(self._target, lines)
                if isinstance(mangled, TransportError):
                    raise mangled
                if isinstance(mangled, tuple):
                    self._waiting, self._error = mangled
                    self._is_over = True
                else:
                    self._waiting = mangled
            else:
                await self._wait()
        size = self._network.chunk_size
        chunk, self._waiting = self._waiting[:size], self._waiting[size:]
        return chunk

    def _lines(self) -> bytes:
        assert self._served is not None
        try:
            seen = [each for each in self._served.watcher.read() if each.record is not None]
            if self._network.skips:
                latest = _latest(seen)
                self._network.faults["watches skip"] += len(latest) < len(seen)
                seen = latest
        except ApiError as error:
            self._is_over = True
            status = msgspec.json.encode({"type": "ERROR", "object": status_body(error.status)})
            return status + b"\n"
        lines = self._served.encode(seen) if seen else b""
        if self._owes_bookmark and self._served.watcher.idle:
            self._owes_bookmark = False
            lines += self._served.bookmark(self._served.revision(), True)
        return lines


def _latest(seen: list[WatchedChange]) -> list[WatchedChange]:
    """Only the last state of each object, in the order of those."""
    last: dict[str, WatchedChange] = {}
    first: dict[str, WatchedChange] = {}
    for each in seen:
        assert each.record is not None
        first.setdefault(each.record.key, each)
        last.pop(each.record.key, None)
        last[each.record.key] = each
    return [
        each
        for key, each in last.items()
        if not (first[key].type == "ADDED" and each.type == "DELETED")
    ]


def _as_served(request: OutgoingRequest) -> Request:
    headers = {"content-type": request.content_type} if request.content_type else {}
    return Request.of(request.method, request.target, headers, request.body)


def _limit_ns(request: OutgoingRequest) -> int:
    given = dict(parse_qsl(urlsplit(request.target).query)).get("timeout", "60000ms")
    return int(given.removesuffix("ms")) * MILLISECOND
