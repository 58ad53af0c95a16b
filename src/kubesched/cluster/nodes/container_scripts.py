"""Scripted containers: what a container logs, and what commands in it print.

No container runs. Annotations of the pod give what a process would have printed:

| annotation `kubesched.io/...` | value | meaning |
|---|---|---|
| `log`, `log.CONTAINER` | text | the lines that a container logs |
| `log-interval` | duration | the time between two lines; without it all are logged at the start |
| `exec`, `exec.CONTAINER` | YAML list | the results of commands, see below |

| `port.NUMBER`, `port` | HOST:PORT | a process on this machine that port forwarding connects to |

An entry of `exec` has a `command` (a list or a text) or a `pattern` (a regular expression that the
whole command matches), and `stdout`, `stderr`, `exitCode`; `stdoutBase64` and `stderrBase64` give
bytes that are no text. The first entry that matches applies; an entry with neither matches every
command. A shell with a script of one command (`sh -c "cat FILE"`) also gets the result of that
command. Without an entry, simple commands are interpreted (`container_commands.py`) and `echo`
prints its arguments.
"""

from __future__ import annotations

import asyncio
import base64
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import yaml

from kubesched.api import Pod
from kubesched.api.pod import Container
from kubesched.cluster.apiserver.http.pod_processes import CommandResult, LogLine
from kubesched.cluster.nodes.container_commands import (
    literal_outcome,
    literal_output,
    shell_script,
)
from kubesched.cluster.nodes.pod_behavior import PREFIX, duration_ns
from kubesched.errors import KubeschedError
from kubesched.foundation.client.local_connections import open_local_connection
from kubesched.foundation.util.yaml_reader import load_yaml

__all__ = ["ContainerScripts"]

_LOG, _INTERVAL, _EXEC = PREFIX + "log", PREFIX + "log-interval", PREFIX + "exec"
_PORT = PREFIX + "port"
_NOT_SCRIPTED = (
    "kubesched: no result is scripted for this command; containers are simulated, and the "
    f"annotation {_EXEC} of the pod can give one\n"
)
_CANNOT_RUN = 126


class ContainerScripts:
    """What the processes of simulated containers print, and which process has their ports."""

    def __init__(
        self,
        rules: Callable[[Pod], Mapping[str, str]] | None = None,
        check_address: Callable[[str, int], None] = lambda _host, _port: None,
    ) -> None:
        """`rules` returns further annotations of a pod; its own have precedence.

        `check_address` raises KubeschedError for an address to which no connection is allowed.
        """
        self._rules, self._check_address = rules, check_address

    def _annotations(self, pod: Pod) -> Mapping[str, str]:
        own = pod.metadata.annotations
        return own if self._rules is None else {**self._rules(pod), **own}

    async def connect(
        self, pod: Pod, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connect to the process that an annotation names. Raises KubeschedError."""
        annotations = self._annotations(pod)
        key = f"{_PORT}.{port}"
        text = annotations.get(key, annotations.get(_PORT, ""))
        if not text:
            raise KubeschedError(
                f"nothing listens on port {port}: containers are simulated, and the annotation "
                f"{key}: HOST:PORT of the pod can name a process on this machine"
            )
        host, colon, number = text.rpartition(":")
        if not colon or not host or not number.isdecimal() or not 0 < int(number) < 65536:
            raise KubeschedError(f"annotation {key}: {text!r} is not HOST:PORT")
        host = host.strip("[]")
        self._check_address(host, int(number))
        return await open_local_connection(host, int(number))

    def log(self, pod: Pod, container: str, start_ns: int) -> list[LogLine]:
        """Return all lines of a container that started then, with their times."""
        annotations = self._annotations(pod)
        text = annotations.get(f"{_LOG}.{container}", annotations.get(_LOG))
        if text is None:
            found = _find(pod, container)
            text = "" if found is None else "".join(literal_output((*found.command, *found.args)))
        interval_ns = duration_ns(annotations.get(_INTERVAL, "")) or 0
        lines = text.splitlines()
        return [LogLine(start_ns + number * interval_ns, line) for number, line in enumerate(lines)]

    def run(self, pod: Pod, container: str, command: Sequence[str]) -> CommandResult:
        """Return the result of a command in a container."""
        try:
            annotations = self._annotations(pod)
            text = annotations.get(f"{_EXEC}.{container}", annotations.get(_EXEC, ""))
            scripted = _scripted(text, command)
        except ValueError as error:
            return CommandResult(b"", f"kubesched: annotation {_EXEC}: {error}\n".encode(), 126)
        if scripted is not None:
            return scripted
        outcome = literal_outcome(command)
        stdout, stderr = (each.encode() for each in literal_output(command))
        if outcome is None and not stdout and not stderr:
            return CommandResult(b"", _NOT_SCRIPTED.encode(), _CANNOT_RUN)
        if outcome is None:
            return CommandResult(stdout, stderr, 0)
        return CommandResult(stdout, stderr, outcome.exit_code, wait_ns=outcome.duration_ns)


def _find(pod: Pod, name: str) -> Container | None:
    containers = (*pod.spec.containers, *pod.spec.init_containers)
    return next((each for each in containers if each.name == name), None)


def _scripted(text: str, command: Sequence[str]) -> CommandResult | None:
    """Return the result that the first matching entry gives. Raises ValueError."""
    try:
        entries = load_yaml(text) if text else []
    except yaml.YAMLError as error:
        raise ValueError(f"not YAML: {str(error).splitlines()[0]}") from error
    if not isinstance(entries, list) or not all(isinstance(each, dict) for each in entries):
        raise ValueError("not a list of entries with `command`, `stdout`, `stderr`, `exitCode`")
    commands = [command]
    if (script := shell_script(command)) is not None:
        commands.append(_words(script))
    for entry in (each for words in commands for each in entries if _matches(each, words)):
        code = entry.get("exitCode", 0)
        if not isinstance(code, int) or not 0 <= code <= 255:
            raise ValueError(f"exitCode {code!r} is not a number from 0 to 255")
        return CommandResult(_output(entry, "stdout"), _output(entry, "stderr"), code)
    return None


def _words(script: str) -> list[str]:
    """Return the words of a script; one word if it cannot be split."""
    try:
        return shlex.split(script)
    except ValueError:
        return [script]


def _output(entry: dict[str, Any], key: str) -> bytes:
    """Return the bytes that an entry gives for an output. Raises ValueError."""
    encoded = entry.get(f"{key}Base64")
    if encoded is None:
        return str(entry.get(key, "")).encode()
    try:
        return base64.b64decode(str(encoded), validate=True)
    except ValueError as error:
        raise ValueError(f"{key}Base64: {error}") from error


def _matches(entry: dict[str, Any], command: Sequence[str]) -> bool:
    wanted = entry.get("command")
    if isinstance(wanted, str):
        wanted = shlex.split(wanted)
    if wanted is not None:
        return list(map(str, wanted)) == list(command)
    pattern = entry.get("pattern")
    if pattern is None:
        return True
    try:
        return re.fullmatch(str(pattern), " ".join(command), re.DOTALL) is not None
    except re.error as error:
        raise ValueError(f"pattern {pattern!r}: {error}") from error
