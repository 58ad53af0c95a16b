"""What scripted containers log, and what commands in them print."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from kubesched.api import Pod
from kubesched.cluster.apiserver.http import ApiService
from kubesched.cluster.apiserver.http.pod_processes import CommandResult
from kubesched.cluster.nodes.container_scripts import ContainerScripts
from kubesched.foundation.http.http_messages import Request, Response
from kubesched.foundation.util.clock import SECOND
from kubesched.foundation.util.virtual_loop import run
from kubesched.testing import make_pod
from tests.cluster.controllers.workloads import Workloads, workloads

Json = dict[str, Any]
PREFIX = "kubesched.io/"
RULES = """
- command: cat /etc/version
  stdout: "1.2\\n"
- command: [sh, -c, "exit 9"]
  exitCode: 3
- pattern: "ls .*"
  stderr: "nothing there\\n"
  exitCode: 2
- command: dump
  stdoutBase64: H4sIAAAAAAA=
"""


class Command(NamedTuple):
    words: list[str]
    result: tuple[str, str, int]


COMMANDS = {
    "a text": Command(["cat", "/etc/version"], ("1.2\n", "", 0)),
    "a list": Command(["sh", "-c", "exit 9"], ("", "", 3)),
    "a pattern": Command(["ls", "-l", "/"], ("", "nothing there\n", 2)),
    "a literal command": Command(["sh", "-c", "echo one two && exit 4"], ("one two\n", "", 4)),
    "echo": Command(["echo", "a", "b"], ("a b\n", "", 0)),
    "echo to the errors": Command(["sh", "-c", "echo a; echo b >&2"], ("a\n", "b\n", 0)),
    "a shell with one command": Command(["sh", "-c", "cat '/etc/version'"], ("1.2\n", "", 0)),
    "false": Command(["/bin/false"], ("", "", 1)),
}


@pytest.mark.parametrize("case", COMMANDS.values(), ids=COMMANDS)
def test_the_result_of_a_command_is_determined_by(case: Command) -> None:
    pod = make_pod("p", annotations={f"{PREFIX}exec": RULES})
    found = ContainerScripts().run(pod, "c0", case.words)
    assert (found.stdout.decode(), found.stderr.decode(), found.exit_code) == case.result


def test_a_script_can_give_bytes_that_are_no_text() -> None:
    pod = make_pod("p", annotations={f"{PREFIX}exec": RULES})
    found = ContainerScripts().run(pod, "c0", ["dump"])
    assert found.stdout == bytes.fromhex("1f8b080000000000")


def test_a_command_without_a_script_names_the_annotation() -> None:
    found = ContainerScripts().run(make_pod("p"), "c0", ["psql"])
    assert found.exit_code == 126
    assert b"kubesched.io/exec" in found.stderr


BROKEN = {
    "[": "not YAML",
    "text": "not a list",
    "[{exitCode: many}]": "exitCode 'many'",
    "[{pattern: '('}]": "pattern '('",
    "[{stdoutBase64: 'H'}]": "stdoutBase64: ",
}


@pytest.mark.parametrize("text", BROKEN)
def test_an_annotation_that_is_not_valid_is_reported_in_the_container(text: str) -> None:
    pod = make_pod("p", annotations={f"{PREFIX}exec": text})
    found: CommandResult = ContainerScripts().run(pod, "c0", ["ls"])
    assert found.exit_code == 126
    assert BROKEN[text] in found.stderr.decode()


# Logs over the API, on virtual time


def run_on_cluster(test: Callable[[Workloads, Any], Awaitable[None]]) -> None:
    async def main() -> None:
        async with workloads() as harness:
            service = ApiService(harness.api.store, harness.clock)
            service.show_processes(ContainerScripts())

            async def read(query: str = "", name: str = "p") -> tuple[int, str]:
                path = f"/api/v1/namespaces/default/pods/{name}/log?{query}"
                response = service.answer(Request.of("GET", path))
                assert isinstance(response, Response)
                body = response.body
                if response.stream is not None:
                    body = b"".join([chunk async for chunk in response.stream])
                if response.status != 200:
                    return response.status, json.loads(body)["message"]
                return response.status, body.decode()

            await test(harness, read)

    run(main)


async def create(harness: Workloads, containers: Json | list[Json], **annotations: str) -> None:
    listed = containers if isinstance(containers, list) else [containers]
    named = {f"{PREFIX}{key.replace('_', '-')}": value for key, value in annotations.items()}
    body = {"metadata": {"name": "p", "annotations": named}, "spec": {"containers": listed}}
    await harness.create(Pod, body)
    await harness.settle(2)


ONE = {"name": "c", "image": "nginx"}


def test_the_log_of_a_container_is_its_annotation() -> None:
    async def test(harness: Workloads, read: Any) -> None:
        await create(harness, ONE, log="one\ntwo\nthree")
        assert await read() == (200, "one\ntwo\nthree\n")
        assert await read("tailLines=1") == (200, "three\n")
        assert await read("limitBytes=5") == (200, "one\nt")
        _status, text = await read("timestamps=true&tailLines=1")
        started = (await harness.get(Pod, "p")).status.container_statuses[0].state.running
        assert started is not None
        assert text == f"{(started.started_at or '')[:-1]}.000000000Z three\n"
        assert await read("tailLines=x") == (
            400,
            "tailLines: 'x' is not a number of at least 0",
        )

    run_on_cluster(test)


def test_lines_are_written_over_time_and_followed_to_the_end() -> None:
    async def test(harness: Workloads, read: Any) -> None:
        await create(harness, ONE, log="a\nb\nc\nd", log_interval="4s", run_duration="9s")
        assert await read() == (200, "a\n")
        assert await read("follow=true") == (200, "a\nb\nc\n")  # the pod ends before the last
        assert await read() == (200, "a\nb\nc\n")

    run_on_cluster(test)


def test_each_container_has_a_log() -> None:
    async def test(harness: Workloads, read: Any) -> None:
        second = {"name": "d", "image": "nginx", "command": ["sh", "-c", "echo hi; sleep 600"]}
        await create(harness, [ONE, second], **{"log.c": "mine"})
        assert await read() == (
            400,
            "a container name must be specified for pod p, choose one of: [c d]",
        )
        assert await read("container=c") == (200, "mine\n")
        assert await read("container=d") == (200, "hi\n")
        assert await read("container=x") == (400, "container x is not valid for pod p")
        assert await read("container=c&previous=true") == (
            400,
            'previous terminated container "c" in pod "p" not found',
        )

    run_on_cluster(test)


def test_a_container_that_has_not_started_has_no_log() -> None:
    async def test(harness: Workloads, read: Any) -> None:
        await create(harness, ONE, start_delay="60s")
        status, text = await read()
        assert (status, text) == (
            400,
            'container "c" in pod "p" is waiting to start: ContainerCreating',
        )
        await harness.clock.sleep(60 * SECOND)
        assert await read() == (200, "")
        assert (await read(name="none"))[0] == 404

    run_on_cluster(test)
