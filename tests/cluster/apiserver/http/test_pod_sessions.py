"""Interactive shells, and port forwarding over the channels of a WebSocket."""

from __future__ import annotations

import asyncio
from typing import NamedTuple

import pytest

from kubesched.api.access import ApiError
from kubesched.cluster.apiserver.http.channel_forwarding import ChannelForwarding, forwarded_ports
from kubesched.cluster.apiserver.http.interactive_shell import (
    InteractiveShell,
    is_interactive_shell,
)
from kubesched.cluster.apiserver.http.remote_commands import WebSocketCommand
from kubesched.errors import KubeschedError
from kubesched.foundation.http.http_messages import Query


class Client:
    """A client's end of a WebSocket: it sends what it is given, and records what it receives."""

    def __init__(self, *messages: bytes) -> None:
        self._to_server: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.received: list[bytes] = []
        self.has_received = asyncio.Event()
        for message in messages:
            self.give(message)

    def give(self, message: bytes | None) -> None:
        self._to_server.put_nowait(message)

    async def send(self, message: bytes) -> None:
        self.received.append(message)
        self.has_received.set()

    async def receive(self) -> bytes | None:
        return await self._to_server.get()

    async def wait_closed(self) -> None:
        while await self.receive() is not None:
            pass

    async def wait_for(self, message: bytes) -> None:
        while message not in self.received:
            self.has_received.clear()
            await self.has_received.wait()

    def channel(self, number: int) -> bytes:
        return b"".join(each[1:] for each in self.received if each[0] == number)


async def run_line(line: str) -> tuple[bytes, bytes, int | None]:
    """Run `print TEXT`, `fail` and `hang`."""
    match line.split():
        case ["print", text]:
            return f"{text}\n".encode(), b"", 0
        case ["hang"]:
            return b"", b"", None
        case _:
            return b"", b"failed\n", 4


class Session(NamedTuple):
    given: list[bytes]
    stdout: bytes
    stderr: bytes
    exit_code: int
    has_terminal: bool = False


SESSIONS = {
    "lines in one message": Session([b"\0print a\nprint b\nexit\n"], b"a\nb\n", b"", 0),
    "a line in several messages": Session([b"\0pri", b"\0nt a\nexit 3\n"], b"a\n", b"", 3),
    "the code of the last command": Session([b"\0fail\nexit\n"], b"", b"failed\n", 4),
    "the end of the input": Session([b"\0fail\nprint a", b"\xff\0"], b"a\n", b"failed\n", 0),
    "messages of other channels": Session([b"\4{}", b"\0exit 2\n"], b"", b"", 2),
    "an empty line": Session([b"\0\n \nexit\n"], b"", b"", 0),
    "a code that is no number": Session([b"\0fail\nexit now\n"], b"", b"failed\n", 4),
    "keys of a terminal": Session(
        [b"\0print ax", b"\0\x7f\r\x04"],
        b"$ print ax\b \b\r\na\r\n$ ",
        b"",
        0,
        has_terminal=True,
    ),
    "Ctrl-C while a command runs": Session(
        [b"\0hang\r", b"\0\x03", b"\0exit\r"],
        b"$ hang\r\n$ exit\r\n",
        b"",
        130,
        has_terminal=True,
    ),
    "Ctrl-C in a line": Session(
        [b"\0fail\x03exit\r"], b"$ fail^C\r\n$ exit\r\n", b"", 0, has_terminal=True
    ),
}


@pytest.mark.parametrize("case", SESSIONS.values(), ids=SESSIONS)
def test_a_shell_runs(case: Session) -> None:
    async def main() -> Client:
        client = Client(*case.given)
        shell = InteractiveShell(run_line, has_terminal=case.has_terminal)
        await asyncio.wait_for(WebSocketCommand(shell)(client), 30)
        return client

    client = asyncio.run(main())
    assert (client.channel(1), client.channel(2)) == (case.stdout, case.stderr)
    status = client.channel(3).decode()
    assert ('"status":"Success"' in status) == (case.exit_code == 0)
    if case.exit_code:
        assert f'"reason":"ExitCode","message":"{case.exit_code}"' in status


@pytest.mark.parametrize(
    ("command", "is_one"),
    [
        (["/bin/sh"], True),
        (["bash", "-i"], True),
        (["sh", "-c", "exit"], False),
        (["sh", "script.sh"], False),
        (["psql"], False),
    ],
)
def test_a_shell_without_a_script_is_interactive(command: list[str], is_one: bool) -> None:
    assert is_interactive_shell(command) == is_one


def test_ports_are_forwarded_over_channels() -> None:
    async def shout(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(100):
            writer.write(chunk.upper())
        writer.close()

    async def main() -> Client:
        server = await asyncio.start_server(shout, "127.0.0.1", 0)
        local = server.sockets[0].getsockname()[1]

        async def connect(port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            if port == 1026:
                raise KubeschedError("nothing listens")
            return await asyncio.open_connection("127.0.0.1", local)

        client = Client(b"\0one", b"\4three", b"\2to nobody", b"\x09no channel", b"\0", b"")
        session = asyncio.create_task(ChannelForwarding([1, 1026, 3], connect)(client))
        await asyncio.wait_for(client.wait_for(b"\0ONE"), 30)
        await asyncio.wait_for(client.wait_for(b"\4THREE"), 30)
        client.give(None)
        await asyncio.wait_for(session, 30)
        server.close()
        return client

    client = asyncio.run(main())
    # 1026 is 0x0402: the low byte comes first.
    assert client.received[:6] == [
        b"\0\1\0",
        b"\1\1\0",
        b"\2\2\4",
        b"\3\2\4",
        b"\4\3\0",
        b"\5\3\0",
    ]
    assert client.channel(3)[2:] == b"error forwarding port 1026 to pod: nothing listens"
    assert (client.channel(1)[2:], client.channel(5)[2:]) == (b"", b"")


def test_a_session_ends_with_the_connections_of_all_processes() -> None:
    async def leave(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"bye")
        writer.close()

    async def main() -> Client:
        server = await asyncio.start_server(leave, "127.0.0.1", 0)
        local = server.sockets[0].getsockname()[1]
        client = Client()
        session = ChannelForwarding([80], lambda _: asyncio.open_connection("127.0.0.1", local))
        await asyncio.wait_for(session(client), 30)
        server.close()
        return client

    assert asyncio.run(main()).channel(0)[2:] == b"bye"


def test_the_ports_of_a_request() -> None:
    assert forwarded_ports(Query([("ports", "1,2"), ("ports", "65535")])) == [1, 2, 65535]


@pytest.mark.parametrize("text", ["", "0", "65536", "http", "-1", "1,,2", "000080" + "0" * 5000])
def test_other_ports_are_refused(text: str) -> None:
    with pytest.raises(ApiError) as refusal:
        forwarded_ports(Query([("ports", text)]))
    assert refusal.value.status.code == 400


def test_a_request_without_ports_is_refused() -> None:
    with pytest.raises(ApiError) as refusal:
        forwarded_ports(Query([]))
    assert refusal.value.status.code == 400
