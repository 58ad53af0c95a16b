"""The client against the recorded responses of a real API server, byte by byte over a socket.

The server is a plain socket that sends given bytes, split and framed in every way that HTTP/1.1
allows. The client must not depend on details of the embedded server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kubesched.api import ApiError, Lease, Node, Pod
from kubesched.foundation.client.http_api import HttpApi
from kubesched.foundation.client.http_transport import Connection, HttpTransport
from kubesched.foundation.client.informer import SharedInformer
from kubesched.foundation.client.transport import OutgoingRequest
from kubesched.foundation.util.clock import RealClock
from kubesched.foundation.util.components import running
from tests.foundation.client.recordings import body_of, load

STANDARD = (
    b"Audit-Id: 1\r\nCache-Control: no-cache, private\r\nDate: Sun, 01 Jan 2023 00:00:00 GMT\r\n"
)


@pytest.fixture(scope="module")
def wire(goldens: Path) -> dict[str, dict[str, Any]]:
    return load(goldens)


class Sent(NamedTuple):
    """One response: its bytes in pieces, and whether the server then closes the connection."""

    pieces: Sequence[bytes]
    closes: bool = False


class Asked(NamedTuple):
    line: str
    headers: dict[str, str]
    body: bytes
    connection: int


class RawServer:
    """Responds to requests in order with given responses."""

    def __init__(self, answers: Sequence[Sent]) -> None:
        self._answers = list(answers)
        self.asked: list[Asked] = []
        self.connections = 0

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._converse, "127.0.0.1", 0)
        try:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        finally:
            server.close()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        number = self.connections
        try:
            while self._answers:
                self.asked.append(await self._read(reader, number))
                sent = self._answers.pop(0)
                for piece in sent.pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0)
                if sent.closes:
                    break
            else:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    async def _read(self, reader: asyncio.StreamReader, number: int) -> Asked:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().splitlines()
        headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in head[1:-1])}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        return Asked(head[0], headers, body, number)


def with_length(status: int, body: bytes, kind: str = "application/json") -> list[bytes]:
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n"
    return [head.encode() + STANDARD + b"\r\n" + body]


def in_chunks(status: int, body: bytes, size: int) -> list[bytes]:
    head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\n".encode()
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    framed = [b"%x;extension=1\r\n%s\r\n" % (len(part), part) for part in parts]
    ending = b"0\r\nTrailer: x\r\n\r\n"
    return [head + STANDARD + b"Transfer-Encoding: chunked\r\n\r\n", *framed, ending]


def until_the_end(status: int, body: bytes) -> list[bytes]:
    return [f"HTTP/1.1 {status} X\r\nConnection: close\r\n\r\n".encode() + body]


def cut(pieces: Sequence[bytes], size: int) -> list[bytes]:
    """Cut the same bytes into other pieces."""
    text = b"".join(pieces)
    return [text[i : i + size] for i in range(0, len(text), size)]


FRAMES: dict[str, Callable[[int, bytes], Sent]] = {
    "in one piece": lambda status, body: Sent(with_length(status, body)),
    "in pieces of 100 bytes": lambda status, body: Sent(cut(with_length(status, body), 100)),
    "in chunks of 13 bytes": lambda status, body: Sent(in_chunks(status, body, 13)),
    "in chunks that are cut anywhere": lambda status, body: Sent(
        cut(in_chunks(status, body, 97), 31)
    ),
    "after a sign that it is coming": lambda status, body: Sent(
        [b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", *with_length(status, body)]
    ),
    "until the connection ends": lambda status, body: Sent(until_the_end(status, body), True),
}

CALLS: dict[str, tuple[str, Callable[[HttpApi], Awaitable[Any]]]] = {
    "an object": ("get node", lambda api: api.get(Node, "w1")),
    "a list": ("list limit", lambda api: api.list(Pod, limit=2)),
    "a new lease": ("create lease", lambda api: api.create(Lease())),
    "a binding": ("bind", lambda api: api.bind("default", "p1", "u", "n")),
    "a deletion": ("delete pod now", lambda api: api.delete(Pod, "p1", "default")),
    "a condition": (
        "patch pod status condition",
        lambda api: api.patch(Pod, "p1", "default", {}, subresource="status"),
    ),
    "a conflict": ("bind again", lambda api: api.bind("default", "p1", "u", "n")),
    "a missing object": ("get node missing", lambda api: api.get(Node, "none")),
    "a page in plain text": ("unknown path", lambda api: api.get(Node, "none")),
    "a refusal": ("anonymous", lambda api: api.list(Node)),
}


def ask(server: RawServer, steps: Callable[[HttpApi], Awaitable[Any]]) -> Any:
    async def main() -> Any:
        async with server.serving() as url, asyncio.timeout(30):
            transport = HttpTransport(Connection(server=url))
            api = HttpApi(transport, RealClock(), random.Random(1), qps=-1, burst=0)
            try:
                return await steps(api)
            finally:
                await api.close()

    return asyncio.run(main())


def outcome(server: RawServer, call: Callable[[HttpApi], Awaitable[Any]]) -> Any:
    try:
        return ask(server, call)
    except ApiError as error:
        return error.status


@pytest.mark.parametrize(("recorded", "call"), CALLS.values(), ids=CALLS)
def test_however_it_is_framed_an_answer_is_the_same(
    recorded: str, call: Callable[[HttpApi], Awaitable[Any]], wire: dict[str, dict[str, Any]]
) -> None:
    response = wire[recorded]["response"]
    body = body_of(response["body"])
    got = [outcome(RawServer([frame(response["status"], body)]), call) for frame in FRAMES.values()]
    assert got == [got[0]] * len(FRAMES)
    if response["status"] >= 400 and isinstance(response["body"], dict):
        assert (got[0].code, got[0].message) == (response["status"], response["body"]["message"])
    elif response["status"] >= 400:
        assert got[0].code == response["status"]


def test_every_recorded_answer_is_read_as_what_it_is(wire: dict[str, dict[str, Any]]) -> None:
    """Send all responses, one after another over one connection."""
    exchanges = [each for each in wire.values() if "body" in each["response"]]
    answers = [
        Sent(in_chunks(each["response"]["status"], body_of(each["response"]["body"]), 1000))
        for each in exchanges
    ]
    server = RawServer(answers)

    async def main() -> None:
        async with server.serving() as url, asyncio.timeout(30):
            transport = HttpTransport(Connection(server=url))
            for each in exchanges:
                request = each["request"]
                sent = OutgoingRequest(request["method"], request["path"], body_of(request["body"]))
                got = await transport.send(sent)
                assert got.status == each["response"]["status"], each["name"]
                assert got.body == body_of(each["response"]["body"]), each["name"]
            await transport.close()

    asyncio.run(main())
    assert len(server.asked) == len(exchanges)
    assert server.connections == 1


def test_the_requested_output_is_json_only(wire: dict[str, dict[str, Any]]) -> None:
    server = RawServer([FRAMES["in one piece"](201, body_of(wire["bind"]["response"]["body"]))])
    ask(server, lambda api: api.bind("default", "p1", "u", "n"))
    (asked,) = server.asked
    assert asked.line == "POST /api/v1/namespaces/default/pods/p1/binding HTTP/1.1"
    assert asked.headers["accept"] == asked.headers["content-type"] == "application/json"
    assert "accept-encoding" not in asked.headers
    assert "expect" not in asked.headers
    assert json.loads(asked.body)["target"] == {"kind": "Node", "name": "n"}


def test_a_connection_that_the_server_closed_between_requests_costs_nothing(
    wire: dict[str, dict[str, Any]],
) -> None:
    body = body_of(wire["bind"]["response"]["body"])
    server = RawServer([Sent(with_length(201, body), closes=True)] * 3)

    async def steps(api: HttpApi) -> None:
        for _ in range(3):
            await api.bind("default", "p1", "u", "n")
            await asyncio.sleep(0.05)  # long enough for the end to arrive

    ask(server, steps)
    assert [asked.connection for asked in server.asked] == [1, 2, 3]


def test_a_read_on_a_closed_idle_connection_is_repeated(
    wire: dict[str, dict[str, Any]],
) -> None:
    body = body_of(wire["get node"]["response"]["body"])
    server = RawServer([Sent(with_length(200, body)), Sent([], True), Sent(with_length(200, body))])

    async def steps(api: HttpApi) -> None:
        await api.get(Node, "w1")
        await api.get(Node, "w1")

    ask(server, steps)
    assert len(server.asked) == 3


def test_a_write_on_a_closed_idle_connection_is_not_repeated(
    wire: dict[str, dict[str, Any]],
) -> None:
    body = body_of(wire["bind"]["response"]["body"])
    server = RawServer([Sent(with_length(201, body)), Sent([], True), Sent(with_length(201, body))])

    async def steps(api: HttpApi) -> None:
        await api.bind("default", "p1", "u", "n")
        with pytest.raises(ApiError) as lost:
            await api.bind("default", "p1", "u", "n")
        assert lost.value.code == 0

    ask(server, steps)
    assert len(server.asked) == 2


# Lists


def a_node(number: int) -> dict[str, Any]:
    """Make a node of realistic size, without kind and version as in real lists."""
    return {
        "metadata": {
            "name": f"node-{number:05}",
            "uid": f"uid-{number}",
            "resourceVersion": str(number + 1),
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {"x": "y" * 1500}}}],
            "annotations": None,
        },
        "spec": {"podCIDR": "10.0.0.0/24", "taints": None, "ofTheFuture": {"a": [1, None]}},
        "status": {
            "allocatable": {"cpu": "8", "memory": "32Gi", "pods": "110"},
            "images": [{"names": [f"registry/image:{n}"], "sizeBytes": 1 << 28} for n in range(20)],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def test_five_thousand_nodes_in_one_page() -> None:
    page = {
        "kind": "NodeList",
        "apiVersion": "v1",
        "metadata": {"resourceVersion": "7000", "remainingItemCount": None},
        "items": [a_node(number) for number in range(5_000)],
    }
    body = json.dumps(page).encode()
    assert len(body) > 10_000_000
    server = RawServer([Sent(cut(in_chunks(200, body, 32_768), 65_000))])
    listed = ask(server, lambda api: api.list(Node))
    assert (len(listed.items), listed.resource_version) == (5_000, "7000")
    assert listed.items[-1].metadata.name == "node-04999"


EMPTY = {
    "null": b'{"kind":"NodeList","metadata":{"resourceVersion":"5"},"items":null}',
    "absent": b'{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"5"}}',
    "empty": b'{"metadata":{"resourceVersion":"5","continue":""},"items":[]}',
}


@pytest.mark.parametrize("body", EMPTY.values(), ids=EMPTY)
def test_a_list_without_items(body: bytes) -> None:
    listed = ask(RawServer([Sent(with_length(200, body))]), lambda api: api.list(Node))
    assert (list(listed.items), listed.resource_version, listed.continue_token) == ([], "5", "")


# Watches


def watch_lines(wire: dict[str, dict[str, Any]]) -> list[bytes]:
    events = wire["watch add, modify, delete"]["response"]["events"]
    return [json.dumps(event).encode() + b"\n" for event in events]


def chunked_stream(parts: Sequence[bytes]) -> list[bytes]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n"
    frames = [b"%x\r\n%s\r\n" % (len(part), part) for part in parts]
    return [head + STANDARD + b"\r\n", *frames, b"0\r\n\r\n"]


def framings(lines: list[bytes]) -> Iterator[tuple[str, list[bytes]]]:
    text = b"".join(lines)
    yield "a frame for each event", chunked_stream(lines)
    yield "all events in one frame", chunked_stream([text])
    yield "frames cut within the JSON", chunked_stream(cut([text], 11))
    yield "frames and events cut differently", cut(chunked_stream(cut([text], 700)), 333)
    yield "a frame that ends within a line", chunked_stream([text[:-20], text[-20:]])


def test_however_it_is_framed_a_watch_brings_the_same_events(
    wire: dict[str, dict[str, Any]],
) -> None:
    events = wire["watch add, modify, delete"]["response"]["events"]
    want = [(event["type"], event["object"]["metadata"]["resourceVersion"]) for event in events]

    async def steps(api: HttpApi) -> list[tuple[str, str]]:
        watch = api.watch(Pod, resource_version="1")
        return [(event.type, event.resource_version) async for event in watch]

    for name, pieces in framings(watch_lines(wire)):
        assert ask(RawServer([Sent(pieces)]), steps) == want, name


def test_an_informer_falls_back_where_the_recorded_server_does_not_stream_lists(
    wire: dict[str, dict[str, Any]],
) -> None:
    """The complete sequence, with the responses in the order of the real server."""
    refused = wire["watch with initial events"]["response"]["events"]
    listed = body_of(wire["list for watch"]["response"]["body"])
    document = json.loads(listed)
    document["metadata"].pop("continue", None)
    document["metadata"].pop("remainingItemCount", None)
    lines = watch_lines(wire)
    error = [json.dumps(event).encode() + b"\n" for event in refused]
    server = RawServer(
        [
            Sent(chunked_stream(error)),
            Sent(with_length(200, json.dumps(document).encode())),
            Sent(chunked_stream(lines)[:-1]),  # it stays open
        ]
    )

    async def steps(api: HttpApi) -> set[str]:
        informer = SharedInformer(api, Pod, RealClock(), random.Random(1), stream_lists=True)
        heard: list[str] = []
        followed = asyncio.Event()

        def add(new: Pod) -> None:
            heard.append(new.metadata.name)
            if new.metadata.name == "wp":  # which the watch brings
                followed.set()

        informer.add_handler(add)
        async with running(informer):
            await informer.wait_for_sync()
            await followed.wait()
        return set(heard)

    heard = ask(server, steps)
    assert {item["metadata"]["name"] for item in document["items"]} <= heard
    first, second, third = (asked.line for asked in server.asked)
    assert "sendInitialEvents=true" in first
    assert "resourceVersionMatch=NotOlderThan" in first
    assert "allowWatchBookmarks=true" in first
    assert "limit=500" in second
    assert f"resourceVersion={document['metadata']['resourceVersion']}" in third
    assert "watch=true" in third
